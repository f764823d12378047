"""What a pattern of one's own is written with; see docs/writing-a-pattern.md.

A :class:`Pattern` starts at an anchor node, gathers a :class:`Match`, is checked (a sentence says no) and lowered: with
the :class:`Emitter` it asks where values lie (:class:`View`) and appends commands, whose offsets are :class:`Operand`.
A :class:`Core` describes what a core of one's own costs.
"""

from fpga_dynamo.codegen.core import Core, register_core, registered_core, unregister_core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.graph import GraphInfo, argument, operand, refuse_float, refuse_value, shape, value
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.view import VEC, View, align, ceil_div
from fpga_dynamo.lowering.patterns import (
    Match,
    Pattern,
    Step,
    anchor_alone,
    follow,
    register_pattern,
    registered,
    sole_user,
    unregister_pattern,
)

__all__ = [
    "VEC",
    "Core",
    "Emitter",
    "GraphInfo",
    "Match",
    "Operand",
    "Operator",
    "Pattern",
    "Step",
    "View",
    "align",
    "anchor_alone",
    "argument",
    "ceil_div",
    "follow",
    "operand",
    "refuse_float",
    "refuse_value",
    "register_core",
    "register_pattern",
    "registered",
    "registered_core",
    "shape",
    "sole_user",
    "unregister_core",
    "unregister_pattern",
    "value",
]
