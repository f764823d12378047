"""What makes two programs different, makes their keys different."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from fpga_dynamo import Options, register_pattern, unregister_pattern
from fpga_dynamo.cache.graphs import graph_from_plain, graph_to_plain
from fpga_dynamo.cache.keys import program_key
from fpga_dynamo.cache.plain import SETTINGS, CorruptError, UnstorableError, from_plain, to_plain
from fpga_dynamo.lowering.ops.engine.int8.norm import NormParameters
from fpga_dynamo.lowering.ops.engine.int8.params import TableParameters
from fpga_dynamo.lowering.ops.quantised.packing import RequantizationParameters, UniformParameters, WeightLayout
from fpga_dynamo.lowering.patterns import TABLE
from fpga_dynamo.lowering.tracing.decompose import DECOMPOSITIONS
from fpga_dynamo.runtime.cards.card import open_card

X = torch.randn(4, 6)


def key(function: Callable[..., Any], *inputs: torch.Tensor, static: tuple[int, ...] = (), **changes: Any) -> str:
    module = make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
    target = open_card(Options()).target
    about_target = {k: v for k, v in changes.items() if k in ("uuid", "manifest")}
    about_options = {k: v for k, v in changes.items() if k not in about_target}
    options = Options.parse(about_options)
    return program_key(graph_to_plain(module), dataclasses.replace(target, **about_target), options, static)


def plus(constant: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x + constant


def test_equal_graphs_have_equal_keys() -> None:
    assert key(torch.relu, X) == key(torch.relu, torch.randn(4, 6))
    assert key(plus(torch.ones(6)), X) == key(plus(torch.ones(6)), X)
    assert key(torch.relu, X) == key(torch.relu, X, device=3, timeout=1.0, policy="eft", weight_check="full")


def test_whatever_a_program_depends_on_changes_its_key() -> None:
    keys = [
        key(torch.relu, X),
        key(torch.tanh, X),
        key(torch.relu, X.t().contiguous().t()),
        key(torch.relu, torch.randn(6, 4)),
        key(torch.relu, X.double()),
        key(torch.relu, X, static=(0,)),
        key(torch.relu, X, uuid="another"),
        key(torch.relu, X, manifest={}),
        key(torch.relu, X, partition="greedy"),
        key(torch.relu, X, strict=True),
        key(torch.relu, X, verify=True),
        key(torch.relu, X, disable=["pool"]),
        key(lambda x: x * 2, X),
        key(lambda x: x * 2.0, X),
        key(lambda x: x * 2.0000000000000004, X),
        key(lambda x: x * math.nan, X),
        key(lambda x: x * 0.0, X),
        key(lambda x: x * -0.0, X),
        key(plus(torch.zeros(6)), X),
        key(plus(torch.tensor([0.0, 0, 0, 0, 0, 1e-45])), X),
        key(plus(torch.zeros(6).double()), X),
        key(plus(torch.zeros(1, 6)), X),
        key(plus(torch.zeros(12)[::2]), X),
    ]
    twice = [(i, j) for (i, a), (j, b) in itertools.combinations(enumerate(keys), 2) if a == b]
    assert not twice


@pytest.mark.parametrize("part", ["match", "check", "lower", "macs"])
def test_patterns_of_the_users_own_are_not_cached(part: str) -> None:
    """Also a built-in one with another check."""
    changes: dict[str, Any] = {part: lambda *_: None}
    register_pattern(dataclasses.replace(TABLE.patterns()[0], name="mine", **changes))
    try:
        with pytest.raises(UnstorableError, match="pattern 'mine'"):
            key(torch.relu, X)
    finally:
        unregister_pattern("mine")


def test_a_pattern_with_other_anchors_changes_keys() -> None:
    before = key(torch.relu, X)
    register_pattern(dataclasses.replace(TABLE.patterns()[0], name="mine", anchors=()))
    try:
        assert key(torch.relu, X) != before
    finally:
        unregister_pattern("mine")


def test_decompositions_of_the_users_own_are_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DECOMPOSITIONS, torch.ops.aten.relu.default, lambda x: x.clamp(min=0))
    with pytest.raises(UnstorableError, match=r"decomposition of aten\.relu\.default"):
        key(torch.relu, X)


VALUES = [
    None, True, 0, -(1 << 70), "text", 0.1, -0.0, math.inf, 5e-324, 1j, (), (1, (2.5, None)), [1, [True]], {"a": [1]},
    slice(None, 3, -1), ..., torch.float32, torch.int64, torch.device("cpu"), torch.strided, torch.channels_last,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_as_they_were(value: Any) -> None:
    back = from_plain(to_plain(value, dict[Any, int]().__getitem__), ())
    assert (type(back), repr(back)) == (type(value), repr(value))


UNIFORM = UniformParameters(width=16, count=3, scale=0.1, greatest=128.0, result_scale=None, offset=-7)
FORM = (2, True, ((0, 2), (1,)), False)
SETTINGS_OF_PACKS = [
    UNIFORM,
    RequantizationParameters(2, 64, None, 0, 1, 5e-324, 117, 128, 0.5, 1.5, FORM, is_matrix=False),
    WeightLayout(1, 4, None, 3, adjoin=True),
    NormParameters(0.5, -3, 131, 0.25, 0.0, 1e-5, 48),
    TableParameters("pack_one_scale", UNIFORM, 1, 2, tuple(range(256))),
]


def test_every_kind_of_settings_is_listed() -> None:
    assert {type(value) for value in SETTINGS_OF_PACKS} == set(SETTINGS)


@pytest.mark.parametrize("value", SETTINGS_OF_PACKS, ids=lambda value: type(value).__name__)
def test_settings_of_packs_come_back_as_they_were(value: Any) -> None:
    back = from_plain(json.loads(json.dumps(to_plain(value, dict[Any, int]().__getitem__))), ())
    assert back == value and hash(back) == hash(value) and repr(back) == repr(value)
    with pytest.raises(CorruptError):
        from_plain(to_plain(value, dict[Any, int]().__getitem__)[:-1], ())


@pytest.mark.parametrize(
    "data",
    [
        ["float", "x"], ["node", 0], ["node", -1], ["node", True], ["dtype", "save"], ["dtype", "nn"],
        ["device", "moon"], ["eval", "1"], [], [1], {"a": 1}, 0.5, ["dict", [1]], ["slice", 1, 2, 3, 4],
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_value_is_refused(data: Any) -> None:
    with pytest.raises(CorruptError):
        from_plain(data, ())


def test_a_graph_comes_back_as_it_was() -> None:
    def function(x: torch.Tensor) -> Any:
        first, _ = x.view(2, 12).split([4, 8], 1)
        return first.sum(dim=1), torch.nn.functional.pad(x, (0, 1), value=0.5)

    module = make_fx(function, tracing_mode="fake")(X)
    plain = graph_to_plain(module)
    again = graph_from_plain(plain)
    assert str(again.graph) == str(module.graph)
    for a, b in zip(again(X), function(X), strict=True):
        assert torch.equal(a, b)
    views = {n.name: n.meta["val"] for n in again.graph.nodes}
    assert views["view"].untyped_storage()._cdata == views["x_1"].untyped_storage()._cdata, (
        "who shares memory, shares it"
    )


@pytest.mark.parametrize(
    "target", ["os.system", "builtins.eval", "aten.nothing.default", "aten.relu", "aten", "quantized.add"]
)
def test_a_graph_calls_nothing_but_pytorchs_operators(target: str) -> None:
    plain = graph_to_plain(make_fx(torch.relu, tracing_mode="fake")(X))
    assert plain[1][2] == "aten.relu.default"
    plain[1][2] = target
    with pytest.raises(CorruptError):
        graph_from_plain(plain)
