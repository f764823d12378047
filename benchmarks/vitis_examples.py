"""Vitis_Accel_Examples with their own host programs, unchanged, on the emulator: what runs, and why the rest does not.

    python -m benchmarks.vitis_examples CHECKOUT [--only NAME] [--route process] [--seconds 300]

CHECKOUT is a working tree of github.com/Xilinx/Vitis_Accel_Examples; none of it is part of this project. Each folder
with a `description.json` is an example. Its kernels are built by `xclbin-build --target sw_emu`, its host program is
compiled by g++ against the XRT of this machine, and `fpga-dynamo emulate` runs the host program. An example passes if
that ends with exit status 0 and does not print that the test failed. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fpga_dynamo.tools.emulate import ROUTES

TOOLS = Path(sys.executable).parent
_HEADERS = Path(__file__).parents[1] / "hls_kernels/headers"
"""Host programs include ap_int.h and the like, as Vitis' Makefiles let them."""
_XRT_HEADERS = Path("/usr/include/xrt")
_LIBRARIES = ("-lxrt_coreutil", "-luuid", "-lOpenCL", "-lpthread", "-lrt")


class Failure(Exception):
    """A step that failed, and the first line that says why."""

    def __init__(self, step: str, why: str) -> None:
        super().__init__(f"{step}: {why}")


@dataclass(frozen=True)
class Container:
    """An xclbin: its kernels as (name, source), and options of its build."""

    name: str
    kernels: tuple[tuple[str, Path], ...]
    options: tuple[str, ...]


@dataclass(frozen=True)
class Example:
    """What a description.json says. `arguments` have the words BUILD, PROJECT and REPO_DIR for folders."""

    checkout: Path
    folder: Path
    name: str
    sources: tuple[Path, ...]
    options: tuple[str, ...]
    containers: tuple[Container, ...]
    arguments: str
    cards: int
    not_run: str = field(default="")

    @property
    def api(self) -> str:
        """Of the host program: what its own sources include or import."""
        text = "".join(path.read_text(errors="ignore") for path in self.sources if path.is_file())
        if self.sources and self.sources[0].suffix == ".py":
            return "Python"
        found = [name for name, sign in (("native", r"xrt/\w+\.h|experimental/xrt"), ("OpenCL", r"\bcl::|xcl2\.hpp"))
                 if re.search(sign, text)]  # fmt: skip
        return " and ".join(found) or "-"


def examples(checkout: Path) -> Iterator[Example]:
    """Those of a tree, in the order of their paths."""
    for path in sorted(checkout.rglob("description.json")):
        described = json.loads(path.read_text(encoding="utf-8"))
        if "containers" in described and "host" in described:
            yield _example(checkout, path.parent, described)


def _example(checkout: Path, folder: Path, described: dict[str, Any]) -> Example:
    def place(text: str) -> Path:
        return Path(_placed(text, checkout, folder) if re.match("REPO_DIR|PROJECT", text) else folder / text)

    compiler = described["host"].get("compiler", {})
    options = [f"-I{place(each)}" for each in compiler.get("includepaths", [])]
    options += [f"-D{each}" for each in compiler.get("symbols", [])]
    options += shlex.split(compiler.get("options", ""))
    containers, not_run = [], ""
    for each in described["containers"]:
        kernels = [(k["name"], place(k["location"])) for k in each["accelerators"] if "location" in k]
        if len(kernels) < len(each["accelerators"]) or any(k.get("kernel_type") for k in each["accelerators"]):
            not_run = "has RTL kernels"
        flags = " ".join([each.get("ldclflags", ""), *(k.get("clflags", "") for k in each["accelerators"])])
        chosen = _build_options(_placed(flags, checkout, folder))
        containers.append(Container(each["name"], tuple(kernels), chosen))
    launch = described.get("launch") or [{"cmd_args": ""}]
    return Example(
        checkout,
        folder,
        folder.relative_to(checkout).as_posix(),
        tuple(place(each) for each in compiler.get("sources", [])),
        tuple(options),
        tuple(containers),
        launch[0].get("cmd_args", ""),
        int(described.get("num_devices", 1)),
        not_run,
    )


def _placed(text: str, checkout: Path, folder: Path, build: Path | None = None) -> str:
    """With the folders that the words stand for."""
    places = {"REPO_DIR": checkout, "PROJECT": folder, "BUILD": build or "BUILD"}
    return re.sub(r"\b(REPO_DIR|PROJECT|BUILD)\b", lambda word: str(places[word[0]]), text)


def _build_options(flags: str) -> tuple[str, ...]:
    """Of v++'s options those that `xclbin-build` has: config files, macros, folders of headers."""
    words, chosen = shlex.split(flags), []
    for number, word in enumerate(words):
        if word in ("--config", "-D", "-I") and number + 1 < len(words):
            if word != "--config" or words[number + 1] not in chosen:
                chosen += [word, words[number + 1]]
        elif re.match(r"-[DI].", word):
            chosen.append(word)
    return tuple(chosen)


def run_example(example: Example, route: str, seconds: float) -> None:
    """Builds and runs an example. Raises Failure."""
    if example.not_run:
        raise Failure("not run", example.not_run)
    with tempfile.TemporaryDirectory(prefix="vitis_examples_") as name:
        folder = Path(name)
        for container in example.containers:
            words = [word for kernel, source in container.kernels for word in (str(source), "-k", kernel)]
            command = [str(TOOLS / "xclbin-build"), "--target", "sw_emu", *words, *container.options,
                       "-I", str(example.folder / "src"), "-o", str(folder / f"{container.name}.xclbin")]  # fmt: skip
            run_step("xclbin", command, folder, seconds)
        command = _host(example, folder, seconds)
        if (example.folder / "xrt.ini").is_file():
            shutil.copy(example.folder / "xrt.ini", folder)
        arguments = _placed(example.arguments, example.checkout, example.folder, folder)
        emulate = [str(TOOLS / "fpga-dynamo"), "emulate", "--route", route, "--"]
        output = run_step("run", [*emulate, *command, *shlex.split(arguments)], folder, seconds, example.cards)
        if re.search(r"TEST\s+FAILED", output):
            raise Failure("run", "prints TEST FAILED")


def _host(example: Example, folder: Path, seconds: float) -> list[str]:
    """The command of the host program, compiled if it is not Python's."""
    sources = [str(source) for source in example.sources]
    if example.api == "Python":
        return [sys.executable, *sources]
    program = str(folder / "host")
    options = ["-std=c++17", "-O1", "-w", *example.options, f"-I{_XRT_HEADERS}", f"-I{_HEADERS}"]
    run_step("host", ["g++", *options, *sources, "-o", program, *_LIBRARIES], folder, seconds)
    return [program]


def run_step(name: str, command: Sequence[str], folder: Path, seconds: float, cards: int = 1) -> str:
    """What a command prints. Raises Failure; what the command has started is ended with it."""
    environment = os.environ | {"FPGA_DYNAMO_EMULATED_CARDS": str(cards), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()  # `emulate` passes it on
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            raise Failure(name, f"not done after {seconds:g} s") from None
    if process.returncode:
        raise Failure(name, f"exit status {process.returncode}, {first_error(err, out)}")
    return out + err


def first_error(err: str, out: str) -> str:
    """The line that says most of what went wrong."""
    text = f"{err}\n{out}"
    for pattern in (r"^.*\berror: .*$", r"^fpga_dynamo: .*$", r"^.*(?:what\(\)|\b(?i:error|fail(?:ed)?)\b).*$"):
        for line in re.findall(pattern, text, flags=re.MULTILINE):
            if "the compiler rejected the sources" not in line:
                return str(line).strip()[:200]
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else "no output"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vitis_examples", description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", metavar="NAME", help="examples whose path has this in it")
    parser.add_argument("--route", choices=ROUTES, default="inproc", help="of `fpga-dynamo emulate` (inproc)")
    parser.add_argument("--seconds", type=float, default=300.0, help="for each step (300)")
    options = parser.parse_args(arguments)
    chosen = [each for each in examples(options.checkout.resolve()) if (options.only or "") in each.name]
    print("| example | API | result |\n|---|---|---|")
    rows = [
        (f"| {each.name} | {each.api}", partial(run_example, each, options.route, options.seconds)) for each in chosen
    ]
    passed = run_all(rows)
    print(f"\n{passed} of {len(chosen)} examples pass with --route {options.route}")
    return 0


def run_all(rows: Iterable[tuple[str, Callable[[], None]]]) -> int:
    """Runs what belongs to each row of a table, and prints the row with its result. Returns how many passed."""
    passed = 0
    for begin, run in rows:
        result = "passed"
        try:
            run()
            passed += 1
        except Failure as failure:
            result = str(failure).replace("|", "\\|")
        print(f"{begin} | {result} |", flush=True)
    return passed


if __name__ == "__main__":
    sys.exit(main())
