"""Compilers that hang, die, print without end, or say that they have succeeded: one sentence, in bounded memory."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.marks import EXTENDED
from xclbin_build import cache
from xclbin_build.errors import ToolchainError
from xclbin_build.toolchain import compiler, elf, gxx, isa, ninja_file, process
from xclbin_build.toolchain.ninja_file import TranslationUnit

GXX = shutil.which("g++") or shutil.which("clang++") or ""
pytestmark = pytest.mark.skipif(not GXX, reason="needs a C++ compiler")


Lying = Callable[..., None]


@pytest.fixture
def lying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lying]:
    """Makes $CXX a script; `version` is what it does for --version."""

    def make(body: str, version: str = "echo 'liar 1.0'; exit 0") -> None:
        script = tmp_path / "liar"
        script.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then {version}; fi\n{body}\n')
        script.chmod(0o755)
        monkeypatch.setenv("CXX", str(script))
        monkeypatch.setenv("FPGA_DYNAMO_COMPILER_TIMEOUT", "1")

    yield make
    isa.native.cache_clear()


def build(folder: Path) -> None:
    """What `gxx.build` does with its units, with one small one."""
    (folder / "a.cpp").write_text('extern "C" int a() { return 1; }\n')
    units = [TranslationUnit("a.cpp", ["-fPIC"])]
    ninja_file.write(folder / "x.ninja", compiler.find_compiler().command, units, "a.so")
    try:
        ninja_file.run(folder / "x.ninja")
        compiler.check_written(compiler.find_compiler(), folder / "a.so")
    except ToolchainError:
        gxx._forget_damaged(folder, ["a.o", "a.so"])
        raise


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("exit 0", "reported success, but its output a.so cannot be used: No such file"),
        (f'{GXX} "$@"; for f; do last=$f; done; case "$last" in *.o) :;; *) truncate -s 3000 a.so;; esac', "cut off"),
        (f'{GXX} "$@" || exit; for f; do last=$f; done; case "$last" in *.o) truncate -s 300 "$last";; esac', "a.o"),
        ("kill -9 $$", "ended by signal 9"),
        ("sleep 60", "has not ended within 1 s and was stopped"),
        pytest.param(
            "trap '' TERM; while :; do sleep 1; done", "has not ended within 1 s and was stopped", marks=EXTENDED
        ),
        ("yes error: no | head -c 30000000; exit 1", "error: no"),
        ("head -c 30000000 /dev/zero; exit 1", "the compiler rejected the sources"),
    ],
    ids=["writes nothing", "half of a library", "half of an object", "killed", "hangs", "stays", "talks", "one line"],
)
def test_a_lie_is_one_sentence(tmp_path: Path, lying: Lying, body: str, words: str) -> None:
    folder = tmp_path / "build"
    folder.mkdir()
    lying(body)
    start = time.monotonic()
    with pytest.raises(ToolchainError) as error:
        build(folder)
    assert words in str(error.value)
    assert len(str(error.value)) < 100_000 and time.monotonic() - start < 30
    lying(f'exec {GXX} "$@"')
    build(folder)  # an honest compiler finds nothing left of the other one's


def test_messages_of_a_compiler_that_succeeds_are_no_failure(tmp_path: Path, lying: Lying) -> None:
    folder = tmp_path / "build"
    folder.mkdir()
    lying(f'yes warning | head -c 20000000; exec {GXX} "$@"')
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    build(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000, "KiB"


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("sleep 60", "does not start"),
        pytest.param("sleep 60 & exit 3", "--version ends with status 3", marks=EXTENDED),
        ("kill -11 $$", "does not start"),
    ],
)
def test_a_compiler_that_does_not_say_its_version(lying: Lying, version: str, words: str) -> None:
    lying("exit 0", version)
    start = time.monotonic()
    with pytest.raises(ToolchainError, match=words):
        compiler.find_compiler()
    assert time.monotonic() - start < 20


def test_a_version_that_is_no_text(lying: Lying) -> None:
    lying("exit 0", "head -c 5000000 /dev/urandom; exit 0")
    version = compiler.find_compiler().version
    assert version.isprintable() and len(version) <= 200


def test_a_library_is_compiled_whole_or_not(tmp_path: Path, lying: Lying) -> None:
    source, output = tmp_path / "a.cpp", tmp_path / "a.so"
    source.write_text('extern "C" int a() { return 1; }\n')
    lying(f'exec {GXX} "$@"')
    compiler.shared_object(["-shared", "-fPIC", str(source)], output)
    whole = output.read_bytes()
    assert not elf.fault(whole, shared=True)
    lying("exit 0")
    with pytest.raises(ToolchainError, match="reported success"):
        compiler.shared_object(["-shared", "-fPIC", str(source)], output)
    assert output.read_bytes() == whole
    for size in (0, 3, 40, 63, 64, 500, len(whole) // 2, len(whole) - 1):
        assert elf.fault(whole[:size], shared=True), size


def test_a_time_limit_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ("0", "-1", "soon", "nan"):
        monkeypatch.setenv(process.LIMIT_VARIABLE, given)
        with pytest.raises(ToolchainError, match="above 0"):
            process.time_limit()


def test_an_interrupt_ends_what_was_started(tmp_path: Path) -> None:
    def interrupted(data: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.follow(["sh", "-c", f"echo x; sleep 77; touch {tmp_path}/late"], interrupted)
    # A signal that has been sent need not have been delivered yet: the grandchild is not ours to wait for.
    end = time.monotonic() + 20
    while running(b"sleep\x0077\x00"):
        assert time.monotonic() < end, "what was started still runs"
        time.sleep(0.01)


def running(command_line: bytes) -> bool:
    """True if a process of this command line exists and has not ended."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command_line in path.read_bytes():
                return True
        except OSError:
            continue  # it has ended since
    return False


KILLED = """
import sys
from pathlib import Path
from xclbin_build import cache
from xclbin_build.toolchain import process
with cache.locked(Path(sys.argv[1])) as lock:
    process.follow(["sh", "-c", "echo started; sleep 3"], lambda data: print("started", flush=True), keep_open=[lock])
"""


def test_what_a_killed_process_has_started_keeps_the_lock(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(target)], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None and program.stdout.readline()
        program.send_signal(signal.SIGKILL)
        program.wait()
        handle = os.open(f"{target}.lock", os.O_RDWR)
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(handle)
        with cache.locked(target):
            pass
