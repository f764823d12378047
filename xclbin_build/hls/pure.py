"""Functions without effects, such as the exponential of a vector: operators of the code that calls them.

A kernel that calls them from hundreds of places would have tens of thousands of loops once everything is inlined. Vitis
HLS keeps such a function as a unit that takes a value every cycle, as there is nothing in it that an iteration could
wait for. So a call of one becomes an operator whose operands and result are values, and the function is looked at once.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from . import clang, ir
from .ir import NAME
from .source import PROBE

SUFFIX = ".operator"
LEAST_LOOPS = 4  # of a function, what it calls included, that becomes an operator: less code is inlined
_MOST_BYTES = 512  # of an operand by reference
_DEFINE = re.compile(
    rf"^define [^\n]*?(?P<returns>\S+) @(?P<name>{NAME})\((?P<rest>[^\n]*)\{{\n(?P<body>.*?)^\}}", re.M | re.S
)
_DEFINED = re.compile(
    rf"^(define [^\n]*?@(?P<name>{NAME})\([^\n]*\) (?:(?:local_)?unnamed_addr )?)(?=[^()\n]*\{{$)", re.M
)
_CALL = re.compile(
    rf"^(?P<indent> +)(?:(?P<result>%{NAME}) = )?(?:tail )?call (?P<before>[^\n@(]*(?:\([^\n@)]*\)[^\n@(]*)*)"
    rf"@(?P<name>{NAME})\((?P<rest>[^\n]*)$",
    re.M,
)
_FIND = "internalize,globaldce,always-inline,globaldce,function(sroa,early-cse),cgscc(function-attrs)"


@dataclass(frozen=True)
class Pure:
    """A function whose result depends on its operands only.

    returns: the type of its value, or of the result that it writes to its first operand (`by_reference`).
    operands: types of the others as values, and whether each is passed by reference.
    constants: operands that are constant integers, by position; each combination is an operator of its own.
    """

    symbol: str
    returns: str
    by_reference: bool
    operands: tuple[tuple[str, bool], ...]
    constants: tuple[tuple[int, str], ...] = ()

    @property
    def operator(self) -> str:
        """What is called in its place."""
        return self.symbol + SUFFIX + "".join(f".{place}.{value}" for place, value in self.constants)

    def given(self, arguments: str) -> tuple[str, list[str]]:
        """Of the arguments of a call: what the result is written to, "" if it is a value, and the operands."""
        values = [part.split()[-1] for part in ir.split(arguments)]
        return (values[0], values[1:]) if self.by_reference else ("", values)


class Calls:
    """Which functions a module has, how many loops, and what they call. raw: the IR before anything is inlined."""

    def __init__(self, raw: str) -> None:
        self.loops: dict[str, int] = {}
        self.callees: dict[str, list[str]] = {}
        bodies = {match["name"].strip('"'): match["body"] for match in _DEFINE.finditer(raw)}
        for name, body in bodies.items():
            self.loops[name] = body.count(", !llvm.loop ")
            called = (match["name"].strip('"') for match in _CALL.finditer(body))
            self.callees[name] = [callee for callee in called if callee in bodies]
        self._inlined: dict[str, int] = {}

    def inlined(self, name: str) -> int:
        """Loops of a function once everything in it is inlined; of a recursion one round."""
        if name not in self._inlined:
            self._inlined[name] = 0
            self._inlined[name] = self.loops[name] + sum(self.inlined(callee) for callee in self.callees[name])
        return self._inlined[name]

    def order(self, name: str) -> list[str]:
        """What a function calls, directly or not: callees before those that call them."""
        found: dict[str, None] = {}

        def visit(one: str) -> None:
            if one not in seen:
                seen.add(one)
                for callee in self.callees[one]:
                    visit(callee)
                found[one] = None

        seen: set[str] = set()
        visit(name)
        return list(found)[:-1]


def find(raw: str, symbol: str, calls: Calls) -> list[Pure]:
    """The functions without effects that `symbol` calls, directly or not, and that are large enough to be operators:
    callees before those that call them. raw: the IR before anything is inlined; calls: of it."""
    large = [name for name in calls.order(symbol) if calls.inlined(name) >= LEAST_LOOPS]
    if not large:
        return []
    known = _effects(raw, symbol, {name for name in calls.loops if name != symbol and not calls.inlined(name)})
    pure = {name: one for name in large if name in known and (one := _signature(name, *known[name])) is not None}
    variants: dict[str, set[tuple[tuple[int, str], ...]]] = {name: set() for name in pure}
    for match in _CALL.finditer(raw):
        one = pure.get(match["name"].strip('"'))
        if one is not None:
            variants[one.symbol].add(_constants(one.given(ir.split_at_bracket(match["rest"])[0])[1]))
    return [replace(one, constants=constants) for name, one in pure.items() for constants in sorted(variants[name])]


def _constants(operands: list[str]) -> tuple[tuple[int, str], ...]:
    """Of the operands of a call, the constant integers: they leave a part of the function, as a template's do."""
    return tuple((place, value) for place, value in enumerate(operands) if value.lstrip("-").isdigit())


def with_constants(text: str, one: Pure) -> str:
    """The IR with a function's constants in the place of its parameters."""
    match = next(match for match in _DEFINE.finditer(text) if match["name"].strip('"') == one.symbol)
    names = [part.split()[-1] for part in ir.split(ir.split_at_bracket(match["rest"])[0])]
    body = match["body"]
    for place, value in one.constants:
        body = re.sub(re.escape(names[place + one.by_reference]) + r"(?![\w.$\-])", value, body)
    return text[: match.start("body")] + body + text[match.end("body") :]


def _effects(raw: str, symbol: str, small: set[str]) -> dict[str, tuple[str, str, str]]:
    """What LLVM finds of the functions: type of the value, parameters, attributes. small: what is inlined before, as it
    may give references to what it was given."""
    text = re.sub(rf"^ *call [^\n]*@{PROBE}\([^\n]*$", "", raw, flags=re.M)
    text = re.sub(r"\b(?:noinline|optnone|alwaysinline) ?", "", text)
    text = _DEFINED.sub(
        lambda match: f"{match[1]}alwaysinline " if match["name"].strip('"') in small else match[0], text
    )
    with tempfile.TemporaryDirectory(prefix="hls-check-") as folder:
        path = Path(folder) / "raw.ll"
        path.write_text(text)
        keep = f"-internalize-public-api-list={symbol}"
        told, _ = clang.run("opt", ["-S", "-strip-debug", f"-passes={_FIND}", keep, str(path), "-o", "-"])
    groups = dict(re.findall(r"^attributes #(\d+) = \{(.*)\}$", told, re.M))
    found = {}
    for match in _DEFINE.finditer(told):
        parameters, behind = ir.split_at_bracket(match["rest"])
        own = " ".join([behind, *(groups.get(number, "") for number in re.findall(r"#(\d+)", behind))])
        found[match["name"].strip('"')] = (match["returns"], parameters, own)
    return found


def _signature(name: str, returns: str, parameters: str, attributes: str) -> Pure | None:
    """The function as an operator; None if it has effects, or operands that are no values."""
    memory = re.search(r"memory\(([^)]*)\)", attributes)
    if memory is None or not re.fullmatch(r"none|read|argmem: \w+", memory[1]) or "nounwind" not in attributes:
        return None
    operands = []
    result = returns if ir.bits_of(returns) and returns != "ptr" else ""
    parts = ir.split(parameters)
    writes = bool(parts) and "sret(" in parts[0]
    for number, part in enumerate(parts):
        kind = part.split()[0]
        if kind != "ptr":
            if not ir.bits_of(kind):
                return None
            operands.append((kind, False))
            continue
        size = re.search(r"\bdereferenceable\((\d+)\)", part)
        if number == 0 and writes:
            continue
        if not re.search(r"\b(?:readonly|readnone|byval)\b", part) or size is None:
            return None
        if not 0 < int(size[1]) <= _MOST_BYTES or int(size[1]) % 4:
            return None
        operands.append((_words(int(size[1])), True))
    if writes:
        return None if result else Pure(name, parts[0], True, tuple(operands))
    return Pure(name, result, False, tuple(operands)) if result else None


def _words(size: int) -> str:
    """A value of so many bytes, of which LLVM makes scalars again."""
    return f"[{size // 4} x i32]"


def rewritten(text: str, operators: Iterable[Pure]) -> str:
    """The IR with calls of functions as operators: references are loaded before, the result is stored behind."""
    known = {(one.symbol, one.constants): one for one in operators}
    if not known:
        return text
    module = ir.parse(text)
    results = {one.symbol: _result(module, one) for one in known.values()}
    by_symbol = {one.symbol: one for one in known.values()}
    count = 0

    def call(match: re.Match[str]) -> str:
        nonlocal count
        function = by_symbol.get(match["name"].strip('"'))
        if function is None:
            return match[0]
        arguments, behind = ir.split_at_bracket(match["rest"])
        into, values = function.given(arguments)
        one = known.get((function.symbol, _constants(values)))
        if one is None:
            return match[0]
        debug = found[0] if (found := re.search(r", !dbg !\d+", behind)) else ""
        lines, given = [], []
        for value, (kind, by_reference) in zip(values, one.operands, strict=True):
            if by_reference:
                count += 1
                lines.append(f"  %hls.operand.{count} = load {kind}, ptr {value}, align 4{debug}")
                value = f"%hls.operand.{count}"
            given.append(f"{kind} {value}")
        count += 1
        name = f"%hls.result.{count}" if into else match["result"] or f"%hls.result.{count}"
        lines.append(f'  {name} = call {results[one.symbol]} @"{one.operator}"({", ".join(given)}){debug}')
        if into:
            lines.append(f"  store {results[one.symbol]} {name}, ptr {into}, align 4{debug}")
        return "\n".join(lines)

    text = _CALL.sub(call, text)
    declared = "".join(
        f'declare {results[one.symbol]} @"{one.operator}"({", ".join(kind for kind, _ in one.operands)}) '
        "nounwind willreturn memory(none)\n"
        for one in known.values()
    )
    return f"{text}\n{declared}"


def _result(module: ir.Module, one: Pure) -> str:
    """The type of an operator's value."""
    if not one.by_reference:
        return one.returns
    pointed = re.search(r"sret\((%(?:\"[^\"]*\"|[\w.$\-]+)|[^()]*)\)", one.returns)
    return _words(module.size_of(pointed[1])) if pointed else "i32"
