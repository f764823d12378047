"""Compiled programs on disk, so that a second process lowers nothing.

Two kinds of entry, both named by a hash of all that they depend on (keys.py) and written as plain data (plain.py):

- a *program*: what lowering decided about one ATen graph (programs.py, cached.py);
- a *trace*: the ATen graph that AOTAutograd made of one of Dynamo's graphs, for inference without mutation or aliasing,
  where AOTAutograd's wrappers do nothing (traces.py). With it, a warm start does not trace either.

The files are checksummed and replaced as a whole (store.py); nothing in them is executed or unpickled. PyTorch's own
cache for AOTAutograd is not used, because it unpickles.
"""

from fpga_dynamo.cache.cached import lower_cached
from fpga_dynamo.cache.traces import Trace

__all__ = ["Trace", "lower_cached"]
