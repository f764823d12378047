"""Nested containers as lists of leaves."""

from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

__all__ = ["tree_flatten", "tree_leaves", "tree_map"]
