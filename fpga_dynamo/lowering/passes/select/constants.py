"""What lowering may know of values: those of nodes that depend on the graph's constants alone."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.fx import Node

from fpga_dynamo.ir.dtypes import OutOfRangeError, to_int32
from fpga_dynamo.ir.graph import GraphInfo, value
from fpga_dynamo.ir.weights import expression
from fpga_dynamo.torch_internals.dispatch import without_modes


def refuse_constants(nodes: Iterable[Node], graph: GraphInfo, known: dict[Node, bool]) -> str | None:
    """Why the card cannot hold a constant that `nodes` read, or None. `known` keeps what is found of each.

    A parameter or an input is looked at when it is packed or copied, as it may change from call to call.
    """
    own = set(nodes)
    read = {source for node in own for source in node.all_input_nodes} - own
    for source in read & graph.static:
        fake = value(source)
        if not isinstance(fake, torch.Tensor) or fake.dtype is not torch.int64:
            continue
        if source not in known:
            known[source] = _fits(source, graph)
        if not known[source]:
            return f"operand {source} is a constant out of range for int32, the device's integer type"
    return None


def _fits(node: Node, graph: GraphInfo) -> bool:
    formula = expression(node, graph)
    if any(source.op != "get_attr" for source in formula.sources):
        return True
    with without_modes():
        constants = {source: graph.constant(source) for source in formula.sources}
        try:
            to_int32(formula.evaluate(constants))
        except OutOfRangeError:
            return False
        except Exception:  # eager says at the call what is wrong with it
            return True
    return True
