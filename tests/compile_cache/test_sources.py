"""Which of the package's sources a compiled program depends on: those that compiling imports, and no others."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fpga_dynamo import errors
from fpga_dynamo.cache.keys import COMPILER, sources

PACKAGE = Path(errors.__file__).parent
IMPORT_ONLY = {"__init__.py", "after_torch.py"}
"""They import on first use, and compute nothing."""
ON_REQUEST = {"plotting.py"}
"""Only pictures import it."""
DEVICE = PACKAGE / "device"
"""`import torch` loads it (entry point `torch.backends`); the compiler imports nothing of it."""

COMPILE = """
import sys
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5)).eval()
x = torch.randn(2, 3, 8, 8)
torch.compile(model, backend="fpga", options={"xclbin": sys.argv[1], "dump_dir": sys.argv[2]})(x).sum().backward()
with torch.no_grad():
    torch.compile(model, backend="fpga", options={"xclbin": sys.argv[1], "verify": True}, dynamic=True)(x)
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] == "fpga_dynamo" and str(module.__file__).endswith(".py"):
        print(module.__file__)
"""


def is_covered(file: Path) -> bool:
    parts = file.relative_to(PACKAGE).parts
    return parts[0] in COMPILER


def imported(file: Path) -> Iterator[Path]:
    """The files of the package that a file imports, also within functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
        else:
            continue
        for name in names:
            package, *parts = name.split(".")
            place = PACKAGE.joinpath(*parts)
            if package == PACKAGE.name:
                yield from (found for found in (place.with_suffix(".py"), place / "__init__.py") if found.is_file())


def test_whatever_the_backend_can_import_counts() -> None:
    found, new = set[Path](), {PACKAGE / "frontend" / "backend.py"}
    while new:
        found |= new
        new = {file for start in new if start != PACKAGE / "__init__.py" for file in imported(start)} - found
    assert len(found) > 150
    missing = {file for file in found if not is_covered(file)}
    assert {file.name for file in missing} <= IMPORT_ONLY | ON_REQUEST, f"add to keys.COMPILER: {sorted(missing)}"


@pytest.mark.slow
@pytest.mark.extended
def test_whatever_a_compilation_imports_counts(xclbin: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", COMPILE, xclbin, str(tmp_path / "dump")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    files = {Path(line) for line in done.stdout.splitlines()}
    missing = {file for file in files if not is_covered(file) and file.parent != DEVICE}
    assert PACKAGE / "cache" / "keys.py" in files and {file.name for file in missing} <= IMPORT_ONLY, sorted(missing)


def test_an_edit_of_a_tool_keeps_programs_and_an_edit_of_the_compiler_does_not(tmp_path: Path) -> None:
    package = tmp_path / PACKAGE.name
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "native", "*.so"))
    before = sources(package)
    assert before == sources(PACKAGE)
    for kept in ("tools/soc/sweep.py", "testing/fuzz.py", "quantize/flow.py", "signal.py", "plotting.py"):
        with (package / kept).open("a") as file:
            file.write("# changed\n")
    assert sources(package) == before
    keys = {before}
    for name in ("lowering/passes/claim.py", "ir/new.py", "options.py", "runtime/cards/card.py", "codegen/__init__.py"):
        with (package / name).open("a") as file:
            file.write("# changed\n")
        keys.add(sources(package))
    (package / "ir/new.py").rename(package / "ir/newer.py")
    assert len(keys | {sources(package)}) == 7
    assert all((PACKAGE / name).exists() for name in COMPILER)
