"""Functions of one bfloat16 number as an engine applies them to rounded results: a table, and tails beside it.

Eager mode rounds the argument and the result of a function, so its results for the 65,536 numbers define it. An engine
has room for those of 16 adjacent exponents (hls_kernels/engine/function.hpp); all others have to follow a tail. This is
decided by trying all of them, except numbers below 2^-120 and from 2^120 on. There eager functions underflow or
overflow in intermediate results, such as 6 x of hardswish, and a tail does not.
Tests: tests/lowering/test_engine_functions.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.node import map_arg

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError
from fpga_dynamo.codegen.engine.sizes import FUNCTION_EXPONENTS as EXPONENTS
from fpga_dynamo.codegen.engine.sizes import FUNCTION_MANTISSAS as MANTISSAS
from fpga_dynamo.ir.graph import GraphInfo, evaluated
from fpga_dynamo.lowering.ops.unary_functions import is_unary_function
from fpga_dynamo.lowering.patterns import keeps_rows, sole_user
from fpga_dynamo.torch_internals.dispatch import without_modes

_ALL = 255
"""The exponent of infinities and NaN."""
LEAST, MOST = 127 - 120, 127 + 120
"""From the first exponent to before the second, results are eager mode's."""
_NAN = 0x7FC0
_HEAD = 16
"""Words in front of a table's entries."""
_SMALL, _LARGE = 2.0**-100, 2.0**100


@dataclass(frozen=True)
class Tail:
    """What numbers of a sign become: a constant, as bits, or `slope` times them, rounded to float32 and bfloat16."""

    constant: int | None = None
    slope: float = 1.0

    def of(self, x: Tensor) -> Tensor:
        """bfloat16 numbers -> the bits of what becomes of them."""
        if self.constant is not None:
            return torch.full(x.shape, self.constant)
        return bits_of((x.float() * self.slope).bfloat16())

    @property
    def word(self) -> int:
        return 1 << 16 if self.constant is None else self.constant


@dataclass(frozen=True)
class FunctionTable:
    """As it lies on the card, in words of 32 bits; or why it cannot, as a sentence."""

    words: tuple[int, ...] = ()
    refusal: str = ""


_known: dict[tuple[Any, ...], FunctionTable] = {}


def behind(last: Node, graph: GraphInfo, *, rows: bool = False) -> tuple[tuple[Node, ...], FunctionTable | None]:
    """The longest chain of functions behind `last`, all of single users, that the engine has as one; and that.

    rows: views that keep rows whole may stand between.
    """
    if "functions" not in graph.engine_features:
        return (), None
    nodes = chain(last, graph, rows=rows)
    while nodes:
        found = function_of(nodes)
        if not found.refusal:
            return tuple(nodes), found
        nodes = nodes[:-1]
        while nodes and keeps_rows(nodes[-1]):
            nodes = nodes[:-1]
    return (), None


def chain(last: Node, graph: GraphInfo, *, rows: bool = False) -> list[Node]:
    """Functions of one bfloat16 number, each of the one before, from the first user of `last` on."""
    nodes: list[Node] = []
    passed: list[Node] = []
    user = sole_user(last)
    while user is not None and user not in graph.claimed:
        passed.append(user)
        if is_unary_function(user, torch.bfloat16):
            nodes += passed
            passed = []
        elif not (rows and keeps_rows(user)):
            break
        user = sole_user(user)
    return nodes


def function_of(nodes: Sequence[Node]) -> FunctionTable:
    """What a chain of functions does to a bfloat16 number."""
    key = tuple((str(node.target), *_plain(node)) for node in nodes if not keeps_rows(node))
    if key not in _known:
        with without_modes():  # numbers are compared
            _known[key] = _fitted(nodes)
    return _known[key]


def _plain(node: Node) -> tuple[str, str]:
    """A node's arguments without their names."""
    args, kwargs = map_arg((node.args, node.kwargs), lambda _: "x")
    return str(args), str(kwargs)


def _applied(nodes: Sequence[Node], x: Tensor) -> Tensor:
    with without_modes(), torch.no_grad():
        known: dict[Node, Tensor] = {nodes[0].all_input_nodes[0]: x}
        for node in nodes:
            if keeps_rows(node):
                known[node] = known[node.all_input_nodes[0]]
                continue
            known[node] = evaluated(node, known)
        return known[nodes[-1]]


def numbers() -> Tensor:
    """All bfloat16 numbers: (sign, exponent, mantissa)."""
    return torch.arange(1 << 16).to(torch.int16).view(torch.bfloat16).view(2, _ALL + 1, MANTISSAS)


def bits_of(x: Tensor) -> Tensor:
    """The bits of bfloat16 numbers as integers; all NaN are one."""
    return torch.where(x.isnan(), _NAN, x.view(torch.int16).long() & 0xFFFF)


def _fitted(nodes: Sequence[Node]) -> FunctionTable:
    x = numbers()
    result = bits_of(_applied(nodes, x.flatten()).view(x.shape))
    if (result[:, _ALL, 1:] != _NAN).any():
        return FunctionTable(refusal="the function maps NaN to a number, and the engine keeps NaN")
    if not torch.isfinite(_applied(nodes, torch.zeros(1))).all():
        return FunctionTable(refusal="the function is not finite at 0, which padded channels hold")
    below, above = [], []
    first, behind_last, step = MOST, LEAST, False
    for sign in range(2):
        own, wanted = x[sign, LEAST:MOST], result[sign, LEAST:MOST]
        tail, count = _best(own, wanted, [Tail(constant=int(wanted[0, 0])), _line(nodes, sign, _SMALL)], from_end=False)
        step = step or bool((tail.of(x[sign, 0, :1]) - result[sign, 0, 0]) & 0x7FFF)  # a zero may have either sign
        below.append(tail)
        first = min(first, LEAST + count)
        candidates = [Tail(constant=int(wanted[-1, -1])), _line(nodes, sign, _LARGE)]
        tail, count = _best(own, wanted, candidates, from_end=True)
        above.append(tail)
        behind_last = max(behind_last, MOST - count)
    if behind_last - first > EXPONENTS:
        return FunctionTable(
            refusal=f"nonlinear over {behind_last - first} powers of two; the engine's table covers {EXPONENTS}"
        )
    if step:
        return FunctionTable(refusal="the function has a step at 0, which the engine's table cannot hold")
    first = min(first, MOST - EXPONENTS)
    return FunctionTable(_words(first, below, above, result))


def _line(nodes: Sequence[Node], sign: int, at: float) -> Tail:
    """The line through 0 and what a number becomes in float64."""
    x = -at if sign else at
    slope = _applied(nodes, torch.tensor([x], dtype=torch.float64)) / x
    return Tail(slope=float(slope.float()))


def _best(x: Tensor, wanted: Tensor, tails: list[Tail], *, from_end: bool) -> tuple[Tail, int]:
    """The tail that holds for the most exponents from the least (or the largest) one on, and for how many."""
    counts = []
    for tail in tails:
        holds = (tail.of(x) == wanted).all(-1)
        holds = holds.flip(0) if from_end else holds
        counts.append(int(holds.long().cumprod(0).sum()))
    most = max(range(len(tails)), key=counts.__getitem__)
    return tails[most], counts[most]


def _words(first: int, below: list[Tail], above: list[Tail], result: Tensor) -> tuple[int, ...]:
    head = torch.zeros(_HEAD, dtype=torch.int64)
    tails = (*below, *above)
    head[0] = first
    head[1] = result[0, _ALL, 0] | result[1, _ALL, 0] << 16
    head[2:6] = torch.tensor([tail.slope for tail in tails], dtype=torch.float32).view(torch.int32)
    head[6:10] = torch.tensor([tail.word for tail in tails])
    entries = result[:, first : first + EXPONENTS].reshape(-1, 2)
    words = torch.cat([head & 0xFFFF_FFFF, entries[:, 0] | entries[:, 1] << 16])
    return tuple(words.tolist())


def applied(function: FunctionTable, x: Tensor) -> Tensor:
    """What an engine makes of bfloat16 numbers (of one dimension), as bits: function.hpp of its sources in PyTorch."""
    words = torch.tensor(function.words, dtype=torch.int64)
    first, bits = int(words[0]), x.view(torch.int16).long() & 0xFFFF
    sign, exponent, mantissa = bits >> 15, bits >> 7 & 0xFF, bits & 0x7F
    entries = torch.stack([words[_HEAD:] & 0xFFFF, words[_HEAD:] >> 16], 1).flatten()
    place = (exponent - first).clamp(0, EXPONENTS - 1)
    found = entries[(sign * EXPONENTS + place) * MANTISSAS + mantissa]
    slopes = words[2:6].to(torch.int32).view(torch.float32).tolist()
    for k in range(4):
        beside = exponent >= first + EXPONENTS if k // 2 else exponent < first
        word = int(words[6 + k])
        tail = Tail(None if word >> 16 else word, slopes[k])
        found = torch.where(beside & (sign == k % 2), tail.of(x), found)
    found = torch.where(exponent == _ALL, torch.where(sign == 1, words[1] >> 16, words[1] & 0xFFFF), found)
    return torch.where(x.isnan(), _NAN, found)


def pack_function(params: tuple[Any, ...]) -> Tensor:
    """int32: the words of a function."""
    (words,) = params
    return torch.tensor(words, dtype=torch.int64).to(torch.int32)


def placed(function: FunctionTable, name: str, emitter: EngineEmitter) -> int:
    """Has a function lie in the weights' region, once for all that share it; answers its first line.

    Raises RefusedError for one that the engine does not have.
    """
    if function.refusal:
        raise RefusedError(function.refusal)
    pack = emitter.pack(pack_function, (function.words,), [], len(function.words), f"function of {name}")
    return emitter.put(pack)
