"""Every option of both commands with bad values, and command lines that would do nothing or something else."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import xclbin_build.check_command as check_command
import xclbin_build.cli as xclbin_cli
from fpga_dynamo.tools import cli
from fpga_dynamo.tools.doctor import WRONG, examine
from tests.malformed_input.mutations import run

MODELS = """
import sys
import torch
from torch import nn

class Asking(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act = act
    def forward(self, x):
        return self.act(x)

def relu(): return nn.ReLU(), (torch.randn(2, 4),)
def leaving(): sys.exit(0)
def leaving_later(): return Asking(lambda x: sys.exit(0)), (torch.randn(2, 4),)
def mismatched(): return nn.Linear(3, 3), (torch.randn(2, 4),)

def nested(value, wrap):
    for _ in range(2000):
        value = wrap(value)
    return value
class First(nn.Module):
    def forward(self, x, *others):
        while not isinstance(x, torch.Tensor):
            x = x["a"] if isinstance(x, dict) else x[0]
        return x + 1
def lists(): return First(), (nested(torch.randn(2, 4), lambda x: [x]),)
def tables(): return First(), (nested(torch.randn(2, 4), lambda x: {"a": x}),)
def unused(): return First(), (torch.randn(2, 4), nested(torch.randn(2, 4), lambda x: (x,)))
def result(): return Asking(lambda x: nested(x, lambda x: [x])), (torch.randn(2, 4),)
def modules(): return nested(nn.ReLU(), nn.Sequential), (torch.randn(2, 4),)
"""
BAD = ["0", "-1", "nan", "inf", "9" * 20, "9" * 5000, "x", "[red]", "a\nb", "\udcff", "no/such/file", "/dev/null", ".",
       "a=b", "a=" + "[" * 3000]  # fmt: skip
"""Where one of them is right for an option, the command ends in another sentence."""

COMMANDS: dict[str, list[str]] = {
    "run": ["run", "no_such_module:make"],
    "devices": ["devices"],
    "doctor": ["doctor"],
    "fuzz": ["fuzz", "--backend", "no_such_backend"],
    "ops": ["ops"],
    "estimate": ["estimate", "no_such_module:make", "--platform", "u250"],
    "emulate": ["emulate"],
    "export": ["export", "no_such_module:make", "-o", "out"],
    "card-server": ["card-server", "--listen", "127.0.0.1:0", "--token-file", "no_such_token"],
    "serve": ["serve", "no_such_folder", "--port", "0"],
    "soc run": ["soc", "run", "no_such.toml", "no_such.toml"],
    "soc sweep": ["soc", "sweep", "no_such.toml", "--out", "out"],
    "soc report": ["soc", "report", "no_such_folder"],
}
"""Of each command a line that is right but for one input, so that it ends soon."""


def _parsers(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not nested:
        yield name, parser
    for action in nested:
        for word, below in action.choices.items():
            yield from _parsers(below, f"{name} {word}".strip())


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """Each option that has a value, by its longest name."""
    return [a.option_strings[-1] for a in parser._actions if a.option_strings and a.nargs != 0]


PARSERS = dict(_parsers(cli._parser()))
CASES = [(name, option) for name, parser in PARSERS.items() for option in _options(parser)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "malformed_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def test_every_command_has_a_line() -> None:
    assert set(PARSERS) == set(COMMANDS)


@pytest.mark.parametrize(("name", "option"), CASES)
def test_options_of_fpga_dynamo(name: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name in ("ops", "doctor", "devices"):
        pytest.skip("its values are files or addresses, tried below")
    for value in ["", *BAD]:
        status = run(cli.main, [*COMMANDS[name], option, value], capsys, f"{name} {option} {value[:30]!a}")
        assert status == 2, (name, option, value)
    assert run(cli.main, [*COMMANDS[name], f"{option}=--"], capsys, f"{name} {option}=--") == 2


@pytest.mark.parametrize("option", _options(xclbin_cli._parser()))
def test_options_of_xclbin_build(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["--recipe", "no_such_recipe"]
    for value in ["", *BAD]:
        assert run(xclbin_cli.main, [*line, option, value], capsys, f"{option} {value[:30]!a}") == 2
    assert run(xclbin_cli.main, [*line, f"{option}=--"], capsys, f"{option}=--") == 2


@pytest.mark.parametrize("option", ["--recipe", "--platform", "--cu", "--process"])
def test_options_of_estimate(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    right = {"--platform": "u250", "--recipe": "single", "--process": "nosuch"}
    line = ["estimate", *(word for name, value in right.items() if name != option for word in (name, value))]
    for word in [f"{option}=--", *(f"{option}={value}" for value in ["", *BAD])]:
        assert run(xclbin_cli.main, [*line, word], capsys, word[:30]) == 2, word[:30]


@pytest.mark.parametrize("option", _options(check_command._parser()))
def test_options_of_check(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    for value in ["", *BAD]:
        line = ["check", "no_such.cpp", option, value]
        assert run(xclbin_cli.main, line, capsys, f"{option} {value[:30]!a}") == 2


@pytest.mark.parametrize("value", ["", *BAD])
@pytest.mark.parametrize(
    "line",
    [["run"], ["devices"], ["estimate", "--platform", "u250"], ["soc", "report"],
     ["soc", "sweep", "--out", "out"], ["soc", "run", "x.toml"]],
    ids=" ".join,
)  # fmt: skip
def test_positional_arguments(line: list[str], value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cli.main, [*line, "--", value], capsys, f"{line} {value[:30]!a}") == 2


@pytest.mark.parametrize("value", ["", *BAD])
def test_addresses_of_doctor(value: str) -> None:
    assert examine(server=value)[-1].state == WRONG


@pytest.mark.parametrize("value", ["", *BAD])
def test_files_of_xclbin_build(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(xclbin_cli.main, ["info", "--", value], capsys, value[:30]) == 2


Main = Callable[[Sequence[str]], int]
LEAVES = "sys.exit(0), which ends the program"


@pytest.mark.parametrize(
    ("main", "line", "words"),
    [
        (cli.main, ["run", "malformed_models:leaving"], LEAVES),
        (cli.main, ["run", "malformed_models:leaving_later"], LEAVES),
        (cli.main, ["run", "malformed_models:mismatched"], "fails in eager mode: RuntimeError"),
        (cli.main, ["run", "malformed_models:relu", "--batch", "9" * 20], "is not a whole number from 1 to 2147483647"),
        (cli.main, ["run", "malformed_models:relu", "--backend", "nosuch"], "unknown backend 'nosuch'"),
        (cli.main, ["run", "malformed_models:relu", "--trace", "no/t.json"], "to write t.json into"),
        (cli.main, ["run", "malformed_models:relu", "--trace", "."], "is a folder"),
        (cli.main, ["run", "malformed_models:relu", "--gantt", "a.nosuch"], "cannot draw a picture"),
        (cli.main, ["run", "malformed_models:relu", "--options", "bands=1", "--options", "bands=0"], "2 times"),
        (cli.main, ["run", "malformed_models:relu", "--options", "strict=true", "--options", "nosuch=1"], "nosuch"),
        (cli.main, ["estimate", "resnet18", "--platform", "u250", "--recipe", ""], "--recipe: it is empty"),
        (cli.main, ["estimate", "resnet18", "--platform", "u250", "--recipe="], "--recipe: it is empty"),
        (cli.main, ["estimate", "m:m", "--platform", "u250", "--dtype", "bf16", "--scales", "pow2"],
         "--scales requires --dtype int8"),
        (cli.main, ["ops", "--markdown", "a.md", "--check", "b.md"], "not allowed with"),
        (cli.main, ["ops", "--check", "no_such.md"], "no_such.md"),
        (cli.main, ["fuzz", "--dtype", "int8", "--winograd", "2"], "--winograd has no effect"),
        (cli.main, ["fuzz", "--dtype", "int8", "--backend", "aot_eager"], "supports --backend fpga alone"),
        (xclbin_cli.main, ["estimate", "--recipe", "single", "--platform", "u250", "--process", "nosuch"], "'nosuch'"),
        (xclbin_cli.main, ["estimate", "--recipe", "", "--platform", "u250"], "--recipe: it is empty"),
        (xclbin_cli.main, ["--target", "hw", "--isa", "x86-64-v3"], "--isa has no effect here"),
        (xclbin_cli.main, ["--target", "hw", "-o", "a", "--sources-only", "b"], "--output has no effect here"),
        (xclbin_cli.main, ["--no-fit-check"], "--no-fit-check has no effect here"),
        (xclbin_cli.main, ["check", "a.cpp", "--recipe", "emulator"], "not both"),
        (xclbin_cli.main, ["check", "--platform", "kv260", "--top", "x"], "--top requires a source"),
    ],
)  # fmt: skip
def test_what_would_do_nothing_or_something_else_is_refused(
    main: Main, line: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(line)
    except SystemExit as error:
        status = int(error.code or 0)
    err = capsys.readouterr().err
    assert status == 2 and words in " ".join(err.split()) and "Traceback" not in err, err


def test_an_output_that_cannot_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for root, whom no permission keeps away: the check says no, or the system does while it is written."""
    full = folder / "full"
    full.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        with pytest.raises(SystemExit):
            cli.main(["run", "malformed_models:relu", "--trace", str(full / "t.json")])
    assert "permission denied" in capsys.readouterr().err
    if Path("/dev/full").exists():
        assert run(cli.main, ["run", "malformed_models:relu", "--trace", "/dev/full"], capsys, "/dev/full") == 2


@pytest.mark.parametrize("command", ["xclbin_build --help", "fpga_dynamo.tools.cli ops --patterns"])
def test_a_reader_that_has_gone(command: str) -> None:
    """As with `| head -c 1`, but with a pipe that nobody reads from the start."""
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    line = [sys.executable, "-m", *command.split()]
    done = subprocess.run(line, stdout=write, stderr=subprocess.PIPE, text=True, env=environment)
    os.close(write)
    assert "Traceback" not in done.stderr and done.returncode in (0, 1, 120), done.stderr


def test_an_internal_error_is_named_and_raised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fpga_dynamo.tools import devices

    def broken() -> None:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(devices, "devices", broken)
    with pytest.raises(KeyError):
        cli.main(["devices"])
    assert "internal error, please report it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("main", "line"),
    [
        (xclbin_cli.main, ["info", "/dev/zero"]),
        (xclbin_cli.main, ["estimate", "--platform", "u250", "--recipe", "/dev/zero"]),
        (xclbin_cli.main, ["estimate", "--recipe", "single", "--platform", "/dev/zero"]),
        (cli.main, ["soc", "run", "/dev/zero", "/dev/zero"]),
        (cli.main, ["soc", "report", "/dev/zero"]),
    ],
)
def test_an_input_without_an_end(main: Main, line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It has no size before it is read."""
    assert run(main, line, capsys, " ".join(line)) == 2


def test_a_page_that_is_no_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ops.md").write_bytes(b"\x89PNG")
    assert run(cli.main, ["ops", "--check", "ops.md"], capsys, "a picture") == 1


@pytest.mark.parametrize("model", ["lists", "tables", "unused", "result", "modules"])
def test_values_nested_too_deeply(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Inputs, results and modules through which PyTorch itself recurses."""
    main, line = cli.main, ["run", f"malformed_models:{model}"]
    assert run(main, line, capsys, model) == 2
    if model == "modules":
        assert run(main, ["estimate", *line[1:], "--platform", "u250", "--sizes-only"], capsys, "estimate") == 2


@pytest.mark.parametrize("kind", [list, dict])
def test_calibration_nested_too_deeply(kind: type, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torchao")
    import torch

    item: object = torch.randn(2, 4)
    for _ in range(2000):
        item = [item] if kind is list else {"a": item}
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        torch.save([item], folder / "calibration.pt")
    finally:
        sys.setrecursionlimit(limit)
    line = ["estimate", "malformed_models:relu", "--platform", "u250", "--calibration", "calibration.pt"]
    assert run(cli.main, line, capsys, kind.__name__) == 2


N = 2000
NESTED = {
    "lists": "x = " + "[" * N + "]" * N,
    "tables": "x = " + "{a = " * N + "1" + "}" * N,
    "key": ".".join("a" * N) + " = 1",
    "header": "[" + ".".join("a" * N) + "]",
    "headers of a list": "[[" + ".".join("a" * N) + "]]",
}


@pytest.mark.parametrize("kind", NESTED)
def test_files_nested_too_deeply(kind: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TOML's parser follows some of these without recursion."""
    (folder / "deep.toml").write_text(NESTED[kind])
    estimate = ["estimate", "malformed_models:relu", "--platform"]
    assert run(cli.main, [*estimate, "deep.toml"], capsys, kind) == 2
    assert run(cli.main, [*estimate, "u250", "--recipe", "deep.toml"], capsys, kind) == 2
    assert run(cli.main, ["soc", "run", "deep.toml", "deep.toml"], capsys, kind) == 2
    for line in (["--recipe"], ["--platform"], ["check", "--recipe"], ["estimate", "--platform", "u250", "--recipe"]):
        assert run(xclbin_cli.main, [*line, "deep.toml"], capsys, kind) == 2
