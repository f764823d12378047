"""``torch.compile(model, backend="fpga")`` for FPGA cards driven by XRT, with or without a card.

The public API is what `__all__` of this module and of `fpga_dynamo.patterns`, `fpga_dynamo.signal` and
`fpga_dynamo.quantize` names. A name is imported on first use, so ``import fpga_dynamo`` does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fpga_dynamo import after_torch

if TYPE_CHECKING:
    from fpga_dynamo import signal
    from fpga_dynamo.codegen.core import Core, register_core, unregister_core
    from fpga_dynamo.deployment.errors import ExportError, ModelFileError
    from fpga_dynamo.deployment.export import export, save
    from fpga_dynamo.deployment.loaded import LoadedModel, load
    from fpga_dynamo.errors import (
        ArgumentError,
        DeviceError,
        FpgaError,
        NotLoweredError,
        OptionError,
        PatternError,
        VerificationError,
        XclbinError,
    )
    from fpga_dynamo.frontend.backend import fpga, refresh_weights
    from fpga_dynamo.frontend.flat_parameters import join_parameters
    from fpga_dynamo.frontend.plain_kernels.define import kernel
    from fpga_dynamo.lowering.patterns import Match, Pattern, Step, register_pattern, unregister_pattern
    from fpga_dynamo.options import Options
    from fpga_dynamo.runtime.cards.target import target_of
    from fpga_dynamo.runtime.observe.counters import reset_stats, stats
    from fpga_dynamo.runtime.observe.trace import TraceRecorder as trace
    from fpga_dynamo.tools.devices import DeviceReport, devices
    from fpga_dynamo.tools.explain import explain
    from fpga_dynamo.tools.explain_text import Explanation
    from fpga_dynamo.tools.task_graph import task_graph

__version__ = "0.1.0"
"""The version of this package; the build reads it here."""

__all__ = [
    "ArgumentError",
    "Core",
    "DeviceError",
    "DeviceReport",
    "Explanation",
    "ExportError",
    "FpgaError",
    "LoadedModel",
    "Match",
    "ModelFileError",
    "NotLoweredError",
    "OptionError",
    "Options",
    "Pattern",
    "PatternError",
    "Step",
    "VerificationError",
    "XclbinError",
    "__version__",
    "devices",
    "explain",
    "export",
    "fpga",
    "join_parameters",
    "kernel",
    "load",
    "refresh_weights",
    "register_core",
    "register_pattern",
    "reset_stats",
    "save",
    "signal",
    "stats",
    "target_of",
    "task_graph",
    "trace",
    "unregister_core",
    "unregister_pattern",
]

_DEFINED_IN = {
    "ArgumentError": "errors",
    "Core": "codegen.core",
    "DeviceError": "errors",
    "DeviceReport": "tools.devices",
    "Explanation": "tools.explain_text",
    "ExportError": "deployment.errors",
    "FpgaError": "errors",
    "LoadedModel": "deployment.loaded",
    "Match": "lowering.patterns",
    "ModelFileError": "deployment.errors",
    "NotLoweredError": "errors",
    "OptionError": "errors",
    "Options": "options",
    "Pattern": "lowering.patterns",
    "PatternError": "errors",
    "Step": "lowering.patterns",
    "VerificationError": "errors",
    "XclbinError": "errors",
    "devices": "tools.devices",
    "explain": "tools.explain",
    "export": "deployment.export",
    "fpga": "frontend.backend",
    "join_parameters": "frontend.flat_parameters",
    "kernel": "frontend.plain_kernels.define",
    "load": "deployment.loaded",
    "refresh_weights": "frontend.backend",
    "register_core": "codegen.core",
    "register_pattern": "lowering.patterns",
    "reset_stats": "runtime.observe.counters",
    "save": "deployment.export",
    "stats": "runtime.observe.counters",
    "target_of": "runtime.cards.target",
    "task_graph": "tools.task_graph",
    "trace": "runtime.observe.trace",
    "unregister_core": "codegen.core",
    "unregister_pattern": "lowering.patterns",
}
"""The modules that define the names above."""
_CALLED_THERE = {"trace": "TraceRecorder"}

# Entries of the cache are a kind of PyTorch's cache artifacts, which `torch.compiler.load_cache_artifacts` must know.
after_torch.load("fpga_dynamo.cache.artifacts")

if not TYPE_CHECKING:  # for a type checker an unknown name is an error

    def __getattr__(name: str) -> Any:
        if name == "signal":
            return import_module("fpga_dynamo.signal")
        if name not in _DEFINED_IN:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_DEFINED_IN[name]}"), _CALLED_THERE.get(name, name))
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
