"""Types of command-line arguments: each refuses what no run could use, before anything has been done."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from pathlib import Path

MOST = 2**31 - 1
MOST_SEED = 2**63 - 1


def whole(least: int = 1, most: int = MOST) -> Callable[[str], int]:
    """The type of a whole number from `least` to `most`."""

    def read(text: str) -> int:
        digits = text.removeprefix("-")
        value = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 30 else least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text[:40]!a} is not a whole number from {least} to {most}")
        return value

    return read


def positive_number(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1e18:
        raise argparse.ArgumentTypeError(f"{text[:40]!a} is not a finite number above 0")
    return value


def output_file(text: str) -> Path:
    """A file that can be written."""
    path = Path(text)
    folder = path.absolute().parent
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!a} is a folder; give a file's name, too")
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder '{folder}' to write {path.name} into")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!a} cannot be written: permission denied")
    return path


def output_folder(text: str) -> Path:
    """A folder that exists or can be made, and can be written into."""
    path = Path(text)
    there = path.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise argparse.ArgumentTypeError(f"{text!a} is not a folder: '{there}' is a file")
    if not os.access(there, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!a} cannot be written: permission denied for '{there}'")
    return path
