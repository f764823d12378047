"""What PyTorch saves of compiled graphs: artifacts of its caches, and pickled graphs."""

from __future__ import annotations

from collections.abc import Callable

from torch._inductor.output_code import OutputCode
from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager
from torch.fx._graph_pickler import GraphPickler, Options

__all__ = [
    "CacheArtifact",
    "CacheArtifactFactory",
    "CacheArtifactManager",
    "GraphPickler",
    "OutputCode",
]


def pickler_options(kept: Callable[[str], bool]) -> Options:
    """Of :class:`GraphPickler`: all operators, and of a node's meta the keys that are `kept`."""
    return Options(ops_filter=None, node_metadata_key_filter=kept)
