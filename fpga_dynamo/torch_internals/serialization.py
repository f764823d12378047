"""What PyTorch saves of compiled graphs: artifacts of its caches, and pickled graphs."""

from torch._inductor.output_code import OutputCode
from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager
from torch.fx._graph_pickler import GraphPickler
from torch.fx._graph_pickler import Options as PicklerOptions

__all__ = [
    "CacheArtifact",
    "CacheArtifactFactory",
    "CacheArtifactManager",
    "GraphPickler",
    "OutputCode",
    "PicklerOptions",
]
