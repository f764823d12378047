"""Functions of one tensor of 8-bit integers as tables.

A table is computed when the graph is lowered, by eager, for each of the 256 integers; so it holds eager mode's numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.ir.elements import U8
from fpga_dynamo.ir.graph import evaluated
from fpga_dynamo.ir.quantised import dequantized, quantizes
from fpga_dynamo.ir.view import Buffer
from fpga_dynamo.ir.weights import Packer
from fpga_dynamo.lowering.patterns import keeps_rows
from fpga_dynamo.torch_internals.dispatch import without_modes


def table_of(nodes: Sequence[Node]) -> tuple[int, ...]:
    """What becomes of each integer, from the least of its type on; `nodes`: from where they are dequantised to
    where they are quantised again."""
    found, result = dequantized(nodes[0]), quantizes(nodes[-1])
    assert found is not None and result is not None
    with without_modes():
        known: dict[Node, Any] = {nodes[0]: found[1].values()}
        for node in nodes[1:]:
            if keeps_rows(node):
                known[node] = known[node.all_input_nodes[0]]
                continue
            known[node] = evaluated(node, known)
        return tuple(int(x) & 0xFF for x in known[nodes[-1]].to(torch.int64))


def pack_table(params: tuple[Any, ...]) -> torch.Tensor:
    """256 bytes."""
    (entries,) = params
    return torch.tensor(entries, dtype=torch.uint8)


def packed_table(entries: tuple[int, ...], emitter: Packer, name: str) -> Buffer:
    return emitter.pack(pack_table, (entries,), [], len(entries), f"table of {name}", U8)
