"""Cycles of a command on one compute unit, bytes that it moves, and seconds of what runs elsewhere.

What a core's commands cost is said where the core is registered (core.py): the leading terms of the formulas in
``hls_kernels/cores/*/README.md``, none of them synthesised. The MAC array makes ROWS x 16 vectors products a cycle,
every other core handles one vector of 16 floats a cycle. START is the fetch and decode of a record and the filling of a
core's pipeline.
"""

from __future__ import annotations

from fpga_dynamo.codegen.core import CORES
from fpga_dynamo.ir.command import Command, Record
from fpga_dynamo.ir.sizes.size import Number, value
from fpga_dynamo.ir.target import Platform, Target

START = 64
"""Cycles to fetch a record and fill a pipeline: four bus beats of about a dozen cycles and the core's depth."""

TASK_NODES = 7
"""Eager nodes whose overhead is that of a launch among other tasks: the scheduler, addresses, results.

A program that is one launch is called past all of that (runtime/calls/direct.py).
"""


def annotate(command: Command, target: Target) -> Number:
    """Fills in the command's cycles and the bytes that it moves to and from device memory, at the sizes' hints.

    Returns the bytes as a function of the sizes.
    """
    moved = 4 * CORES.moved(command.record, target)
    command.cycles = cycles(command.record, target)
    command.bytes = value(moved)
    return moved


def cycles(record: Record, target: Target) -> float:
    """Cycles of a command with the given fields on one compute unit."""
    return START + CORES.cycles(record, target)


def command_seconds(cycles: float, platform: Platform) -> float:
    return cycles / platform.clock_hz


def task_seconds(platform: Platform) -> float:
    """Time of the host for a launch that is not the only task of its program."""
    return TASK_NODES * platform.ps_node_seconds


def transfer_seconds(count: int, platform: Platform) -> float:
    """Time of one copy of `count` bytes between host and card."""
    return count / platform.transfer_bytes


def ps_seconds(flops: float, moved: float, platform: Platform) -> float:
    """Time of an eager node: dispatch, and the slower of arithmetic and memory."""
    return platform.ps_node_seconds + max(flops / platform.ps_flops, moved / platform.ps_bytes)
