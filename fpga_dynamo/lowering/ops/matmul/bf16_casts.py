"""Casts around products of bfloat16, as autocast inserts them: of a product's operands and its result.

A product rounds floats as it reads them: a cast in front of it needs no command, unless others get the rounded numbers.
A cast to float32 right behind one is its result before it is rounded.
Core: hls_kernels/cores/gemm_bf16, tests: tests/lowering/test_bf16.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.views import is_lowerable_view
from fpga_dynamo.ir.elements import BF16
from fpga_dynamo.ir.graph import GraphInfo, aten, is_view, operand, refuse_float, value
from fpga_dynamo.ir.records import GemmBf16
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.patterns import Match, Pattern, sole_user

PRODUCTS = (aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default)


def multiplies_bf16(target: Target) -> bool:
    """Whether this is the emulator of a host that multiplies bfloat16, and a kernel has the core for it."""
    return "bfloat16" in target.multiplies and target.has_any(GemmBf16.opcode)


def readers(node: Node) -> set[Node]:
    """Who uses the value of `node`, itself or through views."""
    found, seen, waiting = set(), {node}, [node]
    while waiting:
        for user in waiting.pop().users:
            if user in seen:
                continue
            seen.add(user)
            if is_view(user):
                waiting.append(user)
            else:
                found.add(user)
    return found


@dataclass(frozen=True)
class CastParts:
    """kept: whether the cast is also a result of the graph."""

    kept: bool


def match_cast(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[CastParts] | None:
    """A cast of floats for products of bfloat16, perhaps saved as well, that is no part of other element-wise work."""
    source = operand(node, 0)
    if not multiplies_bf16(graph.target) or value(node).dtype is not torch.bfloat16:
        return None
    if value(source).dtype is not torch.float32:
        return None
    origin = source
    while is_view(origin) and origin.all_input_nodes:
        origin = origin.all_input_nodes[0]
    if origin.op != "placeholder" and origin not in graph.claimed:
        return None
    users = readers(node)
    products = {user for user in users if user.target in PRODUCTS and value(user).dtype is torch.bfloat16}
    if not products or any(user.op != "output" for user in users - products):
        return None
    return Match(pattern, (node,), (node,), CastParts(kept=users != products))


def check_cast(match: Match[CastParts], graph: GraphInfo) -> str | None:
    return refuse_float(operand(match.root, 0), "operand") or refuse_float(match.root, "result")


def lower_cast(match: Match[CastParts], emitter: Emitter) -> Sequence[View]:
    floats = emitter.view(operand(match.root, 0))
    if not match.bound.kept:
        return [floats]
    return [replace(emitter.converted(emitter.in_arena(floats), BF16), dtype=torch.bfloat16)]


def cast_behind(root: Node, graph: GraphInfo) -> tuple[Node, ...]:
    """Views of a product's result and a cast to float32 behind them, if nobody else sees it."""
    nodes: list[Node] = []
    user = sole_user(root)
    while user is not None and user not in graph.claimed and is_view(user) and is_lowerable_view(user):
        nodes.append(user)
        user = sole_user(user)
    if user is None or user in graph.claimed or user.target is not aten._to_copy.default:
        return ()
    return (*nodes, user) if value(user).dtype is torch.float32 else ()


PATTERNS = (
    Pattern(
        name="cast_bf16",
        anchors=(aten._to_copy.default,),
        match=match_cast,
        check=check_cast,
        lower=lower_cast,
        opcodes=frozenset({"convert", "move"}),
    ),
)
