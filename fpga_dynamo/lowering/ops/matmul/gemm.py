"""The core of matrix products, which linear layers, batched products, pixels and weights' gradients come down to.

Core: hls_kernels/cores/gemm.
"""

from __future__ import annotations

from fpga_dynamo.codegen.core import CORES, Bands, Core, Fields
from fpga_dynamo.ir.command import FieldValue, ImageRows
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, ceil_div, numel
from fpga_dynamo.lowering.ops.packing import weight_words


def _tiles(f: Fields, target: Target) -> int:
    """Tiles of the MAC array that the results are."""
    return numel(f["batch"]) * ceil_div(f["rows"], target.tiles["ROWS"]) * ceil_div(f["columns"], VEC * f["vectors"])


def _floats(f: Fields, target: Target) -> int:
    batch = numel(f["batch"])
    weights = weight_words(f["depth"] * f["columns"] * (1 if f.get("b_packed") else batch), f.get("b_format"), target)
    return batch * (f["rows"] * f["depth"] + f["rows"] * f["columns"]) + weights


def _cut(f: Fields, image: ImageRows, begin: int, end: int) -> dict[str, FieldValue]:
    """Where the matrix's rows are the pixels of an image."""
    return {"rows": f["rows"] // image.count * (end - begin)}


GEMM = CORES.add(
    Core(
        "gemm",
        cycles=lambda f, target: _tiles(f, target) * f["depth"],
        moved=_floats,
        parts=_tiles,
        bands=Bands("a", _cut),
        redirects=True,
    )
)
