"""Whatever a user can name is in the docs, and a test or a target of the Makefile runs it.

The names come from the code: fields of `Options`, parsers of both commands, files of platforms and recipes, choices of
drivers, and the environment variables that sources read. A name is run if a test or the Makefile spells it as it is
used: `--option`, `option=` or `"option"`; files and variables by their whole name. The tests behind that are the
features' own; those that had none are in test_seldom_used.py.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import xclbin_build.check_command as check_command
import xclbin_build.cli as xclbin_cli
from fpga_dynamo.options import Options
from fpga_dynamo.tools import cli
from xclbin_build import platform, recipe

ROOT = Path(__file__).parents[1]
SOURCES = ("fpga_dynamo", "xclbin_build", "hls_kernels")
_READ = re.compile(r'(?:environ(?:\.get\(|\[|\.pop\()|getenv\(|[A-Z]_VARIABLE = )\s*"([A-Z][A-Z0-9_]+)"')
_FORMATS = (".xclbin", ".toml", ".json", ".csv", ".parquet", ".svg", ".png", ".html", ".md")
_SHOWN_BY_HELP = {"--help", "--backend"}
"""Of every command; and what only developers of the package use, which --help leaves out."""


def _words(paths: Iterable[Path]) -> set[str]:
    """All words, with the dashes of options and the dots of suffixes."""
    found: set[str] = set()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r"[\w-]+", text)) | set(re.findall(r"\.[a-z]+", text))
    return found


@cache
def _docs() -> set[str]:
    return _words([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


@cache
def _runs() -> set[str]:
    """The Makefile and all tests but those that only enumerate names or feed nonsense."""
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    tests = [path for path in tests if "malformed_input" not in path.parts]
    return _words([*tests, ROOT / "Makefile"])


def _options_of(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield f"{name} {word}", (word,)
                yield from _options_of(below, f"{name} {word}")
        elif action.option_strings and not _SHOWN_BY_HELP & set(action.option_strings):
            yield f"{name} {action.option_strings[-1]}", tuple(action.option_strings)


def _command_line() -> dict[str, tuple[str, ...]]:
    """Each subcommand and option, with its spellings."""
    return {
        **dict(_options_of(cli._parser(), "fpga-dynamo")),
        **dict(_options_of(xclbin_cli._parser(), "xclbin-build")),
        **dict(_options_of(check_command._parser(), "xclbin-build check")),
    }


def _variables() -> set[str]:
    """Read by name, or by a constant such as KEY_VARIABLE."""
    found: set[str] = set()
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".cpp", ".hpp"):
                found |= set(_READ.findall(path.read_text(encoding="utf-8")))
    return found


NAMES = {
    **{f"option {field.name}": (field.name,) for field in fields(Options)},
    **{f"driver {name}": (name,) for name in Options._CHOICES["driver"]},
    **{f"choice {key}={name}": (name,) for key, names in Options._CHOICES.items() for name in names},
    **{f"platform {name}": (name,) for name in platform.names()},
    **{f"recipe {name}": (name,) for name in recipe.names()},
    **{f"variable {name}": (name,) for name in sorted(_variables())},
    **{f"format {suffix}": (suffix,) for suffix in _FORMATS},
    **_command_line(),
}


def test_the_names_are_found() -> None:
    """The enumeration itself: what each kind has at least."""
    kinds = [name.split()[0] for name in NAMES]
    assert kinds.count("option") >= 16 and kinds.count("recipe") >= 16 and kinds.count("platform") >= 7
    assert kinds.count("variable") >= 12 and kinds.count("fpga-dynamo") >= 40 and kinds.count("xclbin-build") >= 20


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_documented(name: str) -> None:
    assert not _docs().isdisjoint(NAMES[name]), f"docs/ do not mention {NAMES[name]}"


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_run(name: str) -> None:
    assert not _runs().isdisjoint(NAMES[name]), f"no test or target uses {NAMES[name]}"
