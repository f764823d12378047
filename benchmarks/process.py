"""Pieces of a measurement in processes of their own: ``run(piece, ...)`` here, ``main`` there.

A piece is a function of `benchmarks.pieces` whose arguments and result are JSON. What it prints is not read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.environment import ROOT


class PieceError(Exception):
    """The process ended without a result."""


def run(piece: str, folder: Path, variables: Mapping[str, str] | None = None, **arguments: Any) -> Any:
    """What ``benchmarks.pieces.PIECE(**arguments)`` returns in a new process with these environment variables.

    folder: for the answer. Raises PieceError with the end of its stderr.
    """
    answer = folder / "answer.json"
    answer.unlink(missing_ok=True)
    environment = {**os.environ, **(variables or {}), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.process", piece, json.dumps(arguments), str(answer)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode or not answer.exists():
        lines = done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"]
        raise PieceError(f"{piece} {arguments}: {lines[-1]}")
    return json.loads(answer.read_text(encoding="utf-8"))


def main() -> None:
    from benchmarks import pieces

    piece, arguments, answer = sys.argv[1:]
    result = getattr(pieces, piece)(**json.loads(arguments))
    Path(answer).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
