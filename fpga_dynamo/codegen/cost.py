"""Cycles of a command on one compute unit, as sympy formulas over the record's fields and the recipe's tile sizes.

The leading terms of the formulas in ``hls_kernels/cores/*/README.md``, none of them synthesised: the MAC array
makes ROWS x 16 vectors products a cycle, every other core handles one vector of 16 floats a cycle. START is the fetch
and decode of a record and the filling of a core's pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import sympy  # type: ignore[import-untyped]

from fpga_dynamo.ir.command import Command
from fpga_dynamo.ir.sizes.size import larger, value, values
from fpga_dynamo.ir.target import Platform, Target
from fpga_dynamo.ir.view import VEC, align

Fields = Mapping[str, Any]

START = 64
"""Cycles to fetch a record and fill a pipeline: four bus beats of about a dozen cycles and the core's depth."""


TASK_NODES = 7
"""Eager nodes whose overhead is that of a launch among other tasks: the scheduler, addresses, results.

A program that is one launch is called past all of that (runtime/calls/direct.py).
"""


def _symbols(names: str) -> Any:
    return sympy.symbols(names, positive=True, integer=True)


def _formulas() -> dict[str, sympy.Expr]:
    (batch, groups, channels, height, width, out_channels, kernel_h, kernel_w, vectors, rows_tile) = _symbols(
        "batch groups channels height width out_channels kernel_h kernel_w vectors ROWS"
    )
    (b0, b1, rows, columns, depth) = _symbols("b0 b1 rows columns depth")
    (elements, instructions, passes, lanes) = _symbols("elements instructions passes lanes")
    vector_channels = sympy.ceiling(channels / VEC)
    pixels = batch * height * width
    panels = sympy.ceiling(out_channels / (VEC * vectors))
    return {
        "conv2d": groups * sympy.ceiling(pixels / rows_tile) * panels * kernel_h * kernel_w * channels,
        "depthwise": pixels * vector_channels * (kernel_h * kernel_w + 1),
        "gemm": b0 * b1 * sympy.ceiling(rows / rows_tile) * sympy.ceiling(columns / (VEC * vectors)) * depth,
        "attention": _attention_cycles(),
        "pool": pixels * vector_channels * kernel_h * kernel_w,
        "pointwise": sympy.ceiling(elements / VEC) * instructions,
        "reduce": sympy.ceiling(elements / lanes) * passes,
        "move": sympy.ceiling(elements / lanes),
        "gather": sympy.ceiling(elements / lanes),
        "resample": pixels * vector_channels * 4,
        "convert": sympy.ceiling(elements / VEC),
        "winograd": _winograd_cycles(),
    }


def _attention_cycles() -> sympy.Expr:
    """Two products on the MAC array and the three passes of the softmax."""
    b0, b1, rows, keys, width, value_width, rows_tile, vectors = _symbols(
        "b0 b1 rows keys width value_width ROWS MAX_VECTORS"
    )
    panel = VEC * vectors
    products = sympy.ceiling(keys / panel) * width + sympy.ceiling(value_width / panel) * keys
    return b0 * b1 * (sympy.ceiling(rows / rows_tile) * products + 3 * rows * sympy.ceiling(keys / VEC))


def _winograd_cycles() -> sympy.Expr:
    """Steps of the MAC array, the weights that come from far meanwhile, and the transforms.

    The weights are the larger half for images of few tiles. What they weigh against each other: WinogradCosts.
    """
    batch, height, width, channels, panels, vectors, rows_tile, size, block = _symbols(
        "batch height width channels panels vectors ROWS tile_size block"
    )
    step, weight, exposed, transform, start = sympy.symbols("step weight exposed transform start", positive=True)
    elements = (size + 2) ** 2
    tiles = batch * sympy.ceiling(height / size) * sympy.ceiling(width / size)
    products = elements * tiles / rows_tile * panels * channels * step
    weights = elements * panels * channels * vectors * sympy.ceiling(tiles / (rows_tile * block)) * weight
    transforms = elements * tiles * (sympy.ceiling(channels / VEC) + panels * vectors) * transform
    return sympy.Max(products, weights) + sympy.Min(products, weights) * exposed + transforms + start * elements


@dataclass(frozen=True)
class WinogradCosts:
    """Parts of Winograd's method, in steps of a direct convolution on the MAC array.

    step: a step of its products. weight: a vector of weights, which come from far. exposed: what the smaller of these
    two terms adds, where 0 is all hidden by the larger. transform: a vector of a transformed patch or product.
    start: each element's product.
    """

    step: float
    weight: float
    exposed: float
    transform: float
    start: float


WIDE_COSTS = WinogradCosts(6 / 5, 13 / 20, 3 / 5, 1 / 7, 60)
"""Fitted to times of the software card with AVX-512."""
NARROW_COSTS = WinogradCosts(1, 3 / 5, 1 / 4, 1 / 3, 24)
"""The same with AVX2, where a step takes twice as long, and so hides more of the weights."""


def winograd_costs(target: Target) -> WinogradCosts:
    return NARROW_COSTS if target.plan == "x86-64-v3" else WIDE_COSTS


FORMULAS: Mapping[str, sympy.Expr] = _formulas()
"""Cycles per opcode, without START."""


@cache
def _compiled(opcode: str) -> tuple[tuple[str, ...], Callable[..., Any]]:
    formula = FORMULAS[opcode]
    names = sorted(str(symbol) for symbol in formula.free_symbols)
    return tuple(names), sympy.lambdify(names, formula, "math")


_REDUCE_PASSES = {
    "REDUCE_SOFTMAX": 3,
    "REDUCE_LOG_SOFTMAX": 3,
    "REDUCE_NORM": 3,
    "REDUCE_RMS_NORM": 2,
    "REDUCE_MOMENTS": 2,
}


def annotate(command: Command, target: Target) -> Any:
    """Fills in the command's cycles and the bytes that it moves to and from device memory, at the sizes' hints.

    Returns the bytes as a function of the sizes.
    """
    quantities = _quantities(command.opcode, command.fields, target)
    command.cycles = _cycles(command.opcode, values(quantities), target)
    moved = 4 * quantities["moved"]
    command.bytes = value(moved)
    return moved


def cycles(opcode: str, fields: Fields, target: Target) -> float:
    """Cycles of a command with the given fields on one compute unit."""
    return _cycles(opcode, _quantities(opcode, fields, target), target)


def _cycles(opcode: str, quantities: Mapping[str, float], target: Target) -> float:
    if opcode not in FORMULAS:
        return START + quantities["elements"] / VEC
    names, formula = _compiled(opcode)
    known = {"ROWS": target.tiles["ROWS"], "MAX_VECTORS": target.tiles["MAX_VECTORS"], **quantities}
    return START + float(formula(*[known[name] for name in names]))


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


# --- quantities of the formulas from the fields -----------------------------------------------------------------------


def _quantities(opcode: str, f: Fields, target: Target) -> dict[str, float]:
    return _QUANTITIES.get(opcode, _unknown)(f, target)


def _window(f: Fields) -> dict[str, float]:
    kernel = f.get("kernel", (1, 1))
    return {
        "batch": f["batch"],
        "height": f["out_height"],
        "width": f["out_width"],
        "kernel_h": larger(kernel[0], 1),
        "kernel_w": larger(kernel[1], 1),
    }


def _conv2d(f: Fields, target: Target) -> dict[str, float]:
    channels, out = f["in_channels"], f["out_channels"]
    inputs = f["batch"] * f["groups"] * channels * f["in_height"] * f["in_width"]
    outputs = f["batch"] * f["groups"] * out * f["out_height"] * f["out_width"]
    weights = f["groups"] * channels * out * f["kernel"][0] * f["kernel"][1]
    return _window(f) | {
        "groups": f["groups"],
        "channels": channels,
        "out_channels": out,
        "vectors": f["vectors"],
        "moved": inputs + outputs + weights,
    }


def _winograd(f: Fields, target: Target) -> dict[str, float]:
    channels, vectors = f["in_channels"], f["vectors"]
    panels = -(-f["out_channels"] // (VEC * vectors))
    inputs = f["batch"] * channels * f["in_height"] * f["in_width"]
    outputs = f["batch"] * f["out_channels"] * f["out_height"] * f["out_width"]
    elements = (f["tile_size"] + 2) ** 2
    return _window(f) | {
        "channels": channels,
        "panels": panels,
        "vectors": vectors,
        "tile_size": f["tile_size"],
        "block": max(winograd_block(f["tile_size"], channels, vectors, target), 1),
        "moved": inputs + outputs + elements * channels * panels * vectors * VEC,
        **asdict(winograd_costs(target)),
    }


def winograd_block(tile_size: int, channels: int, vectors: int, target: Target) -> int:
    """Groups of ROWS tiles that the core works on together (cores/winograd); 0 if its local arrays hold none."""
    tiles, elements = target.tiles, (tile_size + 2) ** 2
    bank = tiles["WINOGRAD_INPUT_FLOATS"] // tiles["ROWS"] // VEC * VEC
    patches = (bank // elements - VEC) // align(channels)
    products = (tiles["WINOGRAD_PRODUCT_FLOATS"] // (elements * VEC) - 1) // vectors
    return max(min(patches, products // tiles["ROWS"]), 0)


def _channelwise(f: Fields, target: Target) -> dict[str, float]:
    if f.get("adaptive"):
        kernel = (-(-f["in_height"] // f["out_height"]), -(-f["in_width"] // f["out_width"]))
        f = {**f, "kernel": kernel}
    pixels = f["in_height"] * f["in_width"] + f["out_height"] * f["out_width"]
    return _window(f) | {"channels": f["channels"], "moved": f["batch"] * f["channels"] * pixels}


def _gemm(f: Fields, target: Target) -> dict[str, float]:
    batch = f["batch"][0] * f["batch"][1]
    rows, columns, depth = f["rows"], f["columns"], f["depth"]
    weights = depth * columns * (1 if f.get("b_packed") else batch)
    return {
        "b0": f["batch"][0],
        "b1": f["batch"][1],
        "rows": rows,
        "columns": columns,
        "depth": depth,
        "vectors": f["vectors"],
        "moved": batch * (rows * depth + rows * columns) + weights,
    }


def _attention(f: Fields, target: Target) -> dict[str, float]:
    batch = f["batch"][0] * f["batch"][1]
    rows, keys, width, value_width = f["rows"], f["keys"], f["width"], f["value_width"]
    masked = rows * keys if f.get("mask") is not None else 0
    return {
        "b0": f["batch"][0],
        "b1": f["batch"][1],
        "rows": rows,
        "keys": keys,
        "width": width,
        "value_width": value_width,
        "moved": batch * ((rows + keys) * (width + value_width) + masked),
    }


def _product(values: Any) -> int:
    count = 1
    for v in values:
        count *= v
    return count


def _pointwise(f: Fields, target: Target) -> dict[str, float]:
    elements = _product(f["dims"])
    return {
        "elements": elements,
        "instructions": max(f["instructions"], 1),
        "moved": elements * (f["inputs"] + f["outputs"]),
    }


def _reduce(f: Fields, target: Target) -> dict[str, float]:
    elements = _product(f["kept"]) * _product(f["reduced"])
    name = next((k for k, v in target.enums.items() if k.startswith("REDUCE_") and v == f["kind"]), "")
    passes = _REDUCE_PASSES.get(name, 1)
    return {"elements": elements, "lanes": VEC, "passes": passes, "moved": elements * 2 if passes > 1 else elements}


def _move(f: Fields, target: Target) -> dict[str, float]:
    elements = _product(f["dims"])
    wide = value(f["out_stride"][-1]) == 1 and (f.get("input") is None or value(f["in_stride"][-1]) in (0, 1))
    return {"elements": elements, "lanes": VEC if wide else 1, "moved": 2 * elements}


def _gather(f: Fields, target: Target) -> dict[str, float]:
    elements = _product(f["dims"])
    wide = all(value(f[stride][-1]) == unit for stride, unit in _UNIT_STRIDES)
    return {"elements": elements, "lanes": VEC if wide else 1, "moved": 2 * elements}


def _convert(f: Fields, target: Target) -> dict[str, float]:
    wide = {target.enums["FORMAT_BF16"]: 2, target.enums["FORMAT_F16"]: 2}
    return {"elements": f["count"], "moved": f["count"] + f["count"] // wide.get(f["format"], 4)}


_UNIT_STRIDES = (("out_stride", 1), ("table_stride", 1), ("index_stride", 0))


def _unknown(f: Fields, target: Target) -> dict[str, float]:
    elements = _product(f["dims"]) if isinstance(f.get("dims"), tuple) else 1
    return {"elements": elements, "moved": 2 * elements}


_QUANTITIES: Mapping[str, Callable[[Fields, Target], dict[str, float]]] = {
    "conv2d": _conv2d,
    "depthwise": _channelwise,
    "gemm": _gemm,
    "attention": _attention,
    "pool": _channelwise,
    "pointwise": _pointwise,
    "reduce": _reduce,
    "move": _move,
    "gather": _gather,
    "resample": _channelwise,
    "winograd": _winograd,
    "convert": _convert,
}
