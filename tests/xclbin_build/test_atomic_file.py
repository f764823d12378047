"""A file is written as a whole or stays what it was: full disks, interrupts, links, modes, names that are not UTF-8."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fpga_dynamo.runtime.observe.events import TaskEvent
from fpga_dynamo.runtime.observe.trace import TraceRecorder
from xclbin_build import atomic_file, axlf
from xclbin_build.errors import XclbinError

OLD = b"what was there before"


@contextlib.contextmanager
def full_disk(most: int = 64) -> Iterator[None]:
    """No file can have more bytes than that: writing more fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def trace() -> TraceRecorder:
    made = TraceRecorder(0.0)
    made.add(TaskEvent(task="t", program="p", application=0, pe="cu", start=0.0, stop=1.0, arguments={"x": "y" * 200}))
    return made


WRITERS: dict[str, Callable[[Path], object]] = {
    "write": lambda path: atomic_file.write(path, b"x" * 1000),
    "trace": lambda path: trace().save(path),
    "gantt": lambda path: trace().gantt(path),
    "xclbin": lambda path: axlf.write(path, axlf.Axlf({0: b"x" * 1000})),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_older_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / "result"
    path.write_bytes(OLD)
    with full_disk(), pytest.raises((OSError, XclbinError)):
        WRITERS[name](path)
    assert path.read_bytes() == OLD and os.listdir(tmp_path) == ["result"]
    WRITERS[name](path)
    assert path.read_bytes() != OLD and os.listdir(tmp_path) == ["result"]


def test_an_exception_leaves_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_bytes(OLD)
    with pytest.raises(KeyboardInterrupt), atomic_file.opened(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == OLD and os.listdir(tmp_path) == ["result"]


@pytest.mark.parametrize("mask", [0, 0o002, 0o022, 0o077])
def test_modes(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        atomic_file.write(tmp_path / "new", b"")
        atomic_file.write(tmp_path / "code", b"", code=True)
        (tmp_path / "old").write_bytes(OLD)
        (tmp_path / "old").chmod(0o640)
        atomic_file.write(tmp_path / "old", b"")
    finally:
        os.umask(before)
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert found == {"new": 0o666 & ~mask, "code": 0o644 & ~mask, "old": 0o640}


def test_own_links_are_followed_and_pipes_written_to(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/file").write_bytes(OLD)
    (tmp_path / "link").symlink_to("there/file")
    atomic_file.write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there/file").read_bytes() == b"new"
    atomic_file.write("/dev/null", b"new")
    assert not stat.S_ISREG(os.stat("/dev/null").st_mode)
    read, write = os.pipe()
    atomic_file.write(f"/dev/fd/{write}", b"new")
    assert os.read(read, 9) == b"new"
    os.close(read)
    os.close(write)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_links_of_others_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(OLD)
    (tmp_path / "link").symlink_to("precious")
    os.chown(tmp_path / "link", 54321, 54321, follow_symlinks=False)
    atomic_file.write(tmp_path / "link", b"new")
    assert (tmp_path / "precious").read_bytes() == OLD and (tmp_path / "link").read_bytes() == b"new"


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\nb", b" ", b"x" * 255])
def test_names(tmp_path: Path, name: bytes) -> None:
    path = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))
    atomic_file.write(path, "caf\u00e9 \udcff")
    assert path.read_bytes() == b"caf\xc3\xa9 \xff"
