"""Runs tests with ``fpga_dynamo._native`` compiled under AddressSanitizer and UndefinedBehaviorSanitizer.

``python -m tests.sanitize [PYTEST ARGUMENT ...]``, for `make sanitize`. Without arguments it runs the tests that reach
every native source of the card, the bindings and the scheduler's simulator. A report of a sanitizer ends the run.
The xclbins' kernels are not instrumented here: `make benches-sampled` runs those under the sanitizers.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from tests.native_build import ROOT, build, configure

FOLDER = ROOT / "build/sanitize"
SANITIZERS = "address,undefined"
TESTS = (
    "tests/driver/test_driver_borrowed.py",
    "tests/driver/test_driver_memory.py",
    "tests/driver/test_driver_runs.py",
    "tests/driver/test_driver_threads.py",
    "tests/driver/test_driver_xclbin.py",
    "tests/driver/test_driver_faults.py",
    "tests/backend/test_direct_calls.py",
    "tests/backend/test_concurrency.py",
    "tests/compile_cache/test_attacks.py",
    "tests/runtime/test_policies.py",
    "tests/runtime/test_simulate.py",
)
_CARD_HANDLES = ("segv", "sigbus", "abort", "sigfpe", "sigill")
"""Signals that the device model catches while a kernel runs, which a sanitizer must leave to it."""


class _Instrumented:
    """Finds the instrumented module in the place of the installed one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "fpga_dynamo._native":
            return None
        return importlib.util.spec_from_file_location(name, self.path)


def _library(name: str) -> str:
    """The path of a sanitizer's run-time library, which has to be loaded before Python."""
    compiler = os.environ.get("CXX", "g++")
    command = [compiler, f"-print-file-name={name}"]
    path = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    if not Path(path).is_absolute():  # the compiler repeats the name of a file that it does not find
        raise SystemExit(f"tests.sanitize: {compiler} has no {name}: install the sanitizer libraries of this compiler")
    return path


def _rerun(arguments: list[str]) -> int:
    """Builds the module, and starts this program again with the sanitizers' libraries loaded first."""
    libraries = ":".join(map(_library, ("libasan.so", "libubsan.so")))
    configure(
        FOLDER, f"-DFPGA_DYNAMO_SANITIZE={SANITIZERS}", "-DFPGA_DYNAMO_XRT=OFF", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"
    )
    build(FOLDER, "_native")
    # Python itself leaks at its end, and the device model leaves stacks of kernels by siglongjmp.
    address = ["detect_leaks=0", "detect_stack_use_after_return=0", *(f"handle_{name}=0" for name in _CARD_HANDLES)]
    environment = {
        **os.environ,
        "LD_PRELOAD": libraries,
        "ASAN_OPTIONS": ":".join(address),
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }
    return subprocess.run(
        [sys.executable, "-m", "tests.sanitize", *arguments], cwd=ROOT, env=environment, check=False
    ).returncode


def main(arguments: list[str]) -> int:
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        return _rerun(arguments)
    del os.environ["LD_PRELOAD"]  # compilers that tests start do without
    (module,) = FOLDER.glob("_native*.so")
    sys.meta_path.insert(0, _Instrumented(module))
    from fpga_dynamo import _native

    if _native.__file__ is None or not Path(_native.__file__).samefile(module):
        raise SystemExit(f"tests.sanitize: the instrumented module {module} was not loaded, but {_native.__file__}")
    # A report goes to file descriptor 2 and ends the process: pytest must not capture it.
    return int(pytest.main(["-q", "-m", "not slow", "--capture=sys", *(arguments or TESTS)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
