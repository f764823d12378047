"""What PyTorch saves of compiled graphs: pickled graphs, and the code that runs them."""

from __future__ import annotations

from collections.abc import Callable

from torch._inductor.output_code import OutputCode
from torch.fx._graph_pickler import GraphPickler, Options

__all__ = [
    "GraphPickler",
    "OutputCode",
]


def pickler_options(kept: Callable[[str], bool]) -> Options:
    """Of :class:`GraphPickler`: all operators, and of a node's meta the keys that are `kept`."""
    return Options(ops_filter=None, node_metadata_key_filter=kept)
