"""What Vitis HLS does of its own with loops that carry no pragma (UG1399, `config_compile -pipeline_loops`).

A loop without loops in it is pipelined, and a perfect nest of loops becomes one (flattening). Where the nest is not
perfect and the loops in it have at most THRESHOLD iterations together, they unroll and the one around them is
pipelined: the logs of HeteroCL_Transformer (Vitis HLS 2022.1) pipeline the outer of two loops of 12 iterations where
the inner reads an element that stays the same, and the inner where it does not.
"""

from __future__ import annotations

import re

from . import cfg, ir, scev
from .instance import FULL, Instance

THRESHOLD = 64
_NAME = re.compile(r'[#%]("[^"]*"|[\w.$\-]+)')  # of a value or a loop's counter in a term
_COUNTING = frozenset(
    ["phi", "br", "add", "sub", "icmp", "getelementptr", "zext", "sext", "trunc", "shl", "mul", "call"]
)


def unroll_short_loops(flow: cfg.Flow, by_header: dict[str, Instance], evolution: scev.Evolution) -> None:
    """Marks the loops that unroll for being short. by_header: instances by the headers of their loops."""
    for instance in by_header.values():
        if instance.count == 1 and instance.pipeline is None and instance.unroll is None:
            instance.unroll = FULL  # a single iteration: tiles of 1 x 1 of sharc-lab/FPGA_ECE8893 (2022.1)
    for header, loop in flow.loops.items():
        if loop.parent is None:
            _visit(header, flow, by_header, evolution)


def _visit(header: str, flow: cfg.Flow, by_header: dict[str, Instance], evolution: scev.Evolution) -> int | None:
    """Iterations that would be unrolled in the loop around this one; None if it stays a loop."""
    loop, instance = flow.loops[header], by_header[header]
    counts = [_visit(child, flow, by_header, evolution) for child in loop.children]
    if any(count is None for count in counts):
        return None
    if instance.unroll == FULL:
        return instance.count
    if instance.pipeline is not None:
        return None
    own = instance.count or 0
    if len(loop.children) == 1 and _perfect(flow, loop, flow.loops[loop.children[0]], evolution):
        inner = counts[0] or 0
        if by_header[loop.children[0]].unroll is None:
            together = own * inner
            unrolls = 0 < together <= THRESHOLD and loop.parent is not None and instance.unroll is None
            return together if unrolls else None
    for child in loop.children:
        for nested in _nest(flow, child):
            if by_header[nested].unroll is None:
                by_header[nested].unroll, by_header[nested].automatic = FULL, True
    if instance.unroll is not None:  # a pragma says how often: in part, or not at all
        return None
    together = own * sum(count or 1 for count in counts) if counts else own
    return together if loop.parent is not None and 0 < together <= THRESHOLD else None


def _nest(flow: cfg.Flow, header: str) -> list[str]:
    found = [header]
    for child in flow.loops[header].children:
        found += _nest(flow, child)
    return found


def _perfect(flow: cfg.Flow, loop: cfg.Loop, child: cfg.Loop, evolution: scev.Evolution) -> bool:
    """Whether nothing but counting lies between two loops, and nothing can be moved there out of the inner one."""
    for block in loop.blocks - child.blocks:
        for i in flow.function.blocks[block]:
            if i.opcode not in _COUNTING or (i.opcode == "call" and not (i.callee or "").startswith("__hls_probe")):
                return False
    stores: dict[str, set[str]] = {}
    inside = [i for block in child.blocks for i in flow.function.blocks[block]]
    definitions = flow.function.definitions()
    made = {i.name for i in inside if i.name}
    headers = set(_nest(flow, child.header))
    around = {i.name for block in loop.blocks for i in flow.function.blocks[block] if i.name}
    outer = headers | {loop.header}
    for i in inside:
        if i.opcode == "store" and i.pointer:
            stores.setdefault(_root(definitions, i.pointer), set()).add(i.pointer)
    for i in inside:
        if i.opcode == "load" and i.pointer and not flow.loops[child.header].children:
            others = stores.get(_root(definitions, i.pointer), set())
            if any(_is_next(evolution, other, i.pointer, child.header) for other in others):
                return False  # a register keeps it, which is read before the first iteration
        if i.opcode == "load" and i.pointer and _fixed(evolution, i.pointer, headers, made):
            if _fixed(evolution, i.pointer, outer, around):
                continue  # it moves further out
            others = stores.get(_root(definitions, i.pointer), set())
            if all(other == i.pointer or _fixed(evolution, other, headers, made) for other in others):
                return False
    return True


def _is_next(evolution: scev.Evolution, write: str, read: str, header: str) -> bool:
    """Whether an iteration reads what the one before wrote."""
    forms = [scev.linear(evolution.values.get(pointer, pointer)) for pointer in (write, read)]
    step = forms[1].get(f"#{header}", 0)
    return step != 0 and scev.difference(*forms) == {"": step}


def _fixed(evolution: scev.Evolution, pointer: str, headers: set[str], made: set[str]) -> bool:
    """Whether an address stays the same in a loop and those in it. made: values that it computes."""
    words = evolution.values.get(pointer)
    if words is None:
        return pointer not in made
    names = {name.strip('"') for key in scev.linear(words) for name in _NAME.findall(key)}
    return not names & headers and not any(f"%{name}" in made for name in names)


def _root(definitions: dict[str, ir.Instruction], pointer: str) -> str:
    """What an address is made from."""
    for _ in range(64):
        made = definitions.get(pointer)
        if made is None or made.opcode not in ("getelementptr", "bitcast", "freeze"):
            return pointer
        pointer = made.operands[0]
    return pointer
