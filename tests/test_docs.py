"""README and docs: their examples run, their excerpts and tables are what the code says, their links lead somewhere."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from fpga_dynamo import Options
from fpga_dynamo.lowering.ops.host import REASONS
from fpga_dynamo.lowering.order import pattern_names
from fpga_dynamo.lowering.patterns import TABLE
from fpga_dynamo.runtime.observe.counters import COUNTERS
from fpga_dynamo.runtime.scheduling.policies import policy_names
from fpga_dynamo.tools.cli import RIGHT
from fpga_dynamo.tools.opset.table import core_aten, short
from tests.doc_blocks import DOCUMENTS, ROOT, TUTORIALS, Block, blocks_of, run_document
from tests.marks import DOCUMENTATION, EXTENDED
from tests.prose import page_findings

NOT_RUN = 20
"""Blocks that need a card, Vitis, an installation or half an hour; raise it only for what truly cannot run here."""

MOST_WORDS = 1500
"""Of a page that is no list, its examples included."""

LONG = (
    "README.md",
    "benchmarks.md",
    "building-an-xclbin.md",
    "emulating-a-project.md",
    "engine.md",
    "explain-and-trace.md",
    "exporting-a-model.md",
    "int8.md",
    "kernel-operators.md",
    "on-a-card.md",
    "plain-kernels.md",
    "signal.md",
    "soc.md",
    "writing-a-kernel.md",
    "writing-a-pattern.md",
)
"""Pages whose examples take longest: `make extended` runs them, and the tutorials."""


def is_long(document: Path) -> bool:
    return document.name in LONG or document in TUTORIALS


BLOCKS = [block for document in DOCUMENTS for block in blocks_of(document)]


def table(document: Path, heading: str) -> list[list[str]]:
    """Cells of the rows of the first table behind a heading."""
    section = document.read_text(encoding="utf-8").split(f"# {heading}\n", 1)[1]
    return rows_of(section.split("\n#", 1)[0])[2:]


def rows_of(section: str) -> list[list[str]]:
    rows = re.findall(r"^\|(.*)\|$", section, re.MULTILINE)
    return [[cell.strip() for cell in row.split(" | ")] for row in rows]


def code(cell: str) -> str:
    """The first `name` in a cell."""
    return re.search(r"`([^`]*)`", cell)[1]  # type: ignore[index]


def _marks(document: Path) -> tuple[pytest.MarkDecorator, ...]:
    """`make test` runs the examples of the README alone."""
    return EXTENDED if is_long(document) else () if document.name == "README.md" else DOCUMENTATION


@pytest.mark.parametrize("document", [pytest.param(path, marks=_marks(path), id=path.name) for path in DOCUMENTS])
def test_examples_run(document: Path, tmp_path: Path) -> None:
    if not any(block.runs for block in blocks_of(document)):
        pytest.skip("it has no examples")
    problems = run_document(document, tmp_path)
    assert not problems, "\n".join(problems)


def test_long_pages_are_there() -> None:
    assert set(LONG) <= {path.name for path in DOCUMENTS}


def test_blocks_that_do_not_run_say_why() -> None:
    left_out = [block for block in BLOCKS if block.words.startswith("not-run:")]
    assert all(block.words.removeprefix("not-run:").strip() for block in left_out)
    assert len(left_out) == NOT_RUN, [str(block) for block in left_out]


def test_words_behind_a_fence_are_known() -> None:
    unknown = [
        str(block)
        for block in BLOCKS
        if block.words and not (block.is_output or re.match(r"(file|write|needs)=\S+$|not-run: ", block.words))
    ]
    assert not unknown
    assert not [str(block) for block in BLOCKS if not block.language], "a fence without a language"


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.value("file")], ids=str)
def test_excerpts_are_what_the_file_says(block: Block) -> None:
    content = (ROOT / (block.value("file") or "")).read_text(encoding="utf-8")
    for part in re.split(r"^\.\.\.\n", block.text, flags=re.MULTILINE):
        assert part.strip("\n") in content, f"{block}: not in {block.value('file')}:\n{part}"


def test_pages_are_short() -> None:
    lists = ("README.md", "glossary.md", "ops.md")
    words = {path.name: len(path.read_text(encoding="utf-8").split()) for path in DOCUMENTS if path.name not in lists}
    assert not {name: count for name, count in words.items() if count > MOST_WORDS}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    content = document.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)|src(?:set)?=\"([^\"]+)\"", content)
    paths = [a or b for a, b in targets if not (a or b).startswith("http")]
    assert not [path for path in paths if not (document.parent / path).exists()]


FIGURES = sorted((ROOT / "docs").glob("*.svg"))


@pytest.mark.parametrize("figure", FIGURES, ids=lambda path: path.name)
def test_figures_name_files_that_are_there(figure: Path) -> None:
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", figure.read_text(encoding="utf-8"))
    paths = [word.rstrip(",") for text in texts for word in text.split() if re.search(r"^[\w/]+/([\w.]*),?$", word)]
    folders = (ROOT, ROOT / "fpga_dynamo", ROOT / "fpga_dynamo/runtime")  # "cards/weights.py" behind another of runtime
    assert not [path for path in paths if not any((folder / path).exists() for folder in folders)]
    assert paths or figure.name != "launch.svg"


@pytest.mark.parametrize("figure", FIGURES, ids=lambda path: path.name)
def test_figures_keep_the_rules_of_the_language(figure: Path) -> None:
    texts = re.findall(r"<(?:text|title|desc)[^>]*>([^<]*)<", figure.read_text(encoding="utf-8"))
    assert len(texts) > 20
    assert not [str(finding) for text in texts for finding in page_findings(figure, text)]


def test_every_document_is_linked_from_the_readme() -> None:
    readme = DOCUMENTS[0].read_text(encoding="utf-8")
    assert not [path.name for path in DOCUMENTS[1:] if f"]({path.relative_to(ROOT)})" not in readme]


def test_files_that_contributing_names_are_there() -> None:
    named = re.findall(r"`([^`\s]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    roots = {path.name for path in ROOT.iterdir() if path.is_dir()}
    files = [name for name in named if name.split("/")[0] in roots and "/" in name]
    assert len(files) > 15
    patterns = [re.sub("<[a-z]+>", "*", name).rstrip("/") for name in files]
    assert not [pattern for pattern in patterns if not any(ROOT.glob(pattern))]


PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "hls_kernels").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_sources_that_a_page_names_are_there(page: Path) -> None:
    folders = "fpga_dynamo|hls_kernels|xclbin_build|tests|benchmarks|examples"
    named = re.findall(rf"`((?:{folders})/[^`\s]*)`", page.read_text(encoding="utf-8"))
    sources = [name for name in named if re.search(r"(/|\.(py|cpp|hpp|md|toml|txt|j2))$", name)]
    patterns = [each for name in sources for each in alternatives(re.sub("<[a-z_]+>", "*", name).rstrip("/"))]
    assert not [pattern for pattern in patterns if not any(ROOT.glob(pattern))]


def alternatives(pattern: str) -> list[str]:
    """The patterns that `{a,b}` in one stands for."""
    before, brace, rest = pattern.partition("{")
    if not brace:
        return [pattern]
    choices, _, after = rest.partition("}")
    return [f"{before}{choice}{after}" for choice in choices.split(",")]


def test_files_that_answer_questions_are_there() -> None:
    for question, files, answer in table(ROOT / "docs/reference/source-tree.md", "Where to find"):
        named = [name for name in re.findall(r"`([^`]+)`", files)]
        found = [path for name in named for path in ROOT.glob(name)]
        assert len(found) >= len(named), question
        content = "".join(path.read_text(encoding="utf-8") for path in found)
        first = re.split(r"\. |;", answer)[0] if found else ""
        names = [name for name in re.findall(r"`([\w:.]+)`", first) if not re.search(r"\.(py|[ch]pp|md|toml)$", name)]
        assert not [name for name in names if re.split(r"::|\.", name)[-1] not in content], question


def test_table_of_packages_is_complete() -> None:
    rows = table(ROOT / "docs/reference/source-tree.md", "Packages")
    packages = {f"{path.name}/" for path in (ROOT / "fpga_dynamo").iterdir() if path.is_dir() and path.name[0] != "_"}
    assert {code(row[0]) for row in rows} == packages


def test_glossary_is_in_alphabetical_order() -> None:
    page = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^- \*\*([^*]+)\*\*", page, re.MULTILINE)
    assert len(terms) > 80
    assert terms == sorted(terms, key=str.casefold)
    assert len(set(map(str.casefold, terms))) == len(terms)


def test_table_of_options_is_complete() -> None:
    page = (ROOT / "docs/options.md").read_text(encoding="utf-8")  # a table for each group of options
    rows = [row for row in rows_of(page.split("## Options\n", 1)[1]) if row[0].startswith("`")]
    assert [(code(row[0]), code(row[1])) for row in rows] == [(f.name, repr(f.default)) for f in fields(Options)]
    effects = {code(row[0]): row[2] for row in rows}
    for name, choices in Options._CHOICES.items():
        assert all(f"`{choice}`" in effects[name] for choice in choices), name
    assert re.findall(r"`([a-z_]+)`", effects["policy"]) == policy_names()


def test_table_of_patterns_is_complete() -> None:
    rows = table(ROOT / "docs/reference/patterns.md", "Patterns")
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(named) == sorted(pattern_names())


def test_table_of_environment_variables_is_complete() -> None:
    sources = [p for d in ("fpga_dynamo", "xclbin_build") for e in ("py", "cpp") for p in (ROOT / d).rglob(f"*.{e}")]
    read = r"(?:environ(?:\.get\(|\[)|getenv\(|from_environment\()\"([A-Z_]+)\""
    names = {name for path in sources for name in re.findall(read, path.read_text(encoding="utf-8"))}
    assert names
    assert {code(row[0]) for row in table(ROOT / "docs/reference/environment.md", "Environment variables")} >= names


def test_table_of_counters_is_complete() -> None:
    rows = table(ROOT / "docs/reference/counters.md", "Counters")
    assert [code(row[0]) for row in rows] == list(COUNTERS)


@pytest.mark.slow
@pytest.mark.documentation
def test_table_of_operators_is_complete_and_current() -> None:
    # In a process of its own: other tests' patterns and settings would show in the table.
    command = [sys.executable, "-m", "fpga_dynamo.tools.cli", "ops", "--check", str(ROOT / "docs/ops.md")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert checked.returncode == RIGHT, checked.stderr
    named = {
        code(row[0]) for heading in ("Ops of the core set", "Other ops") for row in table(ROOT / "docs/ops.md", heading)
    }
    assert {short(op) for op in core_aten()} <= named
    sentences = [row[5] for row in table(ROOT / "docs/ops.md", "Ops of the core set") if row[1] != "PL"]
    assert sentences and all(sentences)
    ours = [pattern for pattern in TABLE.patterns() if pattern.lower.__module__.startswith("fpga_dynamo.")]
    assert not set(REASONS) & {short(op) for pattern in ours for op in pattern.anchors}


def test_table_of_models_is_that_of_make_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests/models")
    module = importlib.import_module("offload_table")
    readme = DOCUMENTS[0].read_text(encoding="utf-8")
    assert f"| {' | '.join(module.HEAD)} |" in readme
    rows = {row[0]: row for row in table(DOCUMENTS[0], "Models")}
    assert set(module.PUBLISHED) <= set(rows)
    assert all(rows[name][-1] == published for name, published in module.PUBLISHED.items())
