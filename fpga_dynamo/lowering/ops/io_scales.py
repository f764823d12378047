"""What a command that computes in float32 reads and writes: floats, or bytes that stand for floating-point values.

The numbers are those of a dequantising command in front of it and a quantising one behind it
(hls_kernels/lib/int8/real.hpp). Which operators have such ends in a quantised graph: quantised/float_operators.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.elements import F32, Element
from fpga_dynamo.ir.quantised import Scale
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import View


class EndFields(TypedDict):
    """The fields of both ends in a record."""

    in_format: int
    in_zero: int
    in_scale: float
    out_format: int
    out_zero: int
    out_low: int
    out_high: int
    out_inverse: float


@dataclass(frozen=True)
class InputOutputScales:
    """The scales of input and output; None where these are floats."""

    read: Scale | None = None
    written: Scale | None = None

    @property
    def element(self) -> Element:
        """What the result lies on the card as."""
        return F32 if self.written is None else self.written.element

    def fields(self, x: View, y: View, emitter: Emitter) -> EndFields:
        """Of a command from x to y."""
        read, written = self.read, self.written
        return {
            "in_format": emitter.format_of(x),
            "in_zero": 0 if read is None else read.zero,
            "in_scale": 0.0 if read is None else read.scale,
            "out_format": emitter.format_of(y),
            "out_zero": 0 if written is None else written.zero,
            "out_low": 0 if written is None else written.low,
            "out_high": 0 if written is None else written.high,
            "out_inverse": 0.0 if written is None else 1.0 / written.scale,
        }


FLOATS = InputOutputScales()


def takes_bytes(target: Target, opcode: str) -> bool:
    """Whether the core of an opcode has such ends: older ones read and write floats alone."""
    return any(field.name == "out_inverse" for field in target.records.get(opcode, ()))
