"""What computes in a compiled region but in none of its graphs: in frames that Dynamo skips, or between graphs."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fpga_dynamo import errors
from fpga_dynamo.errors import NotLoweredError
from fpga_dynamo.frontend.frames import Gap, GapWatch, gap_at
from fpga_dynamo.ir.flops import multiply_accumulates
from fpga_dynamo.ir.graph import IDENTITY_TARGETS, shows_operand
from fpga_dynamo.torch_internals.dispatch import OpOverload, TorchDispatchMode, dispatch_modes, schema
from fpga_dynamo.torch_internals.frames import AOT_FILES, REGION, is_pytorch
from fpga_dynamo.torch_internals.pytree import tree_leaves

UNKNOWN = "Dynamo skips this code, by configuration or since an earlier call (cleared by torch._dynamo.reset())"
"""The reason where no gap is known."""

_OURS = os.path.dirname(errors.__file__) + os.sep


@dataclass(frozen=True)
class OutsideOp:
    """One run of an op; source: ``file.py:12 in forward``; gap: why it is in no graph, None if that is not known.

    macs: multiply-accumulates; bytes: of its results.
    """

    op: str
    source: str
    gap: Gap | None
    macs: int
    bytes: int

    @property
    def reason(self) -> str:
        return UNKNOWN if self.gap is None else f"{self.gap.kind} at {self.gap.source}: {self.gap.reason}"


class OutsideOps(TorchDispatchMode):
    """Notes each op that computes outside of graphs, in this thread; `refuse` is called with it before it runs."""

    supports_higher_order_operators = True

    def __init__(self, refuse: Callable[[OutsideOp], None] | None = None) -> None:
        super().__init__()
        self.ops: list[OutsideOp] = []
        self._refuse = refuse

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Dynamo goes on compiling under this mode."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        at = _user_frame() if _computes(func, args, kwargs) else None
        if at is None:
            return func(*args, **kwargs)
        source, gap = at
        if self._refuse is not None:
            self._refuse(OutsideOp(str(func), source, gap, 0, 0))
        out = func(*args, **kwargs)
        tensors = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        if tensors:  # a number for the host is no value that a graph would compute
            nbytes = sum(x.numel() * x.element_size() for x in tensors if x.layout is torch.strided)
            self.ops.append(OutsideOp(str(func), source, gap, multiply_accumulates(func, args, kwargs, out), nbytes))
        return out


def _computes(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether a graph's node of this op would count as one that computes; constants, which it would pack, do not."""
    if not isinstance(func, OpOverload) or shows_operand(func) or func in IDENTITY_TARGETS:
        return False
    if not any("Tensor" in str(returned.type) for returned in schema(func).returns):
        return False
    if torch.Tag.nondeterministic_seeded in func.tags:
        return True
    name = schema(func).name.partition("::")[2]
    given = any(isinstance(x, torch.Tensor) for x in tree_leaves((args, kwargs)))
    return given and "empty" not in name and not name.startswith(("lift_fresh", "set_", "resize_"))


def _user_frame() -> tuple[str, Gap | None] | None:
    """Line and gap of what calls an op; None if it is called by a compiled graph, ours or AOTAutograd's part of it."""
    source, gap = "", None
    frame: Any = sys._getframe(2)
    while frame is not None:
        code, file = frame.f_code, frame.f_code.co_filename
        if file.startswith((_OURS, AOT_FILES)):
            return None
        if file == REGION and code.co_name == "compile_wrapper":
            break
        if not source and not is_pytorch(file) and not file.startswith("<"):
            source = f"{os.path.basename(file)}:{frame.f_lineno} in {code.co_name}"
        gap = gap or gap_at(frame)
        frame = frame.f_back
    return source, gap


class StrictWatch(GapWatch):
    """Raises :class:`NotLoweredError` for what a strict region would compute outside of its graphs.

    The first call is watched, and all if there are gaps in the region: that takes some microseconds an op.
    """

    def __init__(self) -> None:
        self._gaps = False
        self.whole = False  # a watched call has shown no gaps
        self._thread = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return StrictWatch, ()  # of a copy's own calls

    def enter(self) -> Callable[[], None]:
        if getattr(self._thread, "mode", None) is not None:
            return _nothing  # a call within a call
        self._watch()
        return self.leave

    def found_gap(self) -> None:
        self._gaps, self.whole = True, False
        # In the midst of a call that was not watched. Modes leave in the reverse order: none of the caller's may do so.
        if getattr(self._thread, "mode", None) is None and dispatch_modes() == 0:
            self._watch()

    def _watch(self) -> None:
        self._thread.mode = OutsideOps(self._refuse)
        self._thread.mode.__enter__()

    def leave(self) -> None:
        mode = getattr(self._thread, "mode", None)
        if mode is not None:
            self._thread.mode = None
            mode.__exit__(None, None, None)
            self.whole = not self._gaps

    def _refuse(self, op: OutsideOp) -> None:
        self._gaps = True
        where = f" at {op.source}" if op.source else ""
        raise NotLoweredError(f"strict=True, but {op.op}{where} runs in eager mode, outside every graph: {op.reason}")


def _nothing() -> None:
    pass
