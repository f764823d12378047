"""Float32 values that an int8 engine quantizes, and integers that it scales: the borders of a graph."""

from __future__ import annotations

import math
from dataclasses import replace

from torch.fx import Node

from fpga_dynamo.ir.graph import operand
from fpga_dynamo.ir.quantised import Scale
from fpga_dynamo.ir.view import View

from .copies import CopyEmitter
from .maps import Map, RefusedError
from .vector import VectorCommand, VectorOperation, float32

_LINES = 1 << 16
"""Of int8, that a command casts at most."""


class CastEmitter(CopyEmitter):
    """Casts: a map becomes one of another type, whose elements lie alike.

    given: the maps that the host writes for a node, each in the order that some of its readers ask for.
    rounded: float32 that the host writes and a command quantizes, in whatever order its readers ask for.
    """

    given: dict[Node, list[Map]]
    rounded: dict[Node, Scale]

    def dequantize(self, view: View, scale: Scale) -> View:
        """A command that scales the map of a view."""
        of = view.buffer
        assert isinstance(of, Map)
        command = VectorCommand(
            operation=VectorOperation.DEQUANTIZE, row_scale=_factor(scale.scale), input_zero=scale.zero
        )
        return replace(view, buffer=self._cast(of, of.cast(self.sizes, of.name, wide=True), command))

    def quantize(self, view: View, scale: Scale) -> View:
        """A command that quantizes the float32 map of a view."""
        of = view.buffer
        assert isinstance(of, Map)
        return replace(view, buffer=self._rounded(of, of.cast(self.sizes, of.name, wide=False), scale))

    def give(self, node: Node, of: Map) -> None:
        """Has the host write a map for the value of `node`; or its input, which a command quantizes."""
        if node not in self.rounded:
            self.given.setdefault(node, []).append(of)
            return
        source, reals = operand(node, 0), of.cast(self.sizes, of.name, wide=True)
        known = self.given.setdefault(source, [])
        found = next((other for other in known if other.lies_as(reals)), None)
        if found is None:
            found = reals
            known.append(found)
        reader = self._node, self._pattern
        self._node, self._pattern = node, "quantize"
        self._rounded(found, of, self.rounded[node])
        self._node, self._pattern = reader

    def _rounded(self, reals: Map, out: Map, scale: Scale) -> Map:
        command = VectorCommand(
            operation=VectorOperation.QUANTIZE,
            row_scale=_factor(1.0 / scale.scale),
            zero=scale.zero,
            low=scale.low,
            high=scale.high,
        )
        return self._cast(reals, out, command)

    def _cast(self, x: Map, out: Map, command: VectorCommand) -> Map:
        """Commands that cast all of a map; answers `out`, which they write. Of several units each has some heads."""
        beat, lines, units = self.sizes.beat, min(x.lines, out.lines), self.engine.units
        for first in range(0, lines, _LINES):
            count = min(_LINES, lines - first)
            heads = next((n for n in range(units, 4 * units) if count % n == 0), 1)
            of_x, of_out = (count // heads * (beat if of.wide else 1) for of in (x, out))
            self._append_vector(
                replace(
                    command,
                    channels=16,
                    pixels=of_out * beat,
                    taken=(of_x * beat, 0),
                    heads=(1, heads),
                    input_head=(0, of_x),
                    output_head=(0, of_out),
                    input=self.place(x) + first * (beat if x.wide else 1),
                    input_after=self.after(x),
                    output=self.place(out) + first * (beat if out.wide else 1),
                )
            )
        self.written(out)
        return out


def _factor(x: float) -> float:
    """A factor as commands have it."""
    found = float32(x)
    if not math.isfinite(found) or abs(found) < 1.2e-38:
        raise RefusedError(f"the quantization scale is beyond float32: a factor of {x:g}")
    return found
