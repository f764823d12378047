"""Compiled programs on disk, so that a second process lowers nothing.

Two kinds of entry, both named by a hash of all that they depend on (keys.py) and written as plain data (plain.py):

- a *program*: what lowering decided about one ATen graph (programs.py, cached.py);
- a *trace*: the ATen graph that AOTAutograd made of one of Dynamo's graphs, for inference without mutation or aliasing,
  where AOTAutograd's wrappers do nothing (traces.py). With it, a warm start does not trace either.

The files are checksummed and replaced as a whole (store.py); nothing in them is executed or unpickled. PyTorch's own
cache for AOTAutograd is not used, because it unpickles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fpga_dynamo.cache.cached import lower_cached
    from fpga_dynamo.cache.traces import Trace

__all__ = ["Trace", "lower_cached"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Loads the compiler on first use: ``import torch`` needs the artifacts of this package, and nothing else."""
        if name == "lower_cached":
            from fpga_dynamo.cache.cached import lower_cached

            return lower_cached
        if name == "Trace":
            from fpga_dynamo.cache.traces import Trace

            return Trace
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
