"""The language check finds what it says it finds, and nothing in code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import prose

LONG = " ".join(["word"] * (prose.MOST_WORDS + 1)) + "."


def in_page(text: str) -> list[str]:
    return [finding.text for finding in prose.page_findings(Path("a.md"), text)]


def in_source(text: str, name: str = "a.py") -> list[str]:
    return [finding.text for finding in prose.source_findings(Path(name), text)]


def test_a_banned_term_is_found_wherever_it_stands() -> None:
    assert len(in_page("Runs on the software card.\n\n| a |\n|---|\n| the counting card |\n")) == 2
    source = '"""Runs on the software card."""\nraise Error(f"the {x} software card")  # there is none\n'
    assert len(in_source(source)) == 3
    assert len(in_source("// the software card\nint a;\n", "a.hpp")) == 1


def test_code_is_no_prose() -> None:
    assert not in_page("Call `anew`.\n\n```python\nanew = sideways\n```\n")
    assert not in_source("if anew is None:\n    sideways = 'anew'\n")


def test_a_long_sentence_is_found() -> None:
    first, *_ = in_page(f"{LONG}\n")
    assert first.startswith(f"a sentence of {prose.MOST_WORDS + 1} words: ")
    assert len(in_source(f'"""{LONG}"""\n')) == 1
    assert not in_source(f'"""{LONG[:100]}. {LONG[:100]}."""\n'), "two short ones"


def test_a_page_of_long_sentences_is_found() -> None:
    sentence = " ".join(["word"] * (int(prose.MEAN_WORDS) + 5)).capitalize() + "."
    assert in_page(f"{sentence} {sentence}") == [f"its sentences have {prose.MEAN_WORDS + 5:.1f} words on average"]
    assert not in_page(f"# {sentence}\n\n| {sentence} |\n|---|\n\nA short one.\n"), "headings and cells do not count"


def test_a_finding_in_a_page_or_a_source_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, folder = tmp_path / "page.md", tmp_path / "package"
    folder.mkdir()
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "SOURCES", ("package",))
    page.write_text("A short one.\n")
    assert prose.main([]) == 0
    (folder / "module.py").write_text('"""It is compiled anew."""\n')
    assert prose.main([]) == 1
    (folder / "module.py").unlink()
    page.write_text("It is compiled anew.\n")
    assert prose.main([]) == 1
    page.write_text("A short one.\n")
    (tmp_path / "Makefile").write_text("all:  # built anew\n")
    assert prose.main([]) == 1
    (tmp_path / "Makefile").write_text("all:\n\tanew\n")
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_it.py").write_text(f'"""{LONG}"""\n')
    assert prose.main([]) == 0, "sentences of tests may be long"
    (tests / "test_it.py").write_text('"""It is compiled anew."""\n')
    assert prose.main([]) == 1
