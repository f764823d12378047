"""Pass: a graph with symbolic sizes, traced again for the sizes of one call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter
from torch.fx.traceback import preserve_node_meta

from fpga_dynamo.lowering.tracing.decompose import kept_whole
from fpga_dynamo.lowering.tracing.strides import settle_strides
from fpga_dynamo.torch_internals.tracing import DATA_DEPENDENT, traced

log = logging.getLogger(__name__)


def has_symbols(module: GraphModule) -> bool:
    """Whether a graph input has a size, or is a number, that changes from call to call."""
    for node in module.graph.nodes:
        if node.op != "placeholder":
            return False
        fake = node.meta.get("val")
        if isinstance(fake, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return True
        if isinstance(fake, torch.Tensor) and any(isinstance(s, torch.SymInt) for s in (*fake.shape, *fake.stride())):
            return True
    return False


def specialised(module: GraphModule, args: Sequence[Any]) -> GraphModule:
    """`module` with the sizes and numbers of `args` written in; placeholders keep their places.

    Where a size depends on data (nonzero) and tracing asks for it, the symbolic graph is returned: what has such sizes
    runs in eager.
    """
    with preserve_node_meta(), kept_whole():
        try:
            made = traced(Interpreter(module).run, args)
        except DATA_DEPENDENT as error:
            log.info("a graph cannot be specialised: %s", error)
            return module
    settle_strides(made)
    return made
