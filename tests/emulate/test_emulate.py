"""`fpga-dynamo emulate`: programs of XRT's native API and of OpenCL, unchanged, over both routes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import xclbin_build
from fpga_dynamo.errors import DeviceError
from fpga_dynamo.tools import cli, emulate
from tests.emulate.hosts_kit import COMMAND, HERE, RECIPE, compile_host, environment
from tests.emulate.hosts_kit import emulate as run

ROUTES = pytest.mark.parametrize("route", emulate.ROUTES)
Host = Callable[[str], Path]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """The compiled program of a name."""
    folder, compiled = tmp_path_factory.mktemp("hosts"), {}

    def program(name: str) -> Path:
        if name not in compiled:
            compiled[name] = compile_host(name, folder)
        return compiled[name]

    return program


@pytest.fixture(scope="module")
def xclbin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe = tmp_path_factory.mktemp("kernels") / "emulate.toml"
    recipe.write_text(RECIPE.format(kernels=HERE / "kernels"))
    return xclbin_build.cached(str(recipe))


@ROUTES
@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("native add", "state 4, sums right\n"),
        ("native host_only", "state 4, sums right\n"),
        ("native p2p", "state 4, sums right\n"),
        ("native share", "shared 7\n"),
        ("native copy", "copied 11\n"),
        ("native unloaded", "has 3\n"),
        ("native again", "state 4, sums right\n" * 2),
        ("opencl", "platform Xilinx\nsums right\n"),
        ("both", "state 4, wrote 5\nplatform Xilinx\nsums right\n"),
    ],
)
def test_programs(route: str, words: str, printed: str, host: Host, xclbin: Path, tmp_path: Path) -> None:
    name, *action = words.split()
    done = run(route, host(name), xclbin, *action, folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
    assert list(tmp_path.iterdir()) == []


@ROUTES
@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (1, "kernel 'fail' (compute unit fail_1) failed the assertion `out == nullptr && \"the kernel's own words\"'"),
        (2, "kernel 'fail' (compute unit fail_1) crashed: segmentation fault at "),
        (3, "kernel 'fail' (compute unit fail_1) threw std::runtime_error: a kernel threw"),
    ],
)
def test_a_failed_run_has_words_and_a_state(
    route: str, how: int, sentence: str, host: Host, xclbin: Path, tmp_path: Path
) -> None:
    """And the next run of the program is right."""
    done = run(route, host("native"), xclbin, "fail", str(how), folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "wait 5\nstate 5\nagain 4\n"), done.stderr
    assert f"fpga_dynamo: {sentence}" in done.stderr


@ROUTES
def test_a_wait_times_out(route: str, host: Host, xclbin: Path, tmp_path: Path) -> None:
    done = run(route, host("native"), xclbin, "fail", "4", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "wait 8 in time\nabort 6\n"), done.stderr
    assert "by abort" in done.stderr


@ROUTES
def test_exit_status(route: str, host: Host, xclbin: Path, tmp_path: Path) -> None:
    folders = tmp_path / "folders"
    folders.mkdir()
    exited = run(route, host("native"), xclbin, "exit", "7", folder=tmp_path, TMPDIR=str(folders))
    assert exited.returncode == 7, exited.stderr
    crashed = run(route, host("native"), xclbin, "crash", folder=tmp_path, TMPDIR=str(folders))
    assert crashed.returncode == 128 + signal.SIGSEGV
    assert crashed.stderr.endswith(f"fpga-dynamo: '{host('native')}' was ended by SIGSEGV\n")
    assert not list(folders.iterdir())


@ROUTES
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_signals_reach_the_program(route: str, number: int, host: Host, xclbin: Path, tmp_path: Path) -> None:
    command = [*COMMAND, "--route", route, "--", str(host("native")), str(xclbin), "signal"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment()) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.read() == f"signal {int(number)}\n"
        assert process.wait(60) == 40 + number


@ROUTES
def test_a_python_program_has_pyxrt(route: str, xclbin: Path, tmp_path: Path) -> None:
    script = "import pyxrt, sys; print(pyxrt.device(0).load_xclbin(sys.argv[1]).to_string())"
    done = run(route, sys.executable, "-c", script, xclbin, folder=tmp_path)
    assert done.returncode == 0 and len(done.stdout.strip()) == 36, done.stderr


def test_the_mode_of_a_makefile_stays(host: Host, xclbin: Path, tmp_path: Path) -> None:
    done = run("inproc", host("native"), xclbin, "add", folder=tmp_path, XCL_EMULATION_MODE="sw_emu")
    assert done.stdout == "state 4, sums right\n", done.stderr
    for given, expected in (({"XCL_EMULATION_MODE": "sw_emu"}, "sw_emu\n"), ({}, "hw_emu\n")):
        done = run("inproc", "sh", "-c", 'echo "$XCL_EMULATION_MODE"', folder=tmp_path, **given)
        assert done.stdout == expected
    refused = run("process", host("native"), folder=tmp_path, XCL_EMULATION_MODE="hw_emu")
    assert refused.returncode == 2 and "XCL_EMULATION_MODE='hw_emu' is not supported" in refused.stderr


def test_the_xrt_ini_of_the_program_counts(host: Host, xclbin: Path, tmp_path: Path) -> None:
    (tmp_path / "xrt.ini").write_text("[Debug]\nnative_xrt_trace=true\n")
    assert run("inproc", host("native"), xclbin, "add", folder=tmp_path).returncode == 0
    assert (tmp_path / "native_trace.csv").is_file()


def test_a_card_that_does_not_exist_has_words(host: Host, xclbin: Path, tmp_path: Path) -> None:
    done = run("inproc", host("native"), xclbin, "share", folder=tmp_path, FPGA_DYNAMO_EMULATED_CARDS="1")
    assert done.returncode == 128 + signal.SIGABRT and "fpga_dynamo: there is no card 1" in done.stderr


def test_a_killed_device_model_ends_the_program(host: Host, xclbin: Path, tmp_path: Path) -> None:
    done = run("process", host("native"), xclbin, "kill_model", folder=tmp_path)
    assert done.returncode == 1 and "the process that emulates the card has ended" in done.stderr, done.stdout


def test_arguments_are_passed_as_they_are(tmp_path: Path) -> None:
    show = "import sys; print(sys.argv[1:])"
    done = run("inproc", sys.executable, "-c", show, "", "--", "--route", "a\tb", folder=tmp_path)
    assert done.stdout == f"{['', '--', '--route', chr(97) + chr(9) + chr(98)]}\n", done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "emulate needs a program to run"),
        (["./nowhere"], "cannot run './nowhere': there is no such file, nor a command of that name"),
        (["./text"], "cannot run './text': it is not executable (chmod +x)"),
    ],
)
def test_a_program_that_cannot_run(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("text\n")
    assert cli.main(["emulate", "--", *words]) == 2
    assert capsys.readouterr().err.startswith(f"fpga-dynamo: {sentence}")


@pytest.mark.parametrize("name", ["fpga_dynamo._xrt", "libxrt_coreutil.so.2"])
def test_without_xrt(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(module: str) -> None:
        raise (ModuleNotFoundError if name == module else ImportError)(name, name=name)

    monkeypatch.setattr(emulate.importlib, "import_module", fail)
    with pytest.raises(DeviceError, match="apt-get install libxrt1 libxrt-dev uuid-dev"):
        emulate.make_environment(tmp_path, "inproc")
