"""The fenced blocks of the documentation, and how they are run.

The words behind a fence's language say what is done with a block:

    python                 run; all blocks of a document share their names
    console                lines that begin with "$ " are run by bash, in a folder of the document's own
    text output            what the block before it prints; "..." stands for anything
    LANGUAGE file=PATH     an excerpt of that file of the repository
    LANGUAGE write=PATH    written to PATH in the document's folder before later blocks run
    LANGUAGE needs=NAME    runs, with the output behind it, where that program, file or Python module is installed
    LANGUAGE not-run: WHY  python or console that cannot run here

Other blocks are only shown.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/reference").glob("*.md")),
    *TUTORIALS,
]
RUNNABLE = ("python", "console")
COMMAND_SECONDS = 300

_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is that of its first line of content."""

    document: str
    line: int
    language: str
    words: str
    text: str

    @property
    def runs(self) -> bool:
        return self.language in RUNNABLE and (not self.words or self.value("needs") is not None)

    @property
    def can_run(self) -> bool:
        """Whether what the block needs is installed."""
        program = self.value("needs")
        if program is None or shutil.which(program) is not None:
            return True
        return Path(program).is_file() if program[0] == "/" else find_spec(program) is not None

    @property
    def is_output(self) -> bool:
        return (self.language, self.words) == ("text", "output")

    @property
    def commands(self) -> list[str]:
        """Commands of a console block."""
        return [line.removeprefix("$ ") for line in self.text.splitlines() if line.startswith("$ ")]

    def value(self, key: str) -> str | None:
        """PATH of `file=PATH` and the like."""
        found = re.search(rf"\b{key}=(\S+)", self.words)
        return found[1] if found else None

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def parts_of(document: Path) -> list[str | Block]:
    """Fenced blocks of a document and the text between them, in order."""
    content = document.read_text(encoding="utf-8")
    found: list[str | Block] = []
    end = 0
    for match in _FENCE.finditer(content):
        language, _, words = match["info"].strip().partition(" ")
        line = content.count("\n", 0, match.start("text")) + 1
        found.append(content[end : match.start()])
        found.append(Block(document.relative_to(ROOT).as_posix(), line, language, words.strip(), match["text"]))
        end = match.end()
    return [*found, content[end:]]


def blocks_of(document: Path) -> list[Block]:
    """All fenced blocks of a document, in order."""
    return [part for part in parts_of(document) if isinstance(part, Block)]


def run_document(document: Path, folder: Path) -> list[str]:
    """Runs a document's blocks in order; returns what went wrong.

    It happens in a process of its own, forked from one that has imported PyTorch and done nothing else, so that what a
    document registers or compiles is gone with it, and starting costs no second import.
    """
    for name in ("benchmarks", "examples", "hls_kernels"):
        (folder / name).symlink_to(ROOT / name)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fpga_dynamo"])
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_run_blocks, args=(blocks_of(document), folder, send))
    process.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        process.join()
        return [f"{document.name}: the process that ran it ended with code {process.exitcode}"]
    finally:
        process.join()


def _run_blocks(blocks: list[Block], folder: Path, results: Any) -> None:
    os.chdir(folder)
    sys.path[:0] = [str(folder), str(ROOT)]  # as an interpreter that was started in the folder
    run: dict[str, Callable[[Block], str]] = {"python": _Interpreter().run, "console": _run_commands}
    problems: list[str] = []
    printed: str | None = ""  # None: the block did not run
    for block in blocks:
        if (path := block.value("write")) is not None:
            Path(path).write_text(block.text, encoding="utf-8")
        elif block.is_output and printed is not None:
            problems += _difference(block, printed)
        elif block.runs and not block.can_run:
            printed = None
        elif block.runs:
            try:
                printed = run[block.language](block)
            except BaseException:
                problems.append(f"{block}: {traceback.format_exc()}")
                break
    results.send(problems)


def _difference(block: Block, printed: str) -> list[str]:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if doctest.OutputChecker().check_output(block.text, printed, options):
        return []
    return [f"{block}: the block before it printed\n{printed}\nand not\n{block.text}"]


class _Interpreter:
    """Runs Python blocks with one set of names; their lines are known to tracebacks, and so to `explain`."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, block: Block) -> str:
        source = "\n" * (block.line - 1) + block.text  # line numbers are those of the document
        linecache.cache[block.document] = (len(source), None, source.splitlines(keepends=True), block.document)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, block.document, "exec"), self._names)
        return printed.getvalue()


def _run_commands(block: Block) -> str:
    environment = dict(os.environ, PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    environment |= {"COLUMNS": "120", "TERM": "dumb"}
    assert block.commands, "a console block without a line that begins with '$ '"
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(block.commands)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
