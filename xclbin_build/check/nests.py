"""Which loop of a nest becomes one with the loop in it (flattening), as logs of Vitis HLS say.

The rules follow from the bitcode in front of that step (`a.o.2.bc`, which public repositories have beside their logs)
and from the messages behind it: "Flattening a loop nest" (XFORM 203-541) and "Cannot flatten loop" (HLS 200-960). They
were compared with 241 loops that were flattened and 47 that were not. AMD's `isPerfectNestLoop`
(Xilinx/hls-llvm-project) is stricter: code behind the inner loop moves into it before that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..hls import cfg, ir, scev
from ..hls.arrays import Kind
from ..hls.frontend import Kernel
from .addresses import Addresses

# Since this version the inner loop may be a nest itself, and the code behind it may have branches. Its registers may
# start with values computed in front of it. Conv3 of JamesCondos' srcnn (2023.1) and seidel of HLStrans (2022.2) stay
# two loops. `VITIS_LOOP_87_13` and `VITIS_LOOP_138_23` of Farhan-wrld (2025.2) are flattened.
_FREELY = "2025"
# Calls that are operators here; a square root is not one of them: a norm of NTHU-CTLAB-24/ViT_HLS stays two loops.
_OPERATORS = ("__hls_probe", "llvm.dbg", "llvm.smax", "llvm.smin", "llvm.umax", "llvm.umin", "llvm.abs", "llvm.fabs",
              "llvm.maxnum", "llvm.minnum", "llvm.fsh", "llvm.ctpop", "llvm.bswap", "llvm.bitreverse")  # fmt: skip


class Nests:
    """The nests of a kernel. evolution: of its function."""

    def __init__(self, kernel: Kernel, evolution: scev.Evolution) -> None:
        self._kernel, self._flow, self._evolution = kernel, kernel.flow, evolution
        self._addresses = Addresses(kernel, evolution)
        self._freely = not kernel.vitis or kernel.vitis >= _FREELY
        self._known: dict[str, bool] = {}

    def flattens(self, loop: cfg.Loop) -> bool:
        """Whether a loop and the only one in it become one."""
        if loop.header not in self._known:
            self._known[loop.header] = self._flattens(loop)
        return self._known[loop.header]

    def chain(self, loop: cfg.Loop) -> list[cfg.Loop]:
        """A loop and those in it that become one with it, down to the innermost."""
        found = [loop]
        while self.flattens(found[-1]):
            found.append(self._flow.loops[found[-1].children[0]])
        return found

    def restarts(self, loop: cfg.Loop, phi: ir.Instruction) -> bool:
        """Whether a choice lies in front of what reads a register of an innermost loop, as the register gets another
        value where the loop around it, which is one with it, goes on.

        Where two loops are flattened, an adder waits one cycle more (5 instead of 4: `correlation`, `covariance` and
        four other sums of doubles of HLStrans, 2022.2). Where more than two are flattened, it does not (4:
        compute_attention_HLS; 3: `VITIS_LOOP_263_3` of Ritarka's resnet_rpn_fpn, 2023.1)."""
        outer = self._around(loop)
        if outer is None or self._around(outer) is not None:
            return False
        given = [value for value, block in phi.incoming if block not in loop.blocks]
        return not any(i.opcode == "phi" and [i.name] == given for i in self._flow.function.blocks[outer.header])

    def last(self, loop: cfg.Loop) -> list[set[str]]:
        """Blocks behind an innermost loop that its last iterations do, of each loop around that is one with it."""
        found: list[set[str]] = []
        for outer in self.outer(loop):
            found.append(set(self._behind(outer, loop)))
            loop = outer
        return found

    def outer(self, loop: cfg.Loop) -> list[cfg.Loop]:
        """The loops around one that are one with it, from the inside."""
        found: list[cfg.Loop] = []
        at: cfg.Loop | None = loop
        while at is not None and (at := self._around(at)) is not None:
            found.append(at)
        return found

    def _around(self, loop: cfg.Loop) -> cfg.Loop | None:
        """The loop around one that is one with it."""
        outer = self._flow.loops[loop.parent] if loop.parent is not None else None
        return outer if outer is not None and self.flattens(outer) else None

    def _flattens(self, loop: cfg.Loop) -> bool:
        instance = self._kernel.instance_of(loop)
        if len(loop.children) != 1 or (instance is not None and not instance.flatten):
            return False
        child = self._flow.loops[loop.children[0]]
        inner = self._kernel.instance_of(child)
        if inner is not None and (inner.pipeline is False or not inner.flatten):
            return False
        if child.children and not self.flattens(child):
            return False
        own = [block for block in self._flow.order if block in loop.blocks - child.blocks]
        behind = self._behind(loop, child)
        before = [block for block in own if block not in behind]
        return (
            self._runs_alike(loop, child, own)
            and self._is_straight(loop, before)
            and not any(self._acts(i) for i in self._code(before))
            and (self._freely or not self._gives_begins(child, before))
            and self._moves_in(loop, child, behind)
        )

    def _behind(self, loop: cfg.Loop, child: cfg.Loop) -> list[str]:
        own = [block for block in self._flow.order if block in loop.blocks - child.blocks]
        return [block for block in own if self._flow.dominates(child.header, block)]

    def _code(self, blocks: Iterable[str]) -> list[ir.Instruction]:
        return [i for block in blocks for i in self._flow.function.blocks[block]]

    def _runs_alike(self, loop: cfg.Loop, child: cfg.Loop, own: list[str]) -> bool:
        """Whether the inner loop runs equally often in each iteration, and both are counted."""
        if not self._evolution.counts(loop.header) or not self._evolution.counts(child.header):
            return False
        words = self._evolution.symbolic.get(child.header, "")
        made = {i.name for i in self._code(own) if i.name}
        names = re.findall(r'%(?:"[^"]*"|[\w.$\-]+)', words)
        return child.header in self._evolution.trips or not any(n in made or n == f"%{loop.header}" for n in names)

    def _is_straight(self, loop: cfg.Loop, blocks: list[str]) -> bool:
        """Whether nothing branches there but the end of the loop."""
        for block in blocks:
            next = self._flow.successors[block]
            if len(next) > 1 and all(target in loop.blocks for target in next):
                return False
        return True

    def _acts(self, i: ir.Instruction) -> bool:
        """Whether something happens beyond the value that an instruction makes: writes, ports, streams, calls."""
        if i.opcode in ("store", "invoke", "switch"):
            return True
        if i.opcode == "call":
            return not (i.callee or "").startswith(_OPERATORS)
        return i.opcode == "load" and any(a.array and a.array.kind is Kind.PORT for a in self._addresses.of(0, i))

    def _gives_begins(self, child: cfg.Loop, before: list[str]) -> bool:
        """Whether a register of the inner loop begins with something that is made in front of it."""
        made = {i.name for i in self._code(before) if i.name and i.opcode != "phi"}
        phis = [i for i in self._flow.function.blocks[child.header] if i.opcode == "phi"]
        return any(value in made for i in phis for value, block in i.incoming if block not in child.blocks)

    def _moves_in(self, loop: cfg.Loop, child: cfg.Loop, behind: list[str]) -> bool:
        """Whether what lies behind the inner loop does nothing, or can be done in its last iteration."""
        code = self._code(behind)
        if not any(self._acts(i) for i in code):
            return self._is_straight(loop, behind)
        if not self._freely and (child.children or not self._is_straight(loop, behind)):
            return False
        if any(self._acts(i) and i.opcode != "store" for i in code):
            return False
        stores = [a for i in code if i.opcode == "store" for a in self._addresses.of(0, i)]
        if any(a.array is None or a.array.kind is Kind.PORT for a in stores):
            return False
        arrays = [a.array.value for a in stores if a.array is not None]
        return child.header in self._evolution.trips and len(arrays) == len(set(arrays))
