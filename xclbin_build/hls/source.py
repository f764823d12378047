"""A source before clang sees it: loops numbered, pragmas turned into calls that clang evaluates.

The variables and constants of a `#pragma HLS` depend on its scope, such as `factor=N` in a template or an array that is
an argument. So a call of `__hls_probe` replaces each pragma. Its arguments are the pragma's number, the variable's
address and shape, and the values of the options. After inlining the IR has these values as constants, for each instance
of a template and each caller. Loops are numbered by metadata that clang attaches to them and that the passes ignore.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import clang
from .directives import Directive, place_in_function, place_in_loop
from .pragma import Pragma, parse
from .tokens import Token, closing, statement_end, tokens

# What Vitis HLS defines, by its own logs (autopilot.flow.log), and a name of ours.
DEFINES = ("-D__SYNTHESIS__=1", "-D__HLS_SYN__=1", "-DAESL_SYN=1", "-D__VITIS_HLS__=1", "-D__HLS_CHECK__=1")
# The languages by the same logs; of C++ they have that of 2014, which the calls in the place of pragmas are not.
C, CPP = ("-std=gnu99", "-fgnu89-inline"), ("-std=gnu++17", "-fno-threadsafe-statics", "-fno-use-cxa-atexit")
PROBE = "__hls_probe"
# Options whose values a probe carries, in this order; -1 stands for one that is not given.
PROBED = ("ii", "factor", "dim", "min", "max", "avg", "distance", "depth", "limit")
_ABOUT_VARIABLES = {
    "array_partition", "array_reshape", "array_map", "dependence", "stream", "bind_storage", "resource", "stable",
    "aggregate", "disaggregate", "data_pack", "cache",
}  # fmt: skip
_ABOUT_LOOPS = {"pipeline", "unroll", "loop_tripcount", "loop_flatten", "occurrence", "dependence", "performance"}
_NO_LABELS = {"default", "public", "private", "protected", "signals", "slots"}
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch"}


@dataclass
class SourceLoop:
    """A loop as it is written. id: the number in its metadata. pragmas: numbers of its pragmas in the source.

    function: the function that contains it.
    parent: the id of the loop around it.
    name: its label, or Vitis' name of a loop without one: VITIS_LOOP_, its line and its number in the function.
    head: the tokens of the initialization, the condition and the step of a `for`.
    """

    id: int
    file: str
    line: int
    end_line: int
    label: str | None
    function: str
    parent: int | None
    ordinal: int
    head: tuple[tuple[str, ...], ...] = ()
    pragmas: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.label or f"VITIS_LOOP_{self.line}_{self.ordinal}"


@dataclass(frozen=True)
class SourceFunction:
    """A function's body: its name and the pragmas in it that are about the whole of it."""

    name: str
    file: str
    line: int
    pragmas: tuple[int, ...]


@dataclass
class MarkedSource:
    """text: what clang compiles; plain: the same without marks. loops, pragmas: by their numbers, of which `first` is
    the lowest.
    pipelined: functions with a pragma `pipeline`, as loops over their calls, which are numbered behind the loops.
    notes: what could not be understood.
    directives: pragmas from elsewhere; placed: those with a place here.
    """

    path: Path
    text: str
    plain: str
    loops: dict[int, SourceLoop]
    pragmas: dict[int, Pragma]
    functions: list[SourceFunction]
    notes: list[str]
    first: int = 1
    pipelined: dict[int, SourceLoop] = field(default_factory=dict)
    directives: Sequence[Directive] = ()
    placed: set[Directive] = field(default_factory=set)

    def loop(self, number: int | None) -> SourceLoop | None:
        """The loop, or the pipelined function, of a number in the metadata."""
        return self.loops.get(number or 0) or self.pipelined.get(number or 0)

    def pipelines(self, function: str) -> bool:
        """Whether a pragma pipelines a function. function: its name, perhaps with arguments of a template."""
        return any(plain_name(function) == one.function for one in self.pipelined.values())


def plain_name(function: str) -> str:
    """A function's name as in `MarkedSource.functions`: without arguments of templates and signs of operators."""
    return re.split(r"\W", function, maxsplit=1)[0]


def is_c(path: Path) -> bool:
    return path.suffix == ".c"


def read(
    path: Path, *, includes: Sequence[str], defines: Sequence[str], after: MarkedSource | None = None,
    directives: Sequence[Directive] = (),
) -> MarkedSource:  # fmt: skip
    """Preprocesses and marks the source at `path`.

    includes, defines: as for a compiler, without -I and -D. after: a source whose numbers these go on from.
    directives: pragmas that stand outside of the sources. Raises SourceError if clang does not preprocess it.
    """
    language = ["-x", "c", *C] if is_c(path) else ["-x", "c++", *CPP]
    command = [*language, "-E", "-dD", *DEFINES, *(f"-D{d}" for d in defines), f"-I{path.parent}"]
    command += [*(f"-I{i}" for i in includes), *(f"-isystem{h}" for h in clang.HEADERS)]
    command += ["-w", "-fms-extensions", str(path)]
    text, _ = clang.run("clang", command)
    first = max([*after.loops, *after.pipelined, *after.pragmas, after.first - 1]) + 1 if after else 1
    return mark(text, path, skip=frozenset(), first=first, directives=directives)


def mark(
    text: str, path: Path, skip: frozenset[int], first: int = 1, directives: Sequence[Directive] = ()
) -> MarkedSource:
    """Marks preprocessed text. skip: numbers of pragmas that clang could not evaluate; first: the lowest number."""
    source = MarkedSource(path, text, text, {}, {}, [], [], first, directives=directives)
    _Marker(source, tokens(text), skip).run()
    return source


def together(sources: Sequence[MarkedSource]) -> MarkedSource:
    """Sources whose numbers go on from each other, as one."""
    return MarkedSource(
        sources[0].path, "".join(one.text for one in sources), "".join(one.plain for one in sources),
        {number: loop for one in sources for number, loop in one.loops.items()},
        {number: pragma for one in sources for number, pragma in one.pragmas.items()},
        [function for one in sources for function in one.functions], [note for one in sources for note in one.notes],
        sources[0].first, {number: loop for one in sources for number, loop in one.pipelined.items()},
    )  # fmt: skip


class _Marker:
    def __init__(self, source: MarkedSource, items: list[Token], skip: frozenset[int]) -> None:
        self._source = source
        self._items = items
        self._skip = skip
        self._insertions: list[tuple[int, str]] = []
        self._by_function: dict[int, list[int]] = {}  # numbers of pragmas, by the brace of their function

    def run(self) -> None:
        functions = functions_in(self._items)
        spans: list[tuple[int, int, SourceLoop]] = []
        for name, start, end in functions:
            spans += self._loops_of(name, start, end)
        for index, token in enumerate(self._items):
            if token.kind != "hls":
                continue
            pragma = parse(token.text, token.file, token.line)
            if pragma is None:
                continue
            inside = [span for span in spans if span[0] <= index <= span[1]]
            innermost = min(inside, key=lambda span: span[1] - span[0])[2] if inside else None
            around = [f[1] for f in functions if f[1] <= index <= f[2]]
            self._add(pragma, index if around else None, innermost, max(around, default=0))
        for directive in self._source.directives:
            for name, start, end in functions:
                if name == directive.function and not self._items[start].system:
                    self._place(directive, start, end, [span for span in spans if start < span[0] < end])
        for name, start, end in functions:
            token = self._items[start]
            own = tuple(self._by_function.get(start, ()))
            self._source.functions.append(SourceFunction(name, token.file, token.line, own))
            pipelines = [n for n in own if self._source.pragmas[n].pipelines]
            if pipelines:
                number = self._source.first + len(self._source.loops) + len(self._source.pipelined)
                self._source.pipelined[number] = SourceLoop(
                    number, token.file, token.line, self._items[end].line, name, name, None, 0, pragmas=pipelines
                )
        self._source.text = self._written()

    def _add(self, pragma: Pragma, index: int | None, loop: SourceLoop | None, function: int) -> None:
        """A pragma before a token, if it stands in a function; loop: the innermost around it, function: its brace."""
        number = self._source.first + len(self._source.pragmas)
        self._source.pragmas[number] = pragma
        if loop and pragma.kind in _ABOUT_LOOPS:
            loop.pragmas.append(number)
        elif function:
            self._by_function.setdefault(function, []).append(number)
        if index is not None and number not in self._skip:
            self._probe(index, number, pragma)

    def _place(self, directive: Directive, start: int, end: int, spans: list[tuple[int, int, SourceLoop]]) -> None:
        """Puts a directive where a pragma would stand. start, end: of the function's braces; spans: its loops."""
        if not directive.loop:
            pragma = directive.pragma(self._items[start].file, self._items[start].line)
            self._add(pragma, place_in_function(pragma, self._items, start, end), None, start)
            self._source.placed.add(directive)
        for first, _, loop in spans:
            if loop.name == directive.loop:
                pragma = directive.pragma(loop.file, loop.line)
                self._add(pragma, place_in_loop(self._items, first), loop, start)
                self._source.placed.add(directive)

    def _loops_of(self, function: str, start: int, end: int) -> list[tuple[int, int, SourceLoop]]:
        items = self._items
        spans: list[tuple[int, int, SourceLoop]] = []
        unnamed = 0
        ended_by_do: set[int] = set()
        for index in range(start, end):
            token = items[index]
            if token.kind != "word" or token.text not in ("for", "while", "do") or index in ended_by_do:
                continue
            if token.system and not token.file.startswith(tuple(map(str, clang.HEADERS))):
                continue
            if token.text == "do":
                body = statement_end(items, index + 1)
                if body < end and items[body + 1].text == "while":
                    ended_by_do.add(body + 1)
                last = body
            else:
                if items[index + 1].text != "(":
                    continue
                last = statement_end(items, closing(items, index + 1) + 1)
            head = _head(items, index + 1) if token.text == "for" else ()
            label = None
            if items[index - 1].text == ":" and items[index - 2].kind == "word":
                word = items[index - 2].text
                label = word if word not in _NO_LABELS and items[index - 3].text not in ("case", "?") else None
            around = [span for span in spans if span[0] < index <= span[1]]
            parent = min(around, key=lambda span: span[1] - span[0])[2].id if around else None
            unnamed += label is None
            number = self._source.first + len(self._source.loops)
            loop = SourceLoop(
                number,
                token.file,
                token.line,
                items[last].line,
                label,
                function,
                parent,
                unnamed if not label else 0,
                head,
            )
            self._source.loops[number] = loop
            spans.append((index, last, loop))
            self._insert_lines(token, f"#pragma clang loop unroll(disable) pipeline_initiation_interval({number})")
        return spans

    def _probe(self, index: int, number: int, pragma: Pragma) -> None:
        """Puts a call in the place of the pragma at `index`, if a statement can stand there."""
        if self._items[index].system and not pragma.variable and pragma.kind != "unroll":
            return
        before = index - 1
        while before > 0 and self._items[before].kind == "hls":
            before -= 1
        if self._items[before].text not in (";", "{", "}", ":"):
            return
        values = ", ".join(_number(pragma.options.get(name)) for name in PROBED)
        c = is_c(self._source.path)
        variable = pragma.variable if pragma.kind in _ABOUT_VARIABLES else None
        if variable and re.fullmatch(r"[\w.:\->\[\]*&()]+", variable) and variable != "return":
            name = variable.lstrip("&*")
            call = f"__hls_check::variable({number}, {name}, {values});"
            if c:  # the shape is that of the IR's type
                call = f"{PROBE}({number}, (const void*)&({name})[0], {values}, 0LL, 0LL, 0LL, 0LL, 0LL, 0LL);"
        else:
            call = f"{PROBE}({number}, (const void*)0, {values});"
        if not c:  # a `constexpr` function stays one
            call = f"__builtin_is_constant_evaluated() ? void() : {call}"
        # If clang refuses the call, it names this place, and the caller leaves that probe out.
        self._insert_lines(self._items[index], f'# {number} "{PROBE}"\n{call}')

    def _insert_lines(self, token: Token, line: str) -> None:
        marker = f'# {token.line} "{token.file}"' + (" 3" if token.system else "")
        self._insertions.append((token.start, f"\n{line}\n{marker}\n"))

    def _written(self) -> str:
        pieces, at = [_PRELUDE_C if is_c(self._source.path) else _PRELUDE_CPP], 0
        text = self._source.text
        for place, words in sorted(self._insertions, key=lambda insertion: insertion[0]):
            pieces += [text[at:place], words]
            at = place
        pieces.append(text[at:])
        joined = "".join(pieces)
        return re.sub(r"^[ \t]*#[ \t]*(?:define|undef|pragma[ \t]+HLS)\b[^\n]*$", "", joined, flags=re.M | re.I)


def _head(items: list[Token], opening: int) -> tuple[tuple[str, ...], ...]:
    """The tokens between the brackets of a `for`, cut at its semicolons."""
    parts: list[list[str]] = [[]]
    for item in items[opening + 1 : closing(items, opening)]:
        if item.text == ";":
            parts.append([])
        else:
            parts[-1].append(item.text)
    return tuple(map(tuple, parts))


def _number(expression: str | None) -> str:
    if expression is None or not expression.strip():
        return "-1LL"
    return f"(long long)({expression})" if expression.strip().upper() != "NA" else "-1LL"


def functions_in(items: list[Token]) -> list[tuple[str, int, int]]:
    """Functions with a body: the name, and the indices of the braces."""
    found: list[tuple[str, int, int]] = []
    index = 0
    while index < len(items):
        if items[index].text != "{" or items[index].kind != "sign":
            index += 1
            continue
        name = _function_before(items, index)
        if name is None:
            index += 1
            continue
        end = closing(items, index)
        found.append((name, index, end))
        index = end + 1
    return found


def _function_before(items: list[Token], brace: int) -> str | None:
    """The name of the function whose body begins at `brace`; None if it is no function's."""
    index = brace - 1
    # Behind the parameters there may be qualifiers, a trailing return type, a constructor's initializers.
    while index >= 0 and items[index].text not in (";", "{", "}"):
        if items[index].text == ")":
            opening = opening_of(items, index)
            before = items[opening - 1] if opening else items[0]
            if before.kind == "word" and before.text not in _NOT_FUNCTIONS | {"noexcept", "decltype", "__attribute__"}:
                if before.text in ("alignas", "sizeof"):
                    return None
                # `: member(x)` of a constructor: the name stands further left.
                if items[opening - 2].text in (":", ",") and items[opening - 2].kind == "sign":
                    index = opening - 2
                    continue
                return before.text
            if any(item.text == "operator" for item in items[max(0, opening - 4) : opening]):
                return "operator"  # whose name is up to three signs, such as `<<=`
            if before.text in ("]", ">") or before.kind == "sign":
                return "operator" if before.text not in ("=", "(", ",") else None
            index = opening - 1
            continue
        if items[index].text in ("namespace", "struct", "class", "union", "enum", "="):
            return None
        index -= 1
    return None


def opening_of(items: list[Token], end: int) -> int:
    """Index of the bracket that the ")" at `end` closes."""
    depth = 0
    for index in range(end, -1, -1):
        depth += (items[index].text == ")") - (items[index].text == "(")
        if depth == 0:
            return index
    return 0


_PRELUDE_CPP = (Path(__file__).parent / "probes.hpp").read_text()
_PRELUDE_C = """\
void __hls_probe(int, const void*, ...);
"""
