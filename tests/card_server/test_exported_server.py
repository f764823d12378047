"""The sources that `fpga-dynamo card-server --export` writes: built without Python, for Arm, and for XRT."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed

import fpga_dynamo
import xclbin_build
from fpga_dynamo.runtime.drivers.remote.driver import RemoteDriver
from fpga_dynamo.tools.cli import main
from tests.card_server.card_server_kit import serving, status, write_token
from tests.deployment.test_aarch64 import COMPILER, LIBRARIES, PACKAGES, QEMU
from tests.driver.test_conformance import conform
from tests.driver.xrt_kit import needs
from tests.emulate.hosts_kit import COMMAND, HEADERS

CROSS = ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={COMPILER}")


def exported(folder: Path) -> Path:
    assert main(["card-server", "--export", str(folder / "server")]) == 0
    return folder / "server"


def built(directory: Path, *settings: str) -> Path:
    """The program, by CMake."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    path = {"PATH": os.environ["PATH"]}
    for command in (("cmake", "-B", "build", *settings), ("cmake", "--build", "build", "--parallel", "2")):
        subprocess.run(command, cwd=directory, env=path, stdout=subprocess.DEVNULL, check=True)
    return directory / "build/card-server"


def test_a_directory_is_replaced_and_others_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = exported(tmp_path)
    (folder / "runtime/card/old.cpp").touch()
    exported(tmp_path)
    assert not (folder / "runtime/card/old.cpp").exists()
    names = {path.name for path in folder.iterdir()}
    assert names == {"CMakeLists.txt", "README.md", "runtime"}
    assert "fpga_dynamo" in (folder / "README.md").read_text() and "$version" not in (folder / "README.md").read_text()
    capsys.readouterr()
    (tmp_path / "others").mkdir()
    (tmp_path / "others/file").touch()
    for given, sentence in (
        (["--export", str(tmp_path / "others")], "has other files than a card server's"),
        (["--export", str(tmp_path / "others/file")], "is a file"),
        (["--export", str(tmp_path / "no/server")], "there is no directory"),
        (["--export", str(folder), "--listen", "127.0.0.1:0"], "serves nothing"),
        (["--token-file", "t"], "--listen is missing"),
        (["--listen", "127.0.0.1:0"], "--token-file is missing"),
    ):
        assert main(["card-server", *given]) == 2
        errors = capsys.readouterr().err
        assert errors.count("\n") == 1 and sentence in errors, errors


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, by g++ alone, in an environment without variables."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = exported(tmp_path_factory.mktemp("plain"))
    files = [str(path) for name in ("card", "card_server") for path in folder.glob(f"runtime/{name}/*.cpp")]
    command = ["g++", "-std=c++17", "-O0", "-pthread", "-Iruntime/card", "-Iruntime/card_server", *files, "-ldl"]
    path = {"PATH": os.environ["PATH"]}
    subprocess.run([*command, "-o", "card-server"], cwd=folder, env=path, check=True)
    return folder / "card-server"


@pytest.mark.slow
@pytest.mark.extended
def test_command_lines_that_are_refused(plain: Path, tmp_path: Path) -> None:
    token = write_token(tmp_path)
    (tmp_path / "short").touch(mode=0o600)
    (tmp_path / "open").write_text("0" * 64)
    (tmp_path / "open").chmod(0o644)
    listen = ["--listen", "127.0.0.1:0"]
    for given, sentence in (
        ([], "--listen HOST:PORT is missing"),
        (listen, "--token-file is missing"),
        (["--listen", "nowhere"], "'nowhere' is not HOST:PORT"),
        ([*listen, "--token-file"], "option --token-file needs a value"),
        ([*listen, "--colour", "red"], "there is no option '--colour'"),
        ([*listen, "--clients", "-1"], "--clients: '-1' is no whole number"),
        ([*listen, "--token-file", "/none"], "token file /none cannot be read: No such file"),
        ([*listen, "--token-file", str(tmp_path)], "is no regular file"),
        ([*listen, "--token-file", str(tmp_path / "short")], "has 0 characters, and a token has 16 to 4096"),
        ([*listen, "--token-file", str(tmp_path / "open")], "can be read by others"),
        ([*listen, "--token-file", str(token), "--tls-key", "k"], "--tls-key needs --tls-cert"),
        ([*listen, "--token-file", str(token), "--tls-cert", "c"], "built without OpenSSL"),
        ([*listen, "--token-file", str(token), "--only-own-xclbin"], "--only-own-xclbin needs --xclbin"),
        ([*listen, "--token-file", str(token), "--xclbin", "none"], "--xclbin none: No such file"),
        ([*listen, "--token-file", str(token), "--driver", "xrt"], "build this program with -DFD_XRT=ON"),
        (["--listen", "192.0.2.1:0", "--token-file", str(token)], "--listen '192.0.2.1':0: "),
    ):
        done = subprocess.run([plain, *given], env={}, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("card-server: ") and done.stderr.count("\n") == 1 and sentence in done.stderr


@pytest.mark.slow
@pytest.mark.extended
@torch.no_grad()
def test_own_xclbin_without_variables(plain: Path, tmp_path: Path) -> None:
    own = xclbin_build.cached("split", "emu")
    program = ("env", "-i", str(plain))
    with serving(tmp_path, "--xclbin", str(own), "--only-own-xclbin", program=program) as server:
        model, x = nn.Sequential(nn.Linear(64, 32), nn.Tanh()).eval(), torch.randn(4, 64)
        options: dict[str, Any] = {"partition": "greedy", "strict": True}
        remote = torch.compile(model, backend="fpga", options={**options, "device": server.device()})(x)
        torch._dynamo.reset()
        assert torch.equal(remote, torch.compile(model, backend="fpga", options={**options, "xclbin": str(own)})(x))
        torch._dynamo.reset()
        refused = torch.compile(
            model, backend="fpga", options={**options, "device": server.device(), "recipe": "single"}
        )
        with pytest.raises(BackendCompilerFailed, match="loads no xclbin but its own"):
            refused(x)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(COMPILER) is None or QEMU is None, reason=f"no cross-compiler or qemu: {PACKAGES}")
@torch.no_grad()
def test_a_server_on_arm(tmp_path: Path) -> None:
    """INT8 is bit-identical to this machine's card; float32 is near."""
    from fpga_dynamo.quantize import quantize

    torch.manual_seed(0)
    program = (str(QEMU), "-L", LIBRARIES, str(built(exported(tmp_path), *CROSS, "-DFD_TLS=OFF")))
    own = xclbin_build.cached("split", "emu", isa="aarch64")
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10)]
    model, x = nn.Sequential(*layers).eval(), torch.randn(1, 3, 8, 8)
    small = quantize(model, [(x,)], scales="pow2", bias="int32", progress=False)
    options: dict[str, Any] = {"partition": "greedy", "strict": True}
    with serving(tmp_path, "--xclbin", str(own), program=program) as server:
        for each, tolerance in ((small, 0.0), (model, 1e-5)):
            torch._dynamo.reset()
            remote = torch.compile(each, backend="fpga", options={**options, "device": server.device()})
            torch.testing.assert_close(remote(x), each(x), rtol=tolerance, atol=tolerance)
            assert torch.equal(remote(x), remote(x))
        path = fpga_dynamo.export(small, (x,), tmp_path / "model", isa="aarch64")
        assert torch.equal(fpga_dynamo.load(path, device=server.device())(x), small(x))
        assert status(server)["bytes"] > 0
        RemoteDriver(server.driver).link().close()


@pytest.mark.slow
@pytest.mark.skipif(not HEADERS.is_file(), reason=f"no {HEADERS}: apt-get install libxrt-dev")
def test_cards_of_xrt(tmp_path: Path) -> None:
    """The suite of drivers over XRT with the emulator inside of it."""
    needs("inproc")
    program = str(built(exported(tmp_path), "-DFD_XRT=ON", "-DFD_TLS=OFF"))
    emulated = (sys.executable, *COMMAND[1:], "--route", "inproc", "--", program)
    with serving(tmp_path, driver="inproc", program=emulated) as server:
        conform(server.driver, tmp_path)
