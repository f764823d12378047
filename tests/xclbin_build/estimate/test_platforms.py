"""`xclbin-build estimate --all-platforms`: a row for each platform, by sizes alone."""

from __future__ import annotations

import json

import pytest

from xclbin_build import platform as platforms
from xclbin_build.cli import main

CARDS = [name for name in platforms.names() if name != "emu"]


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, object]]:
    """The rows of a table of sizes, of which some must fit."""
    assert main(["estimate", "--all-platforms", "--sizes-only", "--json", *words]) == 0
    return {row["platform"]: row for row in json.loads(capsys.readouterr().out)}


def test_each_platform_with_its_own_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys)
    assert list(found) == CARDS
    assert all(row["fits"] is True and row["recipe"] == f"engine-{name}" for name, row in found.items())


def test_one_recipe_on_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "--recipe", "engine-kv260")
    assert found["zcu102"]["fits"] is False and found["u250"]["fits"] is True
    found = rows(capsys, "--recipe", "engine-u250")
    assert found["kv260"]["fits"] is None and "no bank 'DDR[0]'" in str(found["kv260"]["reason"])


def test_table_and_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--all-platforms", "--sizes-only", "--recipe", "engine-kv260"]) == 0
    said = capsys.readouterr().out
    assert "896 (72%)" in said and "46 of 0 URAM" in said
    assert main(["estimate", "--all-platforms", "--platform", "u250"]) == 2
    assert "--platform and --all-platforms exclude each other" in capsys.readouterr().err
    assert main(["estimate", "--sizes-only", "--platform", "u250"]) == 2
    assert main(["estimate", "--all-platforms", "--recipe", "emulatr"]) == 2
