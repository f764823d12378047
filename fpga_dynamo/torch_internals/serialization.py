"""What PyTorch saves of compiled graphs: artifacts of its caches, and pickled graphs."""

from __future__ import annotations

from collections.abc import Callable

from torch._inductor.output_code import OutputCode
from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager
from torch.fx._graph_pickler import GraphPickler, Options

from fpga_dynamo.errors import FpgaError

__all__ = [
    "CacheArtifact",
    "CacheArtifactFactory",
    "CacheArtifactManager",
    "GraphPickler",
    "OutputCode",
]


def pickler_options(kept: Callable[[str], bool]) -> Options:
    """Of :class:`GraphPickler`: all operators, and of a node's meta the keys that are `kept`.

    Raises :class:`FpgaError` where PyTorch cannot choose among the keys, which is so before 2.11.
    """
    try:
        return Options(ops_filter=None, node_metadata_key_filter=kept)
    except TypeError as error:
        raise FpgaError("aot_compile cannot save graphs with this version of torch; 2.11 and later ones can") from error
