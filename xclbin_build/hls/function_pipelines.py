"""A function with a pragma `pipeline` as a loop whose iterations are its calls.

The interval between two calls has the same limits as that between two iterations: ports, bundles and what static
variables carry from call to call. So the function's code is put into a loop that ends at an unknown time, and the code
around it stays: it says how arrays are divided and to which bundles pointers belong. Arguments are new in every call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from . import ir
from .ir import NAME
from .processes import name_of
from .source import PROBE, SourceLoop
from .translation import Compiled

_ARGUMENT, _RESULT, _NEXT, _AGAIN = "__hls_argument", "__hls_result", "__hls_next_call", "__hls_call_again"
_DEFINE = re.compile(
    rf"^define (?P<head>[^\n]*?)@(?P<name>{NAME})\((?P<rest>[^\n]*)\{{\n(?P<body>.*?)^\}}", re.M | re.S
)
_CONSTANT = re.compile(
    rf'^(  %{NAME} = )call (?P<type>[^\n@]*) @"?{_ARGUMENT}[^\n]*?\((?P=type) (?P<value>[^%@\n)][^\n)]*)\)[^\n]*$',
    re.M,
)
_NUMBER = re.compile(r"^!(\d+) = ", re.M)
_LINKAGE = re.compile(r"\b(?:linkonce_odr|weak_odr|internal|dso_local|comdat(?:\([^)]*\))?) ?")
_RETURNED = re.compile(r"(?:^| )([\[{<].*|\S+) $")
# What a call does that LLVM may neither repeat, move nor leave out; and one that may write where pointers lead.
_OUTSIDE = "memory(inaccessiblemem: readwrite)"
_POINTED = "memory(argmem: readwrite, inaccessiblemem: readwrite)"


@dataclass(frozen=True)
class PipelinedFunction:
    """symbol, name: of the function. loop: its calls, as a loop of the source."""

    symbol: str
    name: str
    loop: SourceLoop


def find(unit: Compiled, symbol: str) -> list[PipelinedFunction]:
    """The pipelined functions that a function calls, directly or not, itself included."""
    by_pragma = {number: loop for loop in unit.source.pipelined.values() for number in loop.pragmas}
    if not by_pragma:
        return []
    probe = re.compile(rf"@{PROBE}\(i32 (?:noundef )?(\d+),")
    found: dict[str, PipelinedFunction] = {}
    for match in _DEFINE.finditer(unit.reached_from(symbol)):
        for number in map(int, probe.findall(match["body"])):
            if number in by_pragma:
                name = match["name"].strip('"')
                found[name] = PipelinedFunction(name, _plain(name_of(unit.module, name)), by_pragma[number])
    return sorted(found.values(), key=lambda one: (one.loop.file, one.loop.line, one.symbol))


def _plain(name: str) -> str:
    """A function's name without arguments of templates."""
    return name if name.startswith("operator") else name.partition("<")[0]


def repeated(unit: Compiled, function: PipelinedFunction) -> Compiled:
    """The source with the function's code in a loop over its calls."""
    match = next(m for m in _DEFINE.finditer(unit.raw) if m["name"].strip('"') == function.symbol)
    head, brace, body = match[0].partition("{\n")
    code = f'"{function.symbol}.call"'
    own = _LINKAGE.sub("", head).replace(f"@{match['name']}(", f"@{code}(", 1).replace("define ", "define internal ", 1)
    free = max(map(int, _NUMBER.findall(unit.raw)), default=0) + 1
    loop, declared = _loop(match, re.sub(r" ?!dbg !\d+", "", head), code, free)
    metadata = [
        f"!{free} = distinct !{{!{free}, !{free + 1}}}",
        f'!{free + 1} = !{{!"llvm.loop.pipeline.initiationinterval", i32 {function.loop.id}}}',
    ]
    text = f"{unit.raw[: match.start()]}{own}{brace}{body}\n{loop}{unit.raw[match.end() :]}"
    return replace(unit, raw="\n".join([text, *declared, *metadata, ""]))


def with_constants(text: str) -> str:
    """The IR with the arguments that are the same constant in every call."""
    return _CONSTANT.sub(r"\1select i1 true, \g<type> \g<value>, \g<type> \g<value>", text)


def _loop(match: re.Match[str], head: str, code: str, metadata: int) -> tuple[str, list[str]]:
    """The function that calls `code` in a loop, and what it declares. match: of the function that it stands for."""
    lines, given, pointers = [], [], []
    declared = {f"declare i1 @{_AGAIN}() nounwind willreturn {_OUTSIDE}"}
    for number, parameter in enumerate(ir.split(ir.split_at_bracket(match["rest"])[0])):
        kind, name = ir.type_at(parameter)[0], parameter.split()[-1]
        if kind == "ptr":
            pointers.append(f"ptr nocapture {name}")
            given.append(parameter)
        else:
            new = f"%hls.argument.{number}"
            lines.append(f'  {new} = call {kind} @"{_ARGUMENT}.{kind}"({kind} {name})')
            declared.add(f'declare {kind} @"{_ARGUMENT}.{kind}"({kind}) nounwind willreturn {_OUTSIDE}')
            given.append(f"{kind} {new}")
    if pointers:
        lines.append(f"  call void (...) @{_NEXT}({', '.join(pointers)})")
        declared.add(f"declare void @{_NEXT}(...) nounwind willreturn {_POINTED}")
    returns = _RETURNED.search(match["head"])
    result = returns[1] if returns else "void"
    call = f"call {result} @{code}({', '.join(given)})"
    end = "ret void"
    if result == "void":
        lines.append(f"  {call}")
    else:
        lines += [f"  %hls.result = {call}", f'  call void @"{_RESULT}.{result}"({result} %hls.result)']
        declared.add(f'declare void @"{_RESULT}.{result}"({result}) nounwind willreturn {_OUTSIDE}')
        end = f"ret {result} %hls.result"
    lines += [
        f"  %hls.again = call i1 @{_AGAIN}()",
        f"  br i1 %hls.again, label %hls.calls, label %hls.end, !llvm.loop !{metadata}",
    ]
    calls = "\n".join(lines)
    return f"{head}{{\nhls.entry:\n  br label %hls.calls\nhls.calls:\n{calls}\nhls.end:\n  {end}\n}}", sorted(declared)
