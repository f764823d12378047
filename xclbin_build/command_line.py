"""What both commands do around an action: each mistake of the user or the machine is one sentence and exit status 2."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Sequence

FAILED, INTERRUPTED, PIPE_CLOSED = 2, 130, 1
MOST = 1500
"""Characters of a line of a message: values come from files of any size."""
_LIMIT = f"Python's limit is {sys.getrecursionlimit()} nested calls"


def run_command(
    program: str,
    action: Callable[[], int],
    refusals: tuple[type[Exception], ...],
    cause: Callable[[Exception], object] = lambda error: error,
) -> int:
    """The exit status of `action`. refusals: the errors whose message is for the user.

    cause: what an error stands for, where another layer wraps it. An error that is neither a refusal nor of the
    machine's limits (files, memory, recursion) is a fault of the package: it is named so and raised.
    """
    _show_any_text()
    try:
        status = action()
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except Exception as error:
        found = cause(error)
        if isinstance(found, refusals):
            return refuse(program, str(found))
        if isinstance(found, OSError):
            return refuse(program, os_sentence(found))
        if isinstance(found, MemoryError):
            return refuse(program, "not enough memory; use a smaller batch or model")
        if isinstance(found, RecursionError):
            return refuse(program, f"a model, an input or a file is nested too deeply: {_LIMIT}; nest it less deeply")
        refuse(program, "internal error, please report it with the lines below")
        raise


def parse(parser: argparse.ArgumentParser, words: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments; an empty one is refused, which would mean nothing or, as a path, the working folder."""
    _show_any_text()
    given = list(sys.argv[1:] if words is None else words)
    for number, word in enumerate(given):
        if not word or re.fullmatch(r"--[\w-]+=", word):
            where = word.rstrip("=") or f"{given[number - 1] if number else 'the first'}"
            parser.error(f"argument {where}: it is empty; give a value or leave it out")
        if re.fullmatch(r"(--[\w-]+=|-\w)--", word):  # argparse of Python 3.11 makes an empty list of the value
            parser.error(f"argument {word[:-2].rstrip('=')}: its value is '--', which ends options; give another")
        if any(ord(c) < 32 or ord(c) == 127 for c in word):
            parser.error(f"the argument {ascii(word)[:MOST]} has a control character; rename the file or leave it out")
    try:
        return parser.parse_args(given)
    except OSError as error:  # of a path's type
        parser.error(os_sentence(error)[:MOST])


def refuse(program: str, sentence: str) -> int:
    """Prints why the command could not be carried out; returns the exit status."""
    printable = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in sentence)
    lines = [f"{line[:MOST]} ..." if len(line) > MOST else line for line in printable.split("\n")]
    print(f"{program}: " + "\n".join(lines), file=sys.stderr)
    return FAILED


def os_sentence(error: OSError) -> str:
    """An error of the operating system with the file that it is about."""
    reason = error.strerror or str(error) or type(error).__name__
    names = [ascii(os.fspath(name)) for name in (error.filename, error.filename2) if name is not None]
    return f"cannot use the file {' or '.join(names)}: {reason}" if names else f"the system refused: {reason}"


def _show_any_text() -> None:
    """File names may hold what the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What is still buffered goes nowhere, so that the interpreter's last flush does not fail once more."""
    with contextlib.suppress(OSError, ValueError):  # standard output may be no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
