"""Importing this makes `fpga_dynamo` a package without its __init__, and so without torch.

Importing torch takes longer than most of what the driver's tests do in a process of their own.
"""

from __future__ import annotations

import importlib.util
import sys
import types

_spec = importlib.util.find_spec("fpga_dynamo")
assert _spec is not None and _spec.submodule_search_locations is not None
_package = types.ModuleType("fpga_dynamo")
_package.__path__ = _spec.submodule_search_locations
sys.modules["fpga_dynamo"] = _package
