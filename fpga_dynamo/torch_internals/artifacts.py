"""Artifacts of PyTorch's caches. Apart from ``serialization``, as every ``import torch`` loads them."""

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

__all__ = ["CacheArtifact", "CacheArtifactFactory", "CacheArtifactManager"]
