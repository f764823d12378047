"""Control flow of a function: order, dominators, natural loops."""

from __future__ import annotations

from dataclasses import dataclass, field

from .ir import Function, Instruction, labels


@dataclass
class Loop:
    """A natural loop: blocks that reach a latch without passing the header."""

    header: str
    blocks: set[str] = field(default_factory=set)
    latches: list[str] = field(default_factory=list)
    parent: str | None = None
    children: list[str] = field(default_factory=list)


@dataclass
class Flow:
    """order: blocks in reverse postorder, those that cannot be reached left out. number: their place in it."""

    function: Function
    successors: dict[str, list[str]]
    predecessors: dict[str, list[str]]
    order: list[str]
    number: dict[str, int]
    dominator: dict[str, str]
    loops: dict[str, Loop]
    _innermost: dict[str, Loop] = field(default_factory=dict, repr=False)  # by block, once it is asked for

    def terminator(self, block: str) -> Instruction:
        return self.function.blocks[block][-1]

    def dominates(self, above: str, below: str) -> bool:
        while self.number[below] > self.number[above]:
            below = self.dominator[below]
        return below == above

    def around(self, block: str) -> Loop | None:
        """The innermost loop that a block lies in."""
        if not self._innermost:
            for loop in sorted(self.loops.values(), key=lambda loop: len(loop.blocks)):
                for inside in loop.blocks:
                    self._innermost.setdefault(inside, loop)
        return self._innermost.get(block)

    def always(self, loop: Loop) -> set[str]:
        """Blocks that every iteration of a loop runs through."""
        return {block for block in loop.blocks if all(self.dominates(block, latch) for latch in loop.latches)}

    def innermost(self) -> list[Loop]:
        return [loop for loop in self.loops.values() if not loop.children]

    def ancestors(self, loop: Loop) -> list[Loop]:
        """Loops around a loop, innermost first."""
        found = []
        while loop.parent:
            loop = self.loops[loop.parent]
            found.append(loop)
        return found


def analyse(function: Function) -> Flow:
    """The control flow of a function."""
    successors = {name: labels(block[-1]) if block else [] for name, block in function.blocks.items()}
    predecessors: dict[str, list[str]] = {name: [] for name in function.blocks}
    for name, targets in successors.items():
        for target in targets:
            predecessors[target].append(name)
    order = _reverse_postorder(next(iter(function.blocks)), successors)
    number = {name: index for index, name in enumerate(order)}
    flow = Flow(function, successors, predecessors, order, number, {}, {})
    flow.dominator = _dominators(flow)
    _find_loops(flow)
    return flow


def _reverse_postorder(entry: str, successors: dict[str, list[str]]) -> list[str]:
    done: list[str] = []
    seen = {entry}
    stack = [(entry, iter(successors[entry]))]
    while stack:
        name, rest = stack[-1]
        for target in rest:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(successors[target])))
                break
        else:
            done.append(name)
            stack.pop()
    return done[::-1]


def _dominators(flow: Flow) -> dict[str, str]:
    """Immediate dominators (Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm", 2001)."""
    entry = flow.order[0]
    found = {entry: entry}
    changed = True
    while changed:
        changed = False
        for name in flow.order[1:]:
            known = [p for p in flow.predecessors[name] if p in found]
            new = known[0]
            for other in known[1:]:
                a, b = other, new
                while a != b:
                    while flow.number[a] > flow.number[b]:
                        a = found[a]
                    while flow.number[b] > flow.number[a]:
                        b = found[b]
                new = a
            if found.get(name) != new:
                found[name] = new
                changed = True
    return found


def _find_loops(flow: Flow) -> None:
    for name in flow.order:
        for target in flow.successors[name]:
            if target in flow.number and flow.dominates(target, name):
                loop = flow.loops.setdefault(target, Loop(target))
                loop.latches.append(name)
                loop.blocks.add(target)
                stack = [name]
                while stack:
                    block = stack.pop()
                    if block not in loop.blocks and block in flow.number:
                        loop.blocks.add(block)
                        stack += flow.predecessors[block]
    # From the outside inwards: what lies around a header so far is its loop's parent.
    inside: dict[str, Loop] = {}
    for loop in sorted(flow.loops.values(), key=lambda loop: -len(loop.blocks)):
        if loop.header in inside:
            loop.parent = inside[loop.header].header
        inside |= dict.fromkeys(loop.blocks, loop)
    for loop in flow.loops.values():
        if loop.parent:
            flow.loops[loop.parent].children.append(loop.header)
