"""The decision on every op: rows made from lowering's own tables and its decision on a typical call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from fpga_dynamo.codegen.views import VIEWS
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.graph import IDENTITY_TARGETS, aten, shows_operand
from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering.ops.host import REASONS, short
from fpga_dynamo.lowering.passes.rewrite.normalise import FILLED
from fpga_dynamo.lowering.passes.select.claim import claim
from fpga_dynamo.lowering.patterns import TABLE, Pattern
from fpga_dynamo.lowering.tracing.decompose import DECOMPOSITIONS
from fpga_dynamo.lowering.tracing.layouts import LAID_OUT
from fpga_dynamo.tools.opset.probes import probe
from fpga_dynamo.torch_internals.dispatch import OpOverload, is_composite, operator_names, schema
from xclbin_build.build import load_design
from xclbin_build.manifest import describe

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
)

OTHER_RECIPES = ("signal",)
"""Recipes with cores that the default one has not."""


@dataclass(frozen=True)
class OperatorRow:
    """One op. where: PL, in parts, view, constant or PS; dtypes of operands that the card supports; cores and patterns
    that run it; why it stays on the PS, or how it comes about that nothing is left to decide."""

    op: str
    where: str
    dtypes: tuple[str, ...] = ()
    cores: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    why: str = ""


def core_aten() -> list[OpOverload]:
    """The ops that carry PyTorch's tag `core`.

    Asked of the dispatcher: `dir(torch.ops.aten)` grows with the names that a process happens to have looked up.
    """
    names = [name for name in operator_names() if name.startswith("aten::")]
    parts = (name.removeprefix("aten::").partition(".") for name in names)
    overloads = (getattr(getattr(aten, op), overload or "default") for op, _, overload in parts)
    return [op for op in overloads if torch.Tag.core in op.tags]


def with_all_cores(target: Target) -> Target:
    """The target with the kernels of :data:`OTHER_RECIPES` besides its own; their xclbins need not be built."""
    kernels = target.kernels
    for recipe in OTHER_RECIPES:
        manifest = describe(load_design(recipe, platform="emu"), "emu", "")
        kernels += Target.from_manifest("", manifest).kernels
    return replace(target, kernels=kernels)


def rows(target: Target) -> list[OperatorRow]:
    """Every op of the core ATen set and every other op that lowering knows, by name, for :data:`OTHER_RECIPES` too.

    Raises :class:`FpgaError` for an op that nothing decides on.
    """
    anchors = {op for pattern in TABLE.patterns() for op in pattern.anchors}
    known = {
        *core_aten(),
        *anchors,
        *(DECOMPOSITIONS.keys() - LAID_OUT.keys()),
        *VIEWS,
        *IDENTITY_TARGETS,
        *FILLED,
    }
    everywhere = with_all_cores(target)
    made = [_row(op, target, everywhere) for op in known if isinstance(op, OpOverload)]
    return sorted(made, key=lambda row: row.op.lower())


def _row(op: OpOverload, target: Target, everywhere: Target) -> OperatorRow:
    name = short(op)
    takers = [pattern for pattern in TABLE.patterns() if op in pattern.anchors]
    if takers and _reads_tensors(op):
        return _on_card(op, takers, target, everywhere)
    if op in DECOMPOSITIONS and op not in LAID_OUT:
        return OperatorRow(
            name, "in parts", why="AOTAutograd decomposes it by a rule of fpga_dynamo; this list has every resulting op"
        )
    if op in FILLED:
        return OperatorRow(name, "constant", why="it reads only the size of its input: evaluated with the weights")
    if shows_operand(op):
        return OperatorRow(name, "view", why="strides and an offset; no command")
    if op in IDENTITY_TARGETS:
        why = "values on the card are never changed in place, so a copy is the same value"
        return OperatorRow(name, "view", why=why)
    return next(_elsewhere(op))


def _reads_tensors(op: OpOverload) -> bool:
    return any("Tensor" in str(argument.type) for argument in schema(op).arguments)


def _on_card(op: OpOverload, takers: list[Pattern], target: Target, everywhere: Target) -> OperatorRow:
    taken = []
    for dtype in DTYPES:
        made = probe(op, dtype, everywhere)
        if made is not None:
            claim(made.graph)
            if made.node in made.graph.claimed:
                taken.append(str(dtype).removeprefix("torch."))
    if not taken:
        raise FpgaError(
            f"the pattern matches no dtype of the example call of {op}; correct the call in `operators` of its pattern"
        )
    cores = dict.fromkeys(core for pattern in takers for core in sorted(pattern.opcodes - {"move"} or {"move"}))
    usual = any(target.kernels_for(pattern.opcodes) for pattern in takers)
    why = "" if usual else f"by a recipe that has the core: {', '.join(OTHER_RECIPES)}"
    return OperatorRow(short(op), "PL", tuple(taken), tuple(cores), tuple(pattern.name for pattern in takers), why)


def _elsewhere(op: OpOverload) -> Iterator[OperatorRow]:
    """What holds of an op that no pattern matches, the most telling first."""

    def answer(where: str, why: str) -> OperatorRow:
        return OperatorRow(short(op), where, why=why)

    signature = schema(op)
    if not any("Tensor" in str(result.type) for result in signature.returns) and short(op) not in REASONS:
        yield answer("PS", "its result is a number or a bool that the host derives from shape and strides")
    if is_composite(op):
        yield answer("in parts", "PyTorch decomposes it before a backend sees it")
    if torch.Tag.nondeterministic_seeded in op.tags:
        yield answer(
            "PS", "it draws random numbers from PyTorch's generator, whose sequence only eager mode reproduces"
        )
    if any(argument.is_out for argument in signature.arguments):
        yield answer("in parts", "AOTAutograd makes it functional: the op without `out`, and a copy")
    if not _reads_tensors(op):
        yield answer("constant", "it reads no tensor: evaluated once, when weights are packed")
    if short(op) not in REASONS:
        raise FpgaError(f"{op} has neither a pattern nor a reason in fpga_dynamo/lowering/ops/host.py")
    yield answer("PS", REASONS[short(op)])
