"""Checks the language of the project: ``python -m tests.prose [PATH...]`` lists what breaks its rules, for `make lint`.

The rules, which docs/glossary.md gives the reasons for:

* no banned term in a documentation page, a docstring, a comment or a string of a Python or C++ source;
* a page's sentences have at most 20 words on average;
* no sentence has more than 40 words.

Sources of tests, benchmarks and examples, and comments of configuration files and templates, are checked for banned
terms only. Generated pages and sources are left out: their generators are checked.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
MEAN_WORDS = 20.0
MOST_WORDS = 40

BANNED = {
    r"eager's|eagers": "eager mode's, of eager mode, reference",
    r"software cards?|emulated cards?|card models?": "software emulation, emulator",
    r"counting cards?": "cycle simulator",
    r"integers? of eight bits": "int8",
    r"real numbers": "float32",
    r"own scales": "dynamic quantization",
    r"ways? out": "epilogue",
    r"left to eager|leaves? to eager|(?:is|are|stays?|remains?) the host's": "falls back to eager",
    r"sideways": "spatial tiling along width",
    r"anew": "again",
    r"meanwhile": "name the time",
    r"(?:is|are) (?-i:none)|there is (?-i:none)": "is not ..., does not exist",
    r"can take|cannot take|takes no|taken by (?:a|the) (?:core|pattern|card|engine)": "supports, accepts, matches",
    r"(?:cores?|patterns?|cards?|engines?) takes?(?! \d)": "supports, accepts, matches",
    r"spreads": "propagates",
    r"hangs? on|hung on": "depends on",
    r"batch 1 if not said": "batch size 1 unless noted",
    r"be it": "whether ... or ...",
    r"of what (?:is|was|it)": "name the thing",
    r"is said of": "is stated for",
    r"by and by": "gradually",
    r"so to speak": "",
}
"""Regular expressions, and what is written instead."""

_BANNED = {re.compile(rf"(?<![\w-])(?:{term})(?![\w-])", re.IGNORECASE): instead for term, instead in BANNED.items()}
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[`*_]*[A-Z0-9\x00])")
_ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|approx|resp|Fig|No)\.")
_WORD = re.compile(r"[\w\x00]")


@dataclass(frozen=True)
class Finding:
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def sentences(text: str) -> list[str]:
    """Sentences of a paragraph."""
    text = _ABBREVIATIONS.sub(lambda found: found[0].replace(".", ""), " ".join(text.split()))
    return [part for part in _SENTENCE_END.split(text) if part.strip()]


def words(sentence: str) -> int:
    """Words of a sentence; a piece of code is one word, a dash none."""
    return sum(1 for word in sentence.split() if _WORD.search(word))


def paragraphs(page: str) -> Iterator[tuple[int, bool, str]]:
    """Line, whether it is a cell of a table or a heading, and text of each paragraph; code is one word `\\0`."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    short, line = False, 1
    for token in tokens:
        if token.map is not None:
            line = token.map[0] + 1
        if token.type in ("table_open", "heading_open"):
            short = True
        elif token.type in ("table_close", "heading_close"):
            short = False
        elif token.type == "inline":
            yield line, short, "".join(_plain(token.children or []))


def _plain(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "text":
            yield token.content
        elif token.type in ("code_inline", "image"):
            yield "\0"
        elif token.type in ("softbreak", "hardbreak"):
            yield " "


def page_findings(path: Path, page: str) -> Iterator[Finding]:
    """What breaks the rules in a page of Markdown."""
    counts = []
    for line, short, text in paragraphs(page):
        yield from _terms(path, line, text)
        for sentence in sentences(text):
            number = words(sentence)
            if number > MOST_WORDS:
                yield Finding(path, line, f"a sentence of {number} words: {_start(sentence)}")
            if not short:
                counts.append(number)
    if counts and sum(counts) / len(counts) > MEAN_WORDS:
        yield Finding(path, 1, f"its sentences have {sum(counts) / len(counts):.1f} words on average")


def source_findings(path: Path, source: str) -> Iterator[Finding]:
    """What breaks the rules in strings, docstrings and comments of a source."""
    texts = _python_texts(source) if path.suffix in (".py", ".pyi") else _cpp_texts(source)
    for line, text in texts:
        yield from _terms(path, line, text)
        for sentence in sentences(re.sub(r"`[^`]*`", "\0", text)):
            if words(sentence) > MOST_WORDS:
                yield Finding(path, line, f"a sentence of {words(sentence)} words: {_start(sentence)}")


def _python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Strings of at least three words, f-strings without their values, and blocks of comments."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [part.value if isinstance(part, ast.Constant) else "\0" for part in node.values]
            yield from _prose(node.lineno, "".join(map(str, pieces)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield from _prose(node.lineno, node.value)
    block: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if block and (token.start[0] != last + 1 or token.line.lstrip()[0] != "#"):
                yield start, " ".join(block)
                block = []
            if not block:
                start = token.start[0]
            block.append(token.string.lstrip("#: "))
            last = token.start[0]
    if block:
        yield start, " ".join(block)


_LITERAL_BLOCK = re.compile(r"(?<=::)\n[ \t]*\n(?P<indent>[ \t]+)[^\n]*(?:\n[ \t]*(?=\n)|\n(?P=indent)[^\n]*)*")
"""The indented lines behind a line that ends in ``::``."""


def _prose(line: int, text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs of a string, unless it is code or a name."""
    if len(text.split()) < 3 or "#include" in text or text.startswith("<!doctype"):
        return
    if re.search(r"^\s*(import|from|def) \w", text, re.MULTILINE):
        return
    if len(text.split()) > MOST_WORDS and not re.search(r"[.,:;(]", text):  # a list of names
        return
    text = _LITERAL_BLOCK.sub(lambda found: "\n" * found[0].count("\n"), text)
    for paragraph in re.split(r"\n\s*\n|\n\s*(?=[*-] |\w+: |(?:xclbin-build|fpga-dynamo) )", text):
        yield line, paragraph
        line += paragraph.count("\n") + 1


def _cpp_texts(source: str) -> Iterator[tuple[int, str]]:
    """Comments of C++, adjacent lines of // as one."""
    for found in re.finditer(r"/\*.*?\*/|(?:[ \t]*//[^\n]*\n)+", source, re.DOTALL):
        text = re.sub(r"(?m)^\s*(?://+!?<?|/?\*+/?)(?:\s*\\tparam\b)?", "", found[0].replace("*/", ""))
        yield source.count("\n", 0, found.start()) + 1, text


def _terms(path: Path, line: int, text: str) -> Iterator[Finding]:
    for pattern, instead in _BANNED.items():
        for found in pattern.finditer(text):
            yield Finding(path, line, f"`{found[0]}`: write {instead or 'nothing'}")


def _start(sentence: str) -> str:
    return sentence.replace("\0", "`…`")[:60] + "…"


def pages() -> list[Path]:
    """Every page of documentation, but for generated ones."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "hls_kernels").rglob("*.md")]
    return sorted(path for path in found if path.relative_to(ROOT).as_posix() not in GENERATED)


GENERATED = ("docs/ops.md", "docs/evaluation/public-reports.md")
SOURCES = ("fpga_dynamo", "xclbin_build", "hls_kernels")
TERMS_ONLY = ("tests", "benchmarks", "examples")
"""Folders whose sources may have long sentences, but no banned term."""
_ROOT_FILES = ("Makefile", "CMakeLists.txt", "pyproject.toml", "mkdocs.yml", ".clang-tidy")
CONFIGURATION = (*_ROOT_FILES, ".ci", *SOURCES, *TERMS_ONLY)
"""Files and folders of which comments behind # are checked for banned terms."""
_CHECKED_HERE = ("prose.py", "test_prose.py")
"""The check and its test name the banned terms."""


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in (".md", ".py", ".pyi", ".h", ".hpp", ".cpp"))


def _configuration() -> Iterator[Path]:
    for name in CONFIGURATION:
        path = ROOT / name
        found = path.rglob("*") if path.is_dir() else [path]
        suffixes = ("", ".toml", ".txt", ".yml", ".j2")
        yield from sorted(file for file in found if file.is_file() and file.suffix in suffixes)


def term_findings(path: Path) -> list[Finding]:
    """Banned terms of a source of TERMS_ONLY."""
    long = "a sentence of "
    return [] if path.name in _CHECKED_HERE else [item for item in findings(path) if not item.text.startswith(long)]


def comment_findings(path: Path) -> Iterator[Finding]:
    """Banned terms in comments of a configuration file or a template."""
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = re.search(r"(?:#|//) (.*)", text)
        if found:
            yield from _terms(path.relative_to(ROOT), line, found[1])


def findings(path: Path) -> list[Finding]:
    """What breaks the rules in one file."""
    text = path.read_text(encoding="utf-8")
    named = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return list(page_findings(named, text) if path.suffix == ".md" else source_findings(named, text))


def main(arguments: list[str]) -> int:
    """Lists findings of the files and folders named, or holds the whole project against the rules. Returns 1 if any."""
    if arguments:
        named = [Path(argument).resolve() for argument in arguments]
        files = [file for path in named for file in (_files(path) if path.is_dir() else [path])]
        found = [finding for file in files for finding in findings(file)]
        print(*found, sep="\n")
        return int(bool(found))
    sources = [path for folder in SOURCES for path in _files(ROOT / folder) if path.suffix != ".md"]
    found = [finding for path in (*pages(), *sources) for finding in findings(path)]
    terms = (path for folder in TERMS_ONLY for path in _files(ROOT / folder) if path.suffix != ".md")
    found += [finding for path in terms for finding in term_findings(path)]
    found += [finding for path in _configuration() if path.exists() for finding in comment_findings(path)]
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
