"""`xclbin-build new`: the files of a kernel or core of one's own, which build and pass as they are."""

from __future__ import annotations

import argparse
import keyword
from pathlib import Path

from . import atomic_file, names
from .command_line import parse
from .design import core_names
from .errors import RecipeError

TEMPLATES = Path(__file__).parent / "templates"
KINDS = ("core", "kernel")
_MARK, _ENDING = "@NAME@", ".in"
_BENCH = "g++ -std=c++17 -O1 -Wno-psabi -Wno-unknown-pragmas -I {kernels} {name}_tb.cpp -o bench && ./bench"


def run(words: list[str]) -> int:
    """The command. Returns 0; a name or folder that cannot be used is a RecipeError."""
    parser = argparse.ArgumentParser(
        prog="xclbin-build new",
        description="Writes the files of a kernel or core of your own, with an operator of PyTorch that uses it.",
    )
    parser.add_argument("kind", choices=KINDS, help="core: commands in a model's launch; kernel: a plain HLS kernel")
    parser.add_argument("name", help="of the C++ function, the operator and the files")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder for the files (default: NAME)")
    options = parse(parser, words)
    folder = options.output or Path(options.name)
    for path in write(options.kind, options.name, folder):
        print(f"wrote {path}")
    print(f"\ncd {folder}")
    if options.kind == "core":
        from hls_kernels import ROOT

        print(_BENCH.format(kernels=ROOT, name=options.name))
    print("python model.py")
    return 0


def write(kind: str, name: str, folder: Path) -> list[Path]:
    """Writes the files of a scaffold and returns their paths.

    Raises RecipeError for a name that C++ or Python cannot use, and for a file that is there already.
    """
    names.check(name, names.KERNEL, "the name")
    if keyword.iskeyword(name) or name in ("main", "torch", "model"):
        raise RecipeError(f"'{name}' has another meaning in C++, Python or the files; choose another name.")
    if kind == "core" and name in core_names():
        raise RecipeError(f"'{name}' is a built-in core; choose another name.")
    contents = {}
    for template in sorted((TEMPLATES / kind).iterdir()):
        path = folder / template.name.removesuffix(_ENDING).replace("NAME", name)
        contents[path] = template.read_text(encoding="utf-8").replace(_MARK, name)
    for path in contents:
        if path.exists():
            raise RecipeError(f"{path} exists already; choose another name, or another folder with -o.")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in contents.items():
        atomic_file.write(path, text)
    return list(contents)
