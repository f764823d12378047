"""torch.compile, the simulator and XRT's surroundings load no code that others could have put there."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import warnings
from pathlib import Path

import pytest
import torch

import xclbin_build
from fpga_dynamo.cache import store
from fpga_dynamo.errors import XclbinError
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.cards import card
from fpga_dynamo.runtime.cards.target import read_target
from fpga_dynamo.runtime.drivers import sw_emu
from fpga_dynamo.tools import zoo
from xclbin_build import cache, qor
from xclbin_build.trusted_path import weakness

ROOT = os.geteuid() == 0
SOMEBODY = 54321
BUILD = importlib.import_module("xclbin_build.build")  # the package has a function of this name
needs_root = pytest.mark.skipif(not ROOT, reason="only root gives files away")


@pytest.fixture
def xclbin(tmp_path: Path) -> Path:
    path = tmp_path / "mine.xclbin"
    shutil.copyfile(card.xclbin_path(Options()), path)
    path.chmod(0o644)
    return path


def run(path: Path) -> torch.Tensor:
    torch._dynamo.reset()
    with torch.no_grad():
        return torch.compile(torch.nn.ReLU(), backend="fpga", options={"xclbin": str(path)})(torch.ones(64))


def test_an_xclbin_that_everybody_can_write_to_is_refused(xclbin: Path) -> None:
    xclbin.chmod(0o666)
    with pytest.raises(Exception, match="any user of this machine could put code into this process"):
        run(xclbin)
    with pytest.raises(XclbinError):
        read_target(xclbin)
    xclbin.chmod(0o644)
    xclbin.parent.chmod(0o777)
    with pytest.raises(XclbinError, match="mode 777"):
        read_target(xclbin)
    xclbin.parent.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_target(xclbin)


@needs_root
def test_an_xclbin_of_another_user_warns(xclbin: Path) -> None:
    os.chown(xclbin, SOMEBODY, SOMEBODY)
    with pytest.warns(RuntimeWarning, match=f"can be changed by others: .*{SOMEBODY}"):
        read_target(xclbin)


@pytest.mark.parametrize("name", [b"\xff\xfe.xclbin", b"a\nb.xclbin"])
def test_the_path_of_an_xclbin_need_not_be_text(xclbin: Path, name: bytes) -> None:
    other = Path(os.fsdecode(os.path.join(os.fsencode(xclbin.parent), name)))
    xclbin.rename(other)
    assert torch.equal(run(other), torch.ones(64))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(cache, "_instead", {})
    return tmp_path / "cache"


def test_a_cached_xclbin_that_others_can_write_to_is_built_again(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = card.xclbin_path(Options())
    built: list[Path] = []

    def build(design: object, target: str, output: Path, **rest: object) -> None:
        built.append(output)
        output.unlink(missing_ok=True)
        shutil.copyfile(real, output)
        output.chmod(0o600)

    monkeypatch.setattr(BUILD, "build_design", build)
    path = xclbin_build.cached()
    assert built == [path] and path.is_relative_to(own_cache)
    assert xclbin_build.cached() == path and len(built) == 1
    path.chmod(0o666)
    with pytest.warns(RuntimeWarning, match="the cached xclbin is built again, because .*mode 666"):
        assert xclbin_build.cached() == path
    assert len(built) == 2
    own_cache.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="mode 777"):
        elsewhere = xclbin_build.cached()
    assert not elsewhere.is_relative_to(own_cache) and len(built) == 3 and weakness(elsewhere) is None
    own_cache.chmod(0o700)


def test_a_finished_xclbin_takes_no_lock(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a cache that this user cannot write to serves him."""
    real = card.xclbin_path(Options())
    monkeypatch.setattr(BUILD, "build_design", lambda d, t, output, **rest: shutil.copyfile(real, output))
    path = xclbin_build.cached()
    path.chmod(0o600)

    def locked(path: Path) -> None:
        raise AssertionError("the lock is taken although nothing needs to be written")

    monkeypatch.setattr(BUILD, "locked", locked)
    assert xclbin_build.cached() == path


def test_a_compiled_program_that_others_can_write_to_is_ignored(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(store.LIMIT_VARIABLE, "64")
    assert store.write("k1", store.serialise("k1", {}))
    assert store.read("k1") is not None
    (store.directory() / "k1.program").chmod(0o666)
    with pytest.warns(RuntimeWarning, match="is ignored and compiled again: .*mode 666"):
        assert store.read("k1") is None
    assert store.write("k1", store.serialise("k1", {})) and store.read("k1") is not None


def test_programs_are_read_where_they_are_written_though_others_can_write_to_their_folder(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(store.LIMIT_VARIABLE, "64")
    store.directory(create=True).chmod(0o777)
    with pytest.warns(RuntimeWarning, match="mode 777"):
        assert store.write("k1", store.serialise("k1", {}))
    monkeypatch.setattr(cache, "_instead", {})  # as in another process
    with pytest.warns(RuntimeWarning, match="mode 777"):
        assert store.read("k1") is not None


def test_the_simulators_engine_lies_in_the_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not under a name that others can guess in the temporary folder, and not if others have put it there."""
    from fpga_dynamo.tools.estimate import hardware, simulator

    sizes = hardware.card("u250", None, "int8").engine.sizes
    compiled: list[Path] = []

    def compile_(arguments: list[str], output: Path) -> None:
        compiled.append(output)
        assert (output.parent / qor.HEADER).is_file()
        output.write_bytes(b"made")
        output.chmod(0o600)

    monkeypatch.setattr(simulator, "shared_object", compile_)
    library = simulator._compiled(sizes, "u250", 300.0, 2, 2)
    assert library.is_relative_to(own_cache) and weakness(library) is None
    assert simulator._compiled(sizes, "u250", 300.0, 2, 2) == library and len(compiled) == 1
    library.write_bytes(b"planted")
    library.chmod(0o777)
    assert simulator._compiled(sizes, "u250", 300.0, 2, 2).read_bytes() == b"made"
    precious = own_cache.parent / "precious"
    precious.write_bytes(b"content")
    header = library.parent / qor.HEADER
    header.unlink()
    header.symlink_to(precious)
    if ROOT:
        os.chown(header, SOMEBODY, SOMEBODY, follow_symlinks=False)
        library.unlink()
        simulator._compiled(sizes, "u250", 300.0, 2, 2)
        assert precious.read_bytes() == b"content"


def test_the_folder_of_xrts_socket_is_this_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sw_emu, "SOCKETS", tmp_path)
    assert sw_emu.socket_folder("me") == "me" and weakness(tmp_path / "me") is None
    (tmp_path / "me").chmod(0o777)
    for user in ("me", "", "../x", "a/b"):
        chosen = sw_emu.socket_folder(user)
        assert chosen != user and (tmp_path / chosen).is_dir() and weakness(tmp_path / chosen) is None


def test_a_model_file_that_everybody_can_write_to(tmp_path: Path) -> None:
    path = tmp_path / "planted_model.py"
    path.write_text("import torch\nmake = torch.nn.ReLU\n")
    path.chmod(0o666)
    with pytest.raises(zoo.ModelNotFoundError, match="is not used"):
        zoo.resolve(f"{path}:make")
    path.chmod(0o644)
    assert zoo.resolve(f"{path}:make") is torch.nn.ReLU


def test_no_module_is_imported_from_where_everybody_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    tmp_path.chmod(0o1777)
    zoo._import_from(str(tmp_path))
    tmp_path.chmod(0o755)
    assert sys.path == []
    zoo._import_from(str(tmp_path))
    assert sys.path == [str(tmp_path)]
