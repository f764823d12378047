"""Mistakes in patterns of users: a sentence for each, and nothing more is lost than the node's place on the card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import fpga_dynamo
from fpga_dynamo import FpgaError, Match, Pattern, PatternError, register_pattern
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.graph import GraphInfo
from fpga_dynamo.ir.view import Buffer, View
from fpga_dynamo.lowering.patterns import TABLE, registered
from tests.lowering.lowering_cases import GREEDY
from tests.lowering.triple_kit import RECIPE, TRIPLE, lower_triple, triple

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "name must be a string"),
        ({"anchors": torch.ops.lowering_test.triple.default}, "anchors must be a tuple of operators, got"),
        ({"anchors": (torch.ops.lowering_test.triple,)}, "name the ones that you mean: lowering_test.triple.default"),
        ({"anchors": ("aten.relu",)}, "anchor 'aten.relu' is not an operator such as torch.ops.aten.relu.default"),
        ({"anchors": (aten.square.default,)}, "aten.square.default is decomposed into other operators"),
        ({"opcodes": "triple"}, "opcodes must be a set of names, got 'triple'"),
        ({"lower": None}, "lower must be a function, got None"),
        ({"merge": "always"}, "merge must be a function or None, got 'always'"),
        ({"operators": {triple: 3}}, "operators must map operators to Operator"),
    ],
)
def test_a_pattern_that_could_never_work_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(FpgaError) as error:
        register_pattern(replace(TRIPLE, **change))
    assert words in str(error.value)
    assert "triple" not in TABLE.names()
    with pytest.raises(FpgaError, match="expects a Pattern, got"):
        register_pattern(lower_triple)  # type: ignore[arg-type]


def raising(*args: object) -> Any:
    raise KeyError("of the user's")


def with_command(**changes: Any) -> Callable[[Match, Emitter], Sequence[View]]:
    """A `lower` whose command says something else than it should; a field that is `...` is left out."""

    def lower(match: Match, emitter: Emitter) -> Sequence[View]:
        x = emitter.vector_rows(emitter.view(match.root.args[0]), aligned=True)  # type: ignore[arg-type]
        out = emitter.tensor(x.shape, pitch=x.strides[0])
        given: dict[str, Any] = {
            "opcode": "triple", "reads": [x], "writes": [out], "slices": 2, "input": Operand.of(x),
            "output": Operand.of(out), "count": x.strides[0] * x.shape[0], "shift": 0.5,
        }  # fmt: skip
        for name, change in changes.items():
            given[name] = change(x, out) if callable(change) else change
        given = {name: value for name, value in given.items() if value is not ...}
        emitter.command(given.pop("opcode"), **given)
        return [out]

    return lower


def returning(what: Callable[[View], Any]) -> Callable[[Match, Emitter], Any]:
    return lambda match, emitter: what(*with_command()(match, emitter))


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "match raises": ({"match": raising}, "match (line "),
    "match raises what": ({"match": raising}, 'raised KeyError: "of the user\'s"'),
    "match gives no match": ({"match": lambda *args: True}, "match returned True; it must return a Match or None"),
    "match covers nothing": (
        {"match": lambda pattern, node, graph: Match(pattern, (), ())},
        "with nodes=(); it must be a non-empty tuple of nodes",
    ),
    "match covers others": (
        {"match": lambda pattern, node, graph: Match(pattern, (node.args[0],), (node.args[0],))},
        "does not cover triple, the anchor",
    ),
    "check raises": ({"check": raising}, "check (line "),
    "check says no without a sentence": ({"check": lambda *args: False}, "check returned False; it must return None"),
    "macs is no number": ({"macs": lambda match: "many"}, "macs returned 'many'"),
    "lower raises": ({"lower": raising}, "lower (line "),
    "lower returns nothing": (
        {"lower": returning(lambda out: None)},
        "lower returned nothing; it must return a list",
    ),
    "lower returns a view": ({"lower": returning(lambda out: out)}, "lower returned a View; it must return a list"),
    "lower returns no view": ({"lower": returning(lambda out: [])}, "lower returned 0 views for 1 output(s), triple"),
    "lower returns too many": ({"lower": returning(lambda out: [out, out])}, "lower returned 2 views for 1 output(s)"),
    "lower returns buffers": ({"lower": returning(lambda out: [out.buffer])}, "it must return a View"),
    "shape": (
        {"lower": returning(lambda out: [out.permute((1, 0))])},
        "a view of shape (16, 5); the node has shape (5,",
    ),
    "strides": ({"lower": returning(lambda out: [replace(out, strides=(1,))])}, "1 strides for 2 dimensions"),
    "dtype": (
        {"lower": returning(lambda out: [replace(out, dtype=torch.int32)])},
        "of torch.int32; the node has torch.f",
    ),
    "extent": ({"lower": returning(lambda out: [replace(out, offset=400)])}, "reaches beyond its buffer"),
    "unwritten": (
        {"lower": returning(lambda out: [View(Buffer(256), out.shape, out.strides)])},
        "a view that no command has written",
    ),
    "float for an int": (
        {"lower": with_command(count=3.5)},
        "field 'count' of 'triple_command' expects int32_t, not 3.5",
    ),
    "float for a flag": (
        {"lower": with_command(count=1.0)},
        "field 'count' of 'triple_command' expects int32_t, not 1.0",
    ),
    "NaN for an int": ({"lower": with_command(count=float("nan"))}, "expects int32_t, not nan"),
    "too large": ({"lower": with_command(count=1 << 40)}, "and 1099511627776 is out of range"),
    "too large for float": ({"lower": with_command(shift=1e300)}, "is float, and 1e+300 is out of range"),
    "a string": ({"lower": with_command(shift="much")}, "expects float, not 'much'"),
    "a list": ({"lower": with_command(shift=[1.0, 2.0])}, "expects 1 value, not [1.0, 2.0]"),
    "a view for its place": (
        {"lower": with_command(input=lambda x, out: x)},
        "got a View; pass Operand.of(view)",
    ),
    "a place for a number": ({"lower": with_command(count=lambda x, out: Operand.of(x))}, "got a memory operand"),
    "half an offset": (
        {"lower": with_command(input=lambda x, out: Operand(x.buffer, 0.5))},  # type: ignore[arg-type]
        "has the offset 0.5; it must be a whole number",
    ),
    "missing field": ({"lower": with_command(shift=...)}, "lacks shift of 'triple_command'"),
    "unknown field": ({"lower": with_command(shfit=1.0)}, "has no field 'shfit'; did you mean 'shift'?"),
    "unknown opcode": ({"lower": with_command(opcode="tripel")}, "kernel sequencer has no opcode 'tripel'"),
    "reads nothing": (
        {"lower": with_command(reads=[])},
        "'input' of 'triple_command' is a memory operand in neither",
    ),
    "writes nothing": (
        {"lower": with_command(writes=[])},
        "'output' of 'triple_command' is a memory operand in neither",
    ),
    "reads no list": (
        {"lower": with_command(reads=lambda x, out: x)},
        "reads of command 'triple' must be a list of views",
    ),
    "reads what is unwritten": (
        {"lower": with_command(reads=lambda x, out: [x, out])},
        "reads View(buffer=",
    ),
    "writes an input": (
        {"lower": with_command(writes=lambda x, out: [x, out])},
        "is an input of the launch; emitter.tensor(shape) allocates",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_of_a_pattern_costs_its_node_the_card_and_nothing_else(case: str) -> None:
    change, words = MISTAKES[case]

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(triple(x, 0.5) * 2)

    x = torch.randn(5, 16)
    options = {**GREEDY, "recipe": RECIPE}
    with registered(replace(TRIPLE, **change)):
        torch._dynamo.reset()
        with pytest.warns(RuntimeWarning, match="pattern 'triple' on triple") as warned:
            report = fpga_dynamo.explain(model, x, options=options)
        assert len([w for w in warned if "pattern" in str(w.message)]) == 1
        (node,) = (node for graph in report.graphs for node in graph.nodes if node.name == "triple")
        assert node.place == "PS" and words in node.how
        assert "pattern 'triple' on triple (lowering_test.triple.default at test_pattern_mistakes.py:" in node.how
        places = {node.name: node.place for graph in report.graphs for node in graph.nodes}
        assert places["tanh"] == "PL" and report.pl_launches == 1
        with pytest.warns(RuntimeWarning, match="pattern 'triple' on triple"):
            torch.testing.assert_close(torch.compile(model, backend="fpga", options=options)(x), model(x))
        torch._dynamo.reset()
        with pytest.raises(BackendCompilerFailed) as error:
            torch.compile(model, backend="fpga", options={**options, "strict": True})(x)
        assert isinstance(error.value.inner_exception, PatternError) and words in str(error.value)


@pytest.mark.parametrize("case", ["hidden", "between"])
def test_a_match_that_cannot_run_as_one_is_refused(case: str) -> None:
    def match(pattern: Pattern, node: torch.fx.Node, graph: GraphInfo) -> Match:
        first = node.args[0] if case == "hidden" else node.args[0].args[0]  # type: ignore[union-attr]
        return Match(pattern, (first, node), (node,) if case == "hidden" else (first, node))  # type: ignore[arg-type]

    def hidden(x: torch.Tensor) -> torch.Tensor:
        return triple(y := torch.tanh(x), 0.5) + y

    def between(x: torch.Tensor) -> torch.Tensor:
        return triple(torch.exp(y := torch.tanh(x)), 0.5) + y

    model = {"hidden": hidden, "between": between}[case]
    words = {"hidden": "a Match that covers tanh", "between": "a Match that cannot run as one group"}
    x = torch.randn(5, 16)
    options = {**GREEDY, "recipe": RECIPE}
    with registered(replace(TRIPLE, match=match)), pytest.warns(RuntimeWarning, match=words[case]):
        torch.testing.assert_close(torch.compile(model, backend="fpga", options=options)(x), model(x))


def test_a_pattern_that_fails_for_some_nodes_is_used_for_the_others() -> None:
    def lower(match: Match, emitter: Emitter) -> Sequence[View]:
        return [] if match.root.args[1] == 1.0 else lower_triple(match, emitter)

    def model(x: torch.Tensor) -> torch.Tensor:
        return triple(triple(triple(x, 0.5), 1.0), 0.25)

    with registered(replace(TRIPLE, lower=lower)), pytest.warns(RuntimeWarning, match="lower returned 0 views"):
        report = fpga_dynamo.explain(model, torch.randn(5, 17), options={**GREEDY, "recipe": RECIPE})
    assert [node.place for graph in report.graphs for node in graph.nodes] == ["PL", "PS", "PL"]


def test_a_pattern_that_fails_for_every_node_is_given_up() -> None:
    calls = []

    def lower(match: Match, emitter: Emitter) -> Sequence[View]:
        calls.append(match.root.name)
        raise RuntimeError

    def model(x: torch.Tensor) -> torch.Tensor:
        for i in range(20):
            x = triple(x, i / 2)
        return torch.tanh(x)

    with registered(replace(TRIPLE, lower=lower)), pytest.warns(RuntimeWarning, match="raised RuntimeError"):
        report = fpga_dynamo.explain(model, torch.randn(5, 17), options={**GREEDY, "recipe": RECIPE})
    assert len(calls) < 8 and report.pl_launches == 1
    assert any("has failed for 3 other nodes" in node.how for graph in report.graphs for node in graph.nodes)
