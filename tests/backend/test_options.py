"""Options of torch.compile: an unknown name or a wrong value is one sentence, through Dynamo too."""

from __future__ import annotations

import dataclasses
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from fpga_dynamo import FpgaError, OptionError, Options, explain
from fpga_dynamo.runtime.scheduling.policies import policy_names

WRONG: dict[str, list[tuple[Any, str]]] = {
    "xclbin": [(3, "must be a path, not 3"), (True, "must be a path")],
    "recipe": [(["emulator"], r"must be a path, not \['emulator'\]")],
    "platform": [(3, "must be a path, not 3"), ("", "must be a path")],
    "driver": [("xilinx", "emulated, xrt, pyxrt, not 'xilinx'"), (0, "must be one of"), ([], "must be one of")],
    "device": [("0", "an address such as tcp://"), (True, "type int, not True"), (1.0, "type int"),
               (-1, "index of a card"), (1 << 40, "index of a card, not 1099511627776")],
    "policy": [("eftt", "must be one of .*eft.*, not 'eftt'"), (None, "type str"), (7, "type str, not 7")],
    "partition": [("all", "must be one of cost, greedy, not 'all'"), (True, "must be one of"), ([], "must be one of")],
    "granularity": [("kernel", "must be one of launch, layer, op, not 'kernel'"), (True, "must be one of")],
    "strict": [(1, "type bool, not 1"), ("yes", "type bool, not 'yes'"), (None, "type bool")],
    "verify": [(0, "type bool, not 0"), ("true", "type bool")],
    "weight_check": [("always", "must be one of version, sampled, full, not 'always'"), (None, "must be one of")],
    "timeout": [
        (0, "positive number of seconds, not 0"), (-1.5, "positive number"), ("60", "positive number"),
        (True, "positive number"), (None, "positive number"),
    ],
    "dump_dir": [(3, "must be a path, not 3")],
    "cache": [(1, "type bool, not 1"), ("off", "type bool")],
    "winograd": [(1, "2 or 4 .the side of its tiles., not 1"), ("off", "type bool")],
    "bands": [(1, "type bool, not 1"), ("off", "type bool")],
    "disable": [("pool", "must be a list of pattern names, not 'pool'"), ([1], "must be a list")],
}  # fmt: skip

RIGHT: dict[str, list[Any]] = {
    "xclbin": ["a/torch.xclbin", Path("a/torch.xclbin"), None],
    "platform": ["kv260", Path("board.toml"), None],
    "recipe": ["split", Path("my.toml"), None],
    "driver": ["emulated", "xrt", "pyxrt", None],
    "device": [0, 3],
    "policy": ["eft", "HEFT_RT", "simple"],
    "partition": ["cost", "greedy"],
    "granularity": ["launch", "layer", "op"],
    "strict": [True, False],
    "verify": [True, False],
    "weight_check": ["version", "sampled", "full"],
    "timeout": [1, 0.25, float("inf")],
    "dump_dir": ["out", Path("out"), None],
    "cache": [True, False],
    "winograd": [True, False, 2, 4],
    "bands": [True, False],
    "disable": [["pool"], ("pool", "pointwise"), []],
}


def pairs(table: dict[str, list[Any]]) -> list[Any]:
    return [pytest.param(name, entry, id=f"{name}={entry!r}"[:40]) for name, row in table.items() for entry in row]


def test_the_tables_here_are_complete() -> None:
    names = {field.name for field in fields(Options)}
    assert set(WRONG) == names and set(RIGHT) == names


@pytest.mark.parametrize("name, entry", pairs(WRONG))
def test_a_wrong_value_is_an_error_that_names_the_option(name: str, entry: tuple[Any, str]) -> None:
    value, sentence = entry
    with pytest.raises(OptionError, match=sentence) as caught:
        Options.parse({name: value}, policy_names())
    assert f"'{name}'" in str(caught.value)


@pytest.mark.parametrize("name, value", pairs(RIGHT))
def test_a_right_value_is_kept(name: str, value: Any) -> None:
    kept = getattr(Options.parse({name: value}), name)
    expected = str(value) if isinstance(value, Path) else tuple(value) if name == "disable" else value
    assert kept == expected


@pytest.mark.parametrize(
    "wrong, near", [("xclbn", "xclbin"), ("polcy", "policy"), ("dumpdir", "dump_dir"), ("time_out", "timeout")]
)
def test_an_unknown_name_is_an_error_with_the_nearest_one(wrong: str, near: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option '{wrong}'; did you mean '{near}'") as caught:
        Options.parse({wrong: 1})
    assert all(field.name in str(caught.value) for field in fields(Options))


def test_a_name_that_is_like_none_gets_the_list_without_a_guess() -> None:
    with pytest.raises(OptionError, match=r"^unknown option 'zzz' \(options: bands, ") as caught:
        Options.parse({"zzz": 1})
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    "name, value",
    [("disable", 3), ("disable", None), ("timeout", float("nan")), ("xclbin", ""), ("recipe", "")],
)
def test_a_value_that_means_nothing_is_refused(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"option '{name}' must be"):
        Options.parse({name: value})


def test_no_options_are_the_defaults() -> None:
    assert Options.parse(None) == Options.parse({}) == Options()


def test_an_error_is_a_value_error_and_one_of_ours() -> None:
    assert issubclass(OptionError, ValueError) and issubclass(OptionError, FpgaError)


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"strickt": True}, "did you mean 'strict'"),
        ({"timeout": "long"}, "positive number of seconds"),
        ({"disable": ["poool"]}, "names no pattern: poool; did you mean 'pool'"),
        ({"dump_dir": "/dev/null/dump"}, "option 'dump_dir': cannot write to /dev/null/dump: "),
        ([("strict", True)], "options must be a dictionary such as {'strict': True}, not "),
        ({"recipe": "emulatr"}, "unknown recipe 'emulatr'; did you mean 'emulator'"),
        ({"device": 4711}, "there is no card 4711"),
    ],
    ids=str,
)
def test_dynamo_wraps_the_error(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BackendCompilerFailed, match=sentence) as caught:
        torch.compile(torch.nn.Linear(4, 3), backend="fpga", options=options)(torch.randn(2, 4))
    assert isinstance(caught.value.inner_exception, FpgaError)


def test_the_type_of_an_option_s_error_is_kept_by_dynamo() -> None:
    with pytest.raises(BackendCompilerFailed) as caught:
        torch.compile(torch.nn.Linear(4, 3), backend="fpga", options={"strickt": True})(torch.randn(2, 4))
    assert isinstance(caught.value.inner_exception, OptionError)


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs", "fastest"])
def test_modes_are_refused_with_the_options_that_there_are(mode: str) -> None:
    with pytest.raises(BackendCompilerFailed, match=f"does not support mode='{mode}'") as caught:
        torch.compile(torch.nn.Linear(4, 3), backend="fpga", mode=mode)(torch.randn(2, 4))
    assert isinstance(caught.value.inner_exception, OptionError)
    assert all(field.name in str(caught.value) for field in dataclasses.fields(Options))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_modes_that_change_nothing(mode: str) -> None:
    model, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    torch.testing.assert_close(torch.compile(model, backend="fpga", mode=mode)(x), model(x))


@pytest.mark.parametrize("asked", [{"mode": "max-autotune"}, {"options": {"strickt": True}}], ids=str)
@pytest.mark.parametrize("partly", [False, True])
def test_what_is_wrong_is_refused_where_dynamo_skips_the_frame(asked: dict[str, Any], partly: bool) -> None:
    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lstm(x)[0]

    model, x = Recurrent() if partly else torch.nn.LSTM(4, 3), torch.randn(2, 1, 4)
    compiled = torch.compile(model, backend="fpga", **asked)
    for _ in range(2):  # with gradients, a recurrent layer stays in eager: the backend is never called
        with pytest.raises(BackendCompilerFailed, match=r"does not support mode|did you mean 'strict'") as caught:
            compiled(x)
        assert isinstance(caught.value.inner_exception, OptionError)
    torch.compile(model, backend="fpga")(x)


def test_explain_checks_options_too() -> None:
    with pytest.raises(Exception, match="did you mean 'strict'"):
        explain(torch.nn.Linear(4, 3), torch.randn(2, 4), options={"strickt": True})


def test_a_model_is_usable_after_a_wrong_option() -> None:
    model, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    with pytest.raises(BackendCompilerFailed):
        torch.compile(model, backend="fpga", options={"strickt": True})(x)
    torch.testing.assert_close(torch.compile(model, backend="fpga", options={"strict": True})(x), model(x))
