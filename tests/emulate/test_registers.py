"""Results in registers: references that a kernel writes, mailboxes, and kernels that restart by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fpga_dynamo.tools import emulate
from tests.emulate.hosts_kit import HERE, compile_host
from tests.emulate.hosts_kit import emulate as run
from xclbin_build.cli import main
from xclbin_build.info import summary

ROUTES = pytest.mark.parametrize("route", emulate.ROUTES)
# Through XRT's driver for software emulation the exchange hung in 5 of 12 runs: the host waits for an end that
# it is not told of. The cause is not known; docs/kernel-faults.md says so.
EXCHANGES = pytest.mark.parametrize(
    "route", [pytest.param(route, marks=pytest.mark.slow if route == "process" else ()) for route in emulate.ROUTES]
)
REGISTERS = {
    "script.cfg": "[hls]\npre_tcl=registers.tcl\n",
    "syn.cfg": "syn.interface.s_axilite_mailbox=both\nsyn.interface.s_axilite_auto_restart_counter=1\n",
}
SCRIPT = "config_interface -s_axilite_mailbox both\nconfig_interface -s_axilite_auto_restart_counter 1\n"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_host("registers", tmp_path_factory.mktemp("hosts"))


def build(folder: Path, kernel: str, *options: str) -> Path:
    """The xclbin of a kernel."""
    (folder / "registers.tcl").write_text(SCRIPT)
    for name, text in REGISTERS.items():
        (folder / name).write_text(text)
    output = folder / f"{kernel}.xclbin"
    words = ["-t", "sw_emu", str(HERE / f"kernels/{kernel}.cpp"), "-k", kernel, *options, "-q", "-o", str(output)]
    assert main(words) == 0
    return output


@ROUTES
def test_the_host_reads_what_a_kernel_writes_to_references(route: str, host: Path, tmp_path: Path) -> None:
    done = run(route, host, build(tmp_path, "totals"), "read", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "state 4 sum -1824 largest 3\nstate 4 sum -1830 largest 0\n"), (
        done.stderr
    )


@EXCHANGES
@pytest.mark.parametrize("config", REGISTERS)
def test_a_kernel_that_restarts_gets_arguments_while_it_runs(
    route: str, config: str, host: Path, tmp_path: Path
) -> None:
    xclbin = build(tmp_path, "again", "--config", str(tmp_path / config))
    done = run(route, host, xclbin, "exchange", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "state 4 runs many\n"), done.stderr


@ROUTES
def test_a_kernel_restarts_as_often_as_it_is_told(route: str, host: Path, tmp_path: Path) -> None:
    xclbin = build(tmp_path, "again", "--config", str(tmp_path / "syn.cfg"))
    done = run(route, host, xclbin, "count", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "state 4 runs 17\n"), done.stderr


def test_arguments_lie_behind_the_registers_of_a_mailbox(tmp_path: Path) -> None:
    for options, first in (([], 0x10), (["--config", str(tmp_path / "syn.cfg")], 0x20)):
        (kernel,) = summary(build(tmp_path, "again", *options))["manifest"]["kernels"]
        assert [argument["offset"] for argument in kernel["args"]] == [first + 8 * i for i in range(5)]
        assert [argument.get("output", False) for argument in kernel["args"]] == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("syn.interface.s_axilite_mailbox=inn\n", "'inn' is not a mailbox; did you mean 'in'?"),
        ("[hls]\npre_tcl=registers.tcl\n[connectivity]\nxx=1\n", "unknown key 'xx' of [connectivity]"),
    ],
)
def test_a_wrong_configuration_is_a_sentence(
    text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.cfg").write_text(text)
    words: Sequence[str] = [str(HERE / "kernels/again.cpp"), "-k", "again", "--config", str(tmp_path / "wrong.cfg")]
    assert main(list(words)) == 2
    assert sentence in capsys.readouterr().err
