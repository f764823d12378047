"""``torch.compile(model, backend="fpga")`` for FPGA cards driven by XRT, with or without a card."""

from fpga_dynamo import signal
from fpga_dynamo.codegen.core import Core, register_core, unregister_core
from fpga_dynamo.errors import (
    DeviceError,
    FpgaError,
    NotLoweredError,
    OptionError,
    PatternError,
    VerificationError,
    XclbinError,
)
from fpga_dynamo.frontend.backend import fpga, refresh_weights
from fpga_dynamo.frontend.join import join_parameters
from fpga_dynamo.lowering.patterns import Match, Pattern, Step, register_pattern, unregister_pattern
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.observe.counters import reset_stats, stats
from fpga_dynamo.runtime.observe.trace import TraceRecorder as trace
from fpga_dynamo.tools.devices import DeviceReport, devices
from fpga_dynamo.tools.explain import Explanation, explain
from fpga_dynamo.tools.task_graph import task_graph

__all__ = [
    "Core",
    "DeviceError",
    "DeviceReport",
    "Explanation",
    "FpgaError",
    "Match",
    "NotLoweredError",
    "OptionError",
    "Options",
    "Pattern",
    "PatternError",
    "Step",
    "VerificationError",
    "XclbinError",
    "devices",
    "explain",
    "fpga",
    "join_parameters",
    "refresh_weights",
    "register_core",
    "register_pattern",
    "reset_stats",
    "signal",
    "stats",
    "task_graph",
    "trace",
    "unregister_core",
    "unregister_pattern",
]
