"""Sources of others: whether the checker gets through them, and whether the emulator builds them.

    python -m benchmarks.hls_sources CHECKOUT [--build] [--seconds 60] [--each 30]

A design is what a Tcl script of Vitis HLS names (`set_top`, `add_files` without `-tb`), or, with none of these in its
folder, a function of `extern "C"` in a C++ file with a pragma. CHECKOUT is a repository's working tree; none of it is
part of this project. Designs are divided by the first folder that they lie in, of each of which the first --each are
taken. `--build` builds those that are kernels (`extern "C"`) for the emulator. Whatever a loop is found to be is
not held against anything: there are no reports of these.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

SUFFIXES = (".c", ".cc", ".cpp", ".cxx")
_TOOL = Path(sys.executable).with_name("xclbin-build")


@dataclass(frozen=True)
class Design:
    """folder: of the script, or of the source. options: folders of headers, macros. kernel: of `extern "C"`."""

    folder: Path
    top: str
    sources: tuple[Path, ...]
    options: tuple[str, ...]
    kernel: bool = False


def designs(root: Path) -> Iterator[Design]:
    """Those of a tree, in the order of their paths."""
    scripted = set()
    for path in sorted(root.rglob("*.tcl")):
        design = of_script(path)
        if design and (design.folder, design.top) not in scripted:
            scripted.add((design.folder, design.top))
            yield design
    folders = {folder for folder, _ in scripted}
    for path in sorted(root.rglob("*.cpp")):
        text = path.read_text(errors="ignore")
        if "#pragma HLS" in text and not folders & {path.parent, *path.parents}:
            for top in kernels(text):
                yield Design(path.parent, top, (path,), (), kernel=True)


def kernels(text: str) -> list[str]:
    """Names of the functions behind `extern "C"` that are not static."""
    code = re.sub(r"//.*|/\*[\s\S]*?\*/", "", text)
    _, marker, behind = code.partition('extern "C"')
    return list(dict.fromkeys(re.findall(r"(?<!static )\b(?:void|int)\s+(\w+)\s*\(", behind))) if marker else []


def of_script(path: Path) -> Design | None:
    """What a Tcl script synthesises, if it says so; its variables are put in where a `set` of it gives them a value."""
    text = re.sub(r"^\s*#.*", "", path.read_text(errors="ignore"), flags=re.MULTILINE)
    values = dict(re.findall(r'^\s*set\s+(\w+)\s+"?([^\s"]+)"?', text, flags=re.MULTILINE))
    text = re.sub(r"\$\{?(\w+)\}?", lambda m: values.get(m[1], m[0]), text)
    top = re.search(r'(?:set_top|-top)\s+"?(\w+)', text)
    if not top:
        return None
    sources: list[Path] = []
    options: list[str] = []
    for line in re.findall(r"^\s*add_files?\s+(.*)$", text, flags=re.MULTILINE):
        if "-tb" in line:
            continue
        if flags := re.search(r'-cflags\s+("[^"]*"|\{[^}]*\}|\S+)', line):
            line = line.replace(flags[0], "")
            options += [f"-I{path.parent / folder}" for folder in re.findall(r"-I\s*([^\s\"}]+)", flags[1])]
            options += [f"-D{macro}" for macro in re.findall(r"-D\s*([^\s\"}]+)", flags[1])]
        for name in re.sub(r'[\[\]{}"]', " ", line).split():
            if not name.startswith("-"):
                sources += sorted(path.parent.glob(name)) if "*" in name else [path.parent / name]
    there = dict.fromkeys(source for source in sources if source.suffix in SUFFIXES and source.is_file())
    options += [f"-I{folder}" for folder in sorted({path.parent, *(source.parent for source in there)})]
    return Design(path.parent, top[1], tuple(there), tuple(options)) if there else None


def checked(design: Design, seconds: float) -> str:
    """Why a design cannot be checked; "" if it can."""
    command = ["check", *map(str, design.sources), "--top", design.top, "--platform", "u250", "--json", *design.options]
    done = _done(command, seconds)
    if done is None:
        return f"not done after {seconds:g} s"
    try:
        parts = json.loads(done.stdout)["parts"]
    except (ValueError, KeyError):
        return _first_error(done.stderr or done.stdout)
    return next((str(part["note"]) for part in parts if "loops" not in part), "")


def built(design: Design, seconds: float) -> str:
    """Why a kernel cannot be built for the emulator; "" if it can."""
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder) / "recipe.toml"
        recipe.write_text(f'name = "other"\n\n[kernel.{design.top}]\nsource = "{design.sources[0]}"\ncu = 1\n')
        command = ["--target", "emu", "--recipe", str(recipe), "-o", str(recipe.with_suffix(".xclbin"))]
        done = _done(command, seconds)
        if done is None:
            return f"not done after {seconds:g} s"
        return "" if done.returncode == 0 else _first_error(done.stderr)


def _done(arguments: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str] | None:
    """What xclbin-build says; None, with all that it had started ended, if it is not done in time."""
    command = [str(_TOOL), *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def _first_error(text: str) -> str:
    found = re.findall(r"^.*\berror: (?!the compiler refused).*$", text, flags=re.MULTILINE)
    return (found or text.strip().splitlines() or ["no output"])[0][:300]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hls_sources", description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--build", action="store_true", help="build kernels for the emulator, too")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each design (60)")
    parser.add_argument("--each", type=int, default=30, help="designs of each of the checkout's first folders (30)")
    parser.add_argument("--jobs", type=int, default=2, help="at a time (2)")
    options = parser.parse_args(arguments)
    taken: Counter[str] = Counter()
    chosen = []
    for design in designs(options.checkout):
        group = design.folder.relative_to(options.checkout).parts[:1]
        taken[str(group)] += 1
        if taken[str(group)] <= options.each:
            chosen.append(design)
    steps = {"checked": (checked, chosen)}
    if options.build:
        steps["built for the emulator"] = (built, [design for design in chosen if design.kernel])
    for what, (step, those) in steps.items():
        right = 0
        with ThreadPoolExecutor(options.jobs) as pool:
            for design, why in zip(those, pool.map(partial(step, seconds=options.seconds), those), strict=True):
                right += not why
                if why:
                    print(f"{design.sources[0].relative_to(options.checkout)} {design.top}: {why}", flush=True)
        print(f"{what}: {right} of {len(those)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
