"""Makes the calls in a dataflow region of a plain kernel processes, which the emulator runs side by side.

A region is the body of a function, or of a loop, that has `#pragma HLS dataflow` or declares an `hls::task`. In it

- a call that is a statement, and a loop, become processes (`sim::region::run`); a call in an unrolled loop becomes a
  process for each iteration;
- `hls::task t(f, a, b);` becomes a process that calls `f(a, b)` again and again (`sim::region::task`), and so does
  `t[i](f, a, b);` of an array of tasks;
- a stream gets the depth of its type or of `#pragma HLS stream`, 2 without either;
- an assignment that names a variable of the region, without a value where it is declared, becomes a process, too;
- processes that name the same variable of the region, but for streams and what has a value where it is declared, run
  one after the other, as they do with a ping-pong buffer.

Everything else stays where it is, and so do line numbers. A kernel that names its processes itself (`PROCESS` of
`sim/dataflow.hpp`) gets the order of its arrays, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .cpp_lexer import is_word, lex
from .cpp_tokens import Edits, Token, behind, behind_template, direct, is_shift
from .escape import cpp_string

_PRAGMA = re.compile(r"#\s*pragma\s+hls\s+(\w+)([^\n]*)", re.IGNORECASE)
_OPTION = re.compile(r"(\w+)\s*=\s*([\w.:]+)")
_BLOCKS = ("if", "while", "do", "switch", "else", "try", "catch")
_INLINE = (
    "return",
    "using",
    "typedef",
    "static_assert",
    "goto",
    "break",
    "continue",
    "throw",
    "delete",
    "case",
    "default",
)
_DEFINITIONS = ("struct", "class", "union", "enum")
_ARITHMETIC = ("const", "static", "unsigned", "signed", "char", "short", "int", "long", "float", "double", "bool")
_MANUAL, _PROCESS = "DATAFLOW_BEGIN", "PROCESS"


def rewritten(text: str, *, only_manual: bool = False) -> str:
    """The text with the regions' calls as processes; the same text if it has no region.

    only_manual: leave kernels alone that do not name their processes themselves.
    """
    if not re.search(r"pragma\s+hls\s+dataflow|hls\s*::\s*task", text, re.IGNORECASE):
        return text
    manual = _MANUAL in text
    if only_manual and not manual:
        return text
    tokens = [Token(m[0], m.start(), m.end(), kind == "directive") for kind, m in lex(text)]
    edits = Edits()
    numbers = iter(range(1, len(tokens) + 1))
    at = 0
    while at < len(tokens):
        if tokens[at].text == "{" and _is_region(tokens, at):
            end = behind(tokens, at)
            region = _Region(tokens, edits, numbers, _name_of(tokens, at))
            if manual:
                region.order_arrays(at + 1, end - 1)
            else:
                region.body(at, end - 1)
            at = end
        else:
            at += 1
    return edits.applied(text)


def _pragma(token: Token, kind: str) -> str | None:
    """What stands behind a pragma of this kind; None for another token."""
    match = _PRAGMA.match(token.text) if token.is_directive else None
    return match[2] if match and match[1].lower() == kind else None


def _is_region(tokens: Sequence[Token], brace: int) -> bool:
    """Whether a `{` opens the body of a function or a loop that is a dataflow region."""
    before = next((t for t in reversed(tokens[:brace]) if not t.is_directive), None)
    if before is None or before.text not in (")", "const", "noexcept", "do"):
        return False
    inside = list(direct(tokens, brace + 1, behind(tokens, brace) - 1))
    return any(_pragma(tokens[i], "dataflow") is not None or _is_task(tokens, i) for i in inside)


def _is_task(tokens: Sequence[Token], i: int) -> bool:
    return [t.text for t in tokens[i : i + 3]] == ["hls", "::", "task"]


def _name_of(tokens: Sequence[Token], brace: int) -> str:
    """The function whose body begins here; "loop" for a loop's."""
    i = brace
    while i > 0 and tokens[i].text != ")":
        i -= 1
    depth = 0
    while i > 0:
        depth += (tokens[i].text == ")") - (tokens[i].text == "(")
        i -= 1
        if not depth:
            break
    name = tokens[i].text
    return name if is_word(name) and name not in ("for", "while") else "loop"


class _Region:
    """One region while it is rewritten."""

    def __init__(
        self, tokens: Sequence[Token], edits: Edits, numbers: Iterator[int], name: str, outer: _Region | None = None
    ) -> None:
        self.tokens, self.edits, self.numbers, self.name = tokens, edits, numbers, name
        self.variable = f"fpga_region_{next(numbers)}"
        self.joins: str = f"{self.variable}.join(); " + (outer.joins if outer else "")
        self.depths: dict[str, str] = {}
        self.arrays: set[str] = set()
        self.tasks: set[str] = set(outer.tasks) if outer else set()

    def body(self, brace: int, end: int) -> None:
        """The body between a `{` and its `}`."""
        for i in direct(self.tokens, brace + 1, end):
            options = _pragma(self.tokens[i], "stream")
            if options is not None:
                given = {key.lower(): value for key, value in _OPTION.findall(options)}
                if "variable" in given and given.get("depth", "").isalnum():
                    self.depths[given["variable"]] = given["depth"]
        self.edits.insert(self.tokens[brace].end, f" ::sim::region {self.variable}({cpp_string(self.name)});")
        self.statements(brace + 1, end, "&")
        self.edits.insert(self.tokens[end].begin, f"{self.variable}.join(); ")

    def order_arrays(self, begin: int, end: int) -> None:
        """Of `PROCESS(region, call);`: those that name the same array run one after the other."""
        at = begin
        while at < end:
            last = self.semicolon(at, end)
            words = [token.text for token in self.tokens[at:last]]
            name = self.call(at, last)
            if name == _PROCESS and len(words) > 4:
                shared = self.shared(at, last)
                if shared:
                    callee = cpp_string(words[4])
                    begin_of_call = self.tokens[at + 4].begin
                    start = f"{words[2]}_region.run({callee}, [&] {{ "
                    self.edits.replace(self.tokens[at].begin, begin_of_call, start)
                    self.edits.replace(self.tokens[last - 1].begin, self.tokens[last].begin, f"; }}, {shared})")
            elif name is None and not self.tokens[at].is_directive:
                self.note_arrays(at, last)
            at = at + 1 if self.tokens[at].is_directive else last + 1

    def note_arrays(self, at: int, last: int) -> list[str]:
        """Takes note of what a declaration without values declares. Whether it is a stream the compiler finds out."""
        names = self.declared(at, last)
        self.arrays |= {name for name, has_value in names.items() if not has_value}
        return list(names)

    def shared(self, at: int, last: int) -> str:
        """The arrays of the region that a statement names, as a list of C++; "" for no array."""
        used = {token.text for token in self.tokens[at:last] if not token.is_directive}
        names = ", ".join(f"::sim::array_name({name}, {cpp_string(name)})" for name in sorted(used & self.arrays))
        return f"{{{names}}}" if names else ""

    def statements(self, begin: int, end: int, capture: str) -> None:
        at = begin
        while at < end:
            at = self.statement(at, end, capture)

    def statement(self, at: int, end: int, capture: str) -> int:
        """Rewrites the statement that begins at `at`; returns the position behind it."""
        word = self.tokens[at].text
        if self.tokens[at].is_directive or word == ";":
            return at + 1
        if at + 1 < end and is_word(word) and self.tokens[at + 1].text == ":" and word not in _INLINE:
            return at + 2  # a label
        if word == "{":
            return self.block(at)
        if word == "for":
            return self.loop(at, end, capture)
        if word in _BLOCKS:
            return self.branch(at, end, capture)
        last = self.semicolon(at, end)
        if word == "return":
            self.edits.insert(self.tokens[at].begin, f"{{ {self.joins}")
            self.edits.insert(self.tokens[last].end, " }")
        elif word not in _INLINE:
            self.simple(at, last, capture)
        return last + 1

    def semicolon(self, at: int, end: int) -> int:
        return next((i for i in direct(self.tokens, at, end) if self.tokens[i].text == ";"), end - 1)

    def block(self, brace: int) -> int:
        """A block of its own: what it declares must outlive its processes, so it is a region, too."""
        end = behind(self.tokens, brace)
        inner = _Region(self.tokens, self.edits, self.numbers, self.name, self)
        inner.arrays |= self.arrays
        inner.body(brace, end - 1)
        return end

    def branch(self, at: int, end: int, capture: str) -> int:
        """`if (...) ...` and the like: the condition is asked at once."""
        at += 1
        if at < end and self.tokens[at].text == "(":
            at = behind(self.tokens, at)
        return self.statement(at, end, capture) if at < end else at

    def loop(self, at: int, end: int, capture: str) -> int:
        header = behind(self.tokens, at + 1)
        while header < end and self.tokens[header].is_directive:
            header += 1
        if self.tokens[header].text == "{":
            last = behind(self.tokens, header)
            inside = [self.tokens[i] for i in direct(self.tokens, header + 1, last - 1)]
            if _is_region(self.tokens, header):
                _Region(self.tokens, self.edits, self.numbers, "loop", self).body(header, last - 1)
                return last
            unrolled = any(_pragma(token, "unroll") is not None or token.text in self.tasks for token in inside)
            if unrolled and not self.declares(header + 1, last - 1):
                variable = self.loop_variable(at + 1, header)
                self.statements(header + 1, last - 1, f"{capture}, {variable}" if variable else capture)
                return last
        else:
            last = self.semicolon(header, end) + 1
        self.process(at, last - 1, "loop", capture)
        return last

    def loop_variable(self, opening: int, header: int) -> str:
        """What `for (int i = ...` counts with; "" if it is declared elsewhere."""
        words = [token.text for token in self.tokens[opening + 1 : header]]
        before = words[: words.index("=")] if "=" in words else []
        return before[-1] if len(before) > 1 and is_word(before[-1]) else ""

    def declares(self, begin: int, end: int) -> bool:
        """Whether a body has declarations, which its iterations do not share."""
        at = begin
        while at < end:
            if self.tokens[at].is_directive or self.tokens[at].text in (";", "{", "}"):
                at += 1
                continue
            last = self.semicolon(at, end)
            is_task = self.tokens[at].text in self.tasks
            if not is_task and self.tokens[at].text not in (*_BLOCKS, *_INLINE, "for") and self.call(at, last) is None:
                return True
            at = last + 1
        return False

    def simple(self, at: int, last: int, capture: str) -> None:
        """An expression or a declaration, up to its semicolon."""
        if self.tokens[at].text in self.tasks:
            self.task(at, at, last, capture)
            return
        callee = self.call(at, last)
        if callee is not None:
            self.process(at, last, callee, capture)
            return
        task = next((i for i in range(at, last) if _is_task(self.tokens, i)), None)
        if task is not None:
            self.task(at, task, last, capture)
            return
        if self.is_assignment(at) and self.shared(at, last):
            self.process(at, last, "an assignment", capture)
            return
        names = self.note_arrays(at, last)
        if self.tokens[at].text not in _ARITHMETIC:
            limits = "".join(
                f" ::sim::declare({self.variable}, {name}, {self.depths.get(name, '0')}, {cpp_string(name)});"
                for name in names
            )
            self.edits.insert(self.tokens[last].end, limits)

    def is_assignment(self, at: int) -> bool:
        """Whether a statement begins with what is changed, and so is no declaration."""
        return self.tokens[at].text == "*" or self.tokens[at + 1].text in ("=", "[", ".", "->", "+", "-", "|", "&", "^")

    def call(self, at: int, last: int) -> str | None:
        """The text of the function that is called, if the statement is nothing but a call."""
        i = at
        name = before = ""
        while i < last:
            text = self.tokens[i].text
            if text == "<" and name:
                i = behind_template(self.tokens, i, last)
                before = ">"
                continue
            if not is_word(text) and text not in ("::", ".", "->"):
                break
            if is_word(text) and (before == ">" or (before and is_word(before))):
                return None  # a type and a name: a declaration
            name += text
            before = text
            i += 1
        if not name or i >= last or self.tokens[i].text != "(" or behind(self.tokens, i) != last:
            return None
        return name

    def declared(self, at: int, last: int) -> dict[str, bool]:
        """Names that a declaration declares, those in front of `(`, `[`, `{`, a comma or its end, and whether each has
        a value in brackets."""
        names: dict[str, bool] = {}
        angle = 0
        shifts = {j for i in range(at, last) if is_shift(self.tokens, i) for j in (i, i + 1)}
        positions = [i for i in direct(self.tokens, at, last) if i not in shifts]
        words = [self.tokens[i].text for i in positions]
        if not is_word(words[0]) or "=" in words or (words[0] in _DEFINITIONS and "{" in words):
            return {}
        for before, text, following in zip(words, words[1:], [*words[2:], ";"], strict=False):
            angle += (text == "<") - (text == ">")
            follows_type = is_word(before) or before in (">", "*", "&", ",")
            if angle == 0 and is_word(text) and follows_type and following in ("(", "[", "{", ",", ";"):
                names.setdefault(text, following in ("(", "{"))
        return names

    def process(self, at: int, last: int, callee: str, capture: str) -> None:
        """What begins at `at` and ends with the token `last`, as a process."""
        shared = self.shared(at, last)
        arrays = f", {shared}" if shared else ""
        self.edits.insert(self.tokens[at].begin, f"{self.variable}.run({cpp_string(callee)}, [{capture}] {{ ")
        self.edits.insert(self.tokens[last].end, f" }}{arrays});")

    def task(self, at: int, task: int, last: int, capture: str) -> None:
        """`hls::task t(f, a, b);`, or `hls::task t;` (also an array of tasks), whose tasks are started later."""
        opening = next((i for i in direct(self.tokens, task, last) if self.tokens[i].text == "("), None)
        if opening is None:
            self.tasks.add(self.tokens[task + 3].text)
            self.edits.replace(self.tokens[at].begin, self.tokens[last - 1].end, "")
            return
        inside = range(opening + 1, behind(self.tokens, opening) - 1)
        comma = next((i for i in direct(self.tokens, inside.start, inside.stop) if self.tokens[i].text == ","), None)
        function_end = comma if comma is not None else inside.stop
        callee = "".join(token.text for token in self.tokens[inside.start : function_end])
        begin = self.tokens[at].begin
        self.edits.replace(
            begin, self.tokens[opening].end, f"{self.variable}.task({cpp_string(callee)}, [{capture}] {{ ("
        )
        if comma is not None:
            self.edits.replace(self.tokens[comma].begin, self.tokens[comma].end, ")(")
        else:
            self.edits.insert(self.tokens[inside.stop].begin, ")(")
        self.edits.insert(self.tokens[last].begin, "; })")
