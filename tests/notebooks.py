"""The tutorials as Jupyter notebooks: ``python -m tests.notebooks FOLDER`` writes them, for `make notebooks`.

A notebook is made from its page, so the text exists once. Examples become code cells by the words behind their fences
(tests/doc_blocks.py): Python as it is, commands with ``%%bash``, files with ``%%writefile``. Outputs are left out: they
appear as the cells run. ``python -m tests.notebooks --run NOTEBOOK`` runs the cells in the current folder, without
Jupyter.
"""

from __future__ import annotations

import argparse
import json
import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.doc_blocks import ROOT, TUTORIALS, Block, parts_of

_LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def notebook(page: Path) -> dict[str, Any]:
    """A page as a notebook of format 4.5."""
    cells: list[dict[str, Any]] = []
    text = ""
    for part in [*parts_of(page), None]:
        code = _code(part) if isinstance(part, Block) else None
        if isinstance(part, str):
            text += _with_paths(part, page)
        elif isinstance(part, Block) and code is None and not part.is_output:
            text += f"```{part.language}\n{part.text}```\n"
        if (part is None or code is not None) and text.strip():
            cells.append(_cell("markdown", len(cells), text.strip()))
            text = ""
        if code is not None:
            cells.append(_cell("code", len(cells), code) | {"execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _code(block: Block) -> str | None:
    """The source of a block's cell; None if it is only shown."""
    if (path := block.value("write")) is not None:
        return f"%%writefile {path}\n{block.text}".rstrip("\n")
    if not block.runs:
        return None
    if block.language == "python":
        return block.text.rstrip("\n")
    program = block.value("needs")
    first = [f"command -v {program} >/dev/null || {{ echo 'needs {program}'; exit 0; }}"] if program else []
    return "\n".join(["%%bash", "set -e", *first, *block.commands])


def _cell(kind: str, number: int, source: str) -> dict[str, Any]:
    return {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}


def _with_paths(text: str, page: Path) -> str:
    """Links to other pages as the paths of their files: a notebook may lie anywhere."""

    def path(found: re.Match[str]) -> str:
        label, target = found.groups()
        if "://" in target:
            return found[0]
        return f"{label} (`{posixpath.normpath(posixpath.join(page.parent.relative_to(ROOT).as_posix(), target))}`)"

    return _LINK.sub(path, text)


def write(folder: Path) -> list[Path]:
    """Writes all notebooks; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for page in TUTORIALS:
        path = folder / f"{page.stem}.ipynb"
        path.write_text(json.dumps(notebook(page), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append(path)
    return written


def run(path: Path) -> None:
    """Runs a notebook's code cells in the current folder, with the two magics that `notebook` uses."""
    sys.path.insert(0, os.getcwd())
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        first, _, rest = source.partition("\n")
        if cell["cell_type"] != "code":
            continue
        if first == "%%bash":
            subprocess.run(["bash", "-c", rest], check=True)
        elif first.startswith("%%writefile "):
            Path(first.split()[1]).write_text(rest + "\n", encoding="utf-8")
        else:
            exec(compile(source, f"{path.name}:{cell['id']}", "exec"), names)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the notebooks, or runs one."""
    parser = argparse.ArgumentParser(description="The tutorials of docs/tutorials as Jupyter notebooks")
    parser.add_argument("--run", action="store_true", help="run the notebook PATH instead of writing notebooks")
    parser.add_argument("path", type=Path, metavar="PATH", help="folder to write the notebooks to")
    given = parser.parse_args(arguments)
    if given.run:
        run(given.path)
    else:
        print(*write(given.path), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
