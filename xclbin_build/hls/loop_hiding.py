"""Hides a loop around hundreds of loops from LLVM while the inner loops unroll, which bounds the compile time.

For each change of an inner loop, LLVM walks through the whole outer loop (closed form, dominators, scalar evolution).
The time is quadratic in the number of inner loops, and so is the size of the printed scalar evolution. LLVM does not
recognize a loop with a second entry past its header. Such an entry, with an unknown condition, is added here; the rest
of the code does not change. `restore_loops` removes it.
"""

from __future__ import annotations

import re

from . import cfg, ir

LEAST = 200  # loops in one that is hidden
_CHOICE = "__hls_hidden"
_LATCH, _KNOWN = "hls.hidden.latch", "hls.hidden"
_NAME = r'%(?:"[^"]*"|[\w.$\-]+)'
_LABEL = re.compile(r'("[^"]*"|[\w.$\-]+):')
_KEPT = re.compile(r'^(?:(?:"[^"]*"|[\w.$\-]+):|  (?:br|switch|ret|unreachable)\b|    i\d+ -?\d+, label|  \])')
_PHI = re.compile(rf"^  (?P<name>{_NAME}) = phi (?P<type>.*?) (?P<pairs>\[ .*\])(?P<behind>(?:, !.*)?)$")
_DECLARED = f"\ndeclare i1 @{_CHOICE}() nounwind willreturn memory(inaccessiblemem: readwrite)\n"


def hide_loops(text: str, symbol: str) -> str:
    """The IR with loops of a function hidden that contain many loops; unchanged without such loops."""
    define = re.search(rf'^define [^\n]*@"?{re.escape(symbol)}"?\([^\n]*\n', text, re.M)
    if define is None or text.count(", !llvm.loop ", define.end()) < LEAST:
        return text
    end = text.index("\n}", define.end())
    lines = text[define.end() : end].split("\n")
    blocks = ir.blocks_of("\n".join(line for line in lines if _KEPT.match(line)))
    flow = cfg.analyse(ir.Function(symbol, [], blocks))
    begins, ends = _places(lines)
    count = 0
    for header, loop in flow.loops.items():
        outside = [before for before in flow.predecessors[header] if before not in loop.blocks]
        if _within(flow, header) < LEAST or len(loop.latches) != 1 or len(outside) != 1:
            continue
        if len(flow.successors[outside[0]]) == 1 and lines[ends[outside[0]]].startswith("  br label "):
            count += 1
            _hide(lines, begins[header], ends[outside[0]], ends[loop.latches[0]], count)
    return text[: define.end()] + "\n".join(lines) + text[end:] + _DECLARED if count else text


def restore_loops(text: str) -> str:
    """The IR with all loops in sight again."""
    if f"declare i1 @{_CHOICE}()" not in text:
        return text
    text = re.sub(rf"^  %{re.escape(_KNOWN)}\.\d+ = call .*\n", "", text, flags=re.M)
    text = re.sub(rf"^  br i1 %{re.escape(_KNOWN)}\.\d+, label {_NAME}, (label {_NAME})", r"  br \1", text, flags=re.M)
    return re.sub(
        rf"^{re.escape(_LATCH)}\.\d+:[^\n]*\n(?:  {_NAME} = phi [^\n]*\n)*",
        lambda latch: re.sub(rf", \[ poison, {_NAME} \]", "", latch[0]),
        text,
        flags=re.M,
    )


def _places(lines: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    """The lines that blocks begin and end with."""
    begins, ends, block = {}, {}, "0"
    for number, line in enumerate(lines):
        if label := _LABEL.match(line):
            block = label[1].strip('"')
            begins[block] = number
        elif line.startswith("  "):
            ends[block] = number
    return begins, ends


def _within(flow: cfg.Flow, header: str) -> int:
    return sum(1 + _within(flow, child) for child in flow.loops[header].children)


def _hide(lines: list[str], header: int, before: int, latch: int, number: int) -> None:
    """Hides a loop. Lines: header, of its label; before, latch: of the branches to it from outside and from inside."""
    label = _LABEL.match(lines[header])
    assert label is not None  # it was found by it
    to, way = f"label %{label[1]}", f"{_LATCH}.{number}"
    phis: list[str] = []
    at = header + 1
    while phi := _PHI.match(lines[at]):
        pairs = re.findall(r"\[ (.*?), (%(?:\"[^\"]*\"|[\w.$\-]+)) \]", phi["pairs"])
        assert len(pairs) == 2  # one from outside, one from inside
        first, last = pairs if pairs[0][1] == _block_of(lines, before) else pairs[::-1]
        name = f"%{_KNOWN}.{number}.{len(phis)}"
        behind, kind = phi["behind"] or "", phi["type"]
        phis.append(f"  {name} = phi {kind} [ {last[0]}, {last[1]} ], [ poison, {first[1]} ]{behind}")
        lines[at] = f"  {phi['name']} = phi {kind} [ {first[0]}, {first[1]} ], [ {name}, %{way} ]{behind}"
        at += 1
    metadata = re.sub(r"^.*?(?=, !|$)", "", lines[latch])
    lines[latch] = lines[latch].replace(to, f"label %{way}")
    known = f"%{_KNOWN}.{number}"
    behind = re.sub(r"^.*?(?=, !|$)", "", lines[before])
    lines[before] = f"  {known} = call i1 @{_CHOICE}()\n  br i1 {known}, label %{way}, {to}{behind}"
    lines[header] = "\n".join([f"{way}:", *phis, f"  br {to}{metadata}", "", lines[header]])


def _block_of(lines: list[str], at: int) -> str:
    """The block that a line lies in."""
    while not (label := _LABEL.match(lines[at])):
        at -= 1
    return f"%{label[1]}"
