"""The core of matrix products, which linear layers, batched products, pixels and weights' gradients come down to.

Core: hls_kernels/cores/gemm.
"""

from __future__ import annotations

from fpga_dynamo.codegen.core import CORES, Bands, Core
from fpga_dynamo.ir.command import FieldValue, ImageRows
from fpga_dynamo.ir.records import Gemm
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, ceil_div, numel
from fpga_dynamo.lowering.ops.packing import weight_words


def _tiles(c: Gemm, target: Target) -> int:
    """Tiles of the MAC array that the results are."""
    return numel(c.batch) * ceil_div(c.rows, target.tiles["ROWS"]) * ceil_div(c.columns, VEC * c.vectors)


def _floats(c: Gemm, target: Target) -> int:
    batch = numel(c.batch)
    weights = weight_words(c.depth * c.columns * (1 if c.b_packed else batch), c.b_format, target)
    return batch * (c.rows * c.depth + c.rows * c.columns) + weights


def _cut(c: Gemm, image: ImageRows, begin: int, end: int) -> dict[str, FieldValue]:
    """Where the matrix's rows are the pixels of an image."""
    return {"rows": c.rows // image.count * (end - begin)}


GEMM = CORES.add(
    Core[Gemm](
        Gemm.opcode,
        cycles=lambda c, target: _tiles(c, target) * c.depth,
        moved=_floats,
        parts=_tiles,
        bands=Bands("a", _cut),
        zero_copy=True,
    )
)
