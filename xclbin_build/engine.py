"""Sizes of the dataflow engine of a kernel: the table of a recipe, and the header that its sources include.

The keys of `[kernel.engine]`, each with an example:

* `engine = "8x32x16"`: pixels x output channels x input channels of the array
* `element = "int8"`: or "bfloat16", "float32"
* `lanes = 64`: lanes of the epilogue; by default enough for 4 steps a tile
* `window = 2048`: words of 16 channels in each of the window's banks
* `weights = 1024`: steps of the array in a memory of weights
* `tiles = 64`: tiles of output channels whose parameters lie there with them
* `taps = 128`: positions of a kernel
* `port_bits = 512`: width of the ports of input and weights; 128 if the memory's ports have no more
* `storage = "uram"`: memory of the window and the weights; or "bram"
* `vector_lanes = 16`: lanes of the vector side: 2, 4, 8, or 16 for int8; 0 without a vector side
* `vector_depth = 512`: words of 16 channels in each of its memories
* `vector_blocks = 32`: blocks of 16 channels whose gamma and beta it holds
* `row_sums = true`: whether a feature map as second operand (attention's keys and values) may have a zero point
* `partial_sums = true`: whether layers that exceed the memories are cut into several commands
* `gather = true`: whether the vector side of an int8 engine copies words of feature maps in any order
* `casts = true`: whether that vector side quantizes float32 inputs and scales int8 results; else the host does
* `activations = true`: whether a bfloat16 engine applies functions such as SiLU by table; int8 always does
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

from .errors import RecipeError, did_you_mean
from .escape import cpp_comment
from .toml_table import Table

KEYS = (
    "engine", "element", "lanes", "window", "weights", "tiles", "taps", "port_bits", "storage",
    "vector_lanes", "vector_depth", "vector_blocks", "gather", "casts", "row_sums", "partial_sums",
    "activations",
)  # fmt: skip
OPCODES = ("mac", "vector")
ELEMENTS = ("int8", "bfloat16", "float32")
HEADER = "engine_config.hpp"
MOST_PIXELS = 16
OUTPUT_CHANNELS = (16, 32)
VECTOR_LANES = {"int8": (0, 2, 4, 8, 16), "bfloat16": (0, 2, 4, 8), "float32": (0, 2, 4, 8)}
_ARRAY = re.compile(r"(\d{1,2})x(\d{1,2})x(\d{1,2})")


@dataclass(frozen=True)
class Engine:
    """The constants of hls_kernels/engine/config.hpp, by the names that a manifest has them under."""

    pixels: int
    out_channels: int
    in_channels: int
    element: str
    lanes: int
    window_rows: int
    weight_steps: int
    set_tiles: int
    taps: int
    port_bytes: int
    uram: bool
    vector_lanes: int
    vector_depth: int
    vector_blocks: int
    row_sums: bool = True
    partial_sums: bool = True
    activations: bool = True
    gather: bool = False
    casts: bool = False

    @property
    def opcodes(self) -> tuple[str, ...]:
        """What its commands are called."""
        return OPCODES if self.vector_lanes else OPCODES[:1]

    def header(self, recipe: str, peers: int = 1, banks: int = 1) -> str:
        """The header that the engine's sources include under the name ENGINE_CONFIG.

        peers: compute units that share each command, whose maps lie in so many banks.
        """
        values = asdict(self) | {"element": ELEMENTS.index(self.element)}
        if peers > 1:
            values |= {"cus": peers, "banks": banks}
        origin = f"// Made by xclbin_build from recipe '{cpp_comment(recipe)}': do not edit. Sizes of the engine."
        lines = [origin, "#pragma once"]
        lines += [f"#define ENGINE_{name.upper()} {int(value)}" for name, value in values.items()]
        return "\n".join(lines) + "\n"


def input_channels(element: str) -> tuple[int, ...]:
    """Sizes of an array along its input channels."""
    return (16,) if element == "int8" else tuple(n for n in (2, 4, 8, 16) if n << ELEMENTS.index(element) >= 4)


def epilogue_lanes(element: str, pixels: int) -> list[int]:
    """Numbers of lanes of an epilogue: the words of 16 channels of a group of pixels pass in equal parts."""
    return [n for n in (16, 32, 64) if n << ELEMENTS.index(element) <= 64 and pixels % (n // 16) == 0]


def parse(table: Table) -> Engine:
    """The engine that a kernel's table describes.

    Raises RecipeError, naming the key, for an array or sizes that the sources do not allow.
    """
    array = _ARRAY.fullmatch(table.get("engine", str))
    if not array:
        raise RecipeError(
            f"{table.where}: 'engine' must be pixels x output channels x input channels, such as \"8x32x16\"."
        )
    pixels, out_channels, in_channels = (int(size) for size in array.groups())
    element = table.get("element", str, "int8")
    if element not in ELEMENTS:
        raise RecipeError(f"{table.where}: unknown 'element' '{element}'; {did_you_mean(element, ELEMENTS)}")
    if not 1 <= pixels <= MOST_PIXELS:
        raise RecipeError(f"{table.where}: an array must have 1 to {MOST_PIXELS} pixels, not {pixels}.")
    if out_channels not in OUTPUT_CHANNELS:
        raise RecipeError(f"{table.where}: an array must have 16 or 32 output channels, not {out_channels}.")
    inputs = input_channels(element)
    if in_channels not in inputs:
        raise RecipeError(
            f"{table.where}: an array of {element} must have {' or '.join(str(n) for n in inputs)} input channels, not "
            f"{in_channels}."
        )
    possible = epilogue_lanes(element, pixels)
    wanted = next((n for n in possible if 4 * n >= pixels * out_channels), possible[-1])
    lanes = table.get("lanes", int, wanted)
    if lanes not in possible:
        raise RecipeError(
            f"{table.where}: 'lanes' must be {' or '.join(str(n) for n in possible)} of {element} with {pixels} "
            f"pixels, not {lanes}."
        )
    window = table.get("window", int, 2048)
    if not 16 <= window <= 1 << 16 or window & (window - 1):
        raise RecipeError(f"{table.where}: 'window' must be a power of two from 16 to 65536, not {window}.")
    port_bits = table.get("port_bits", int, 512)
    if port_bits not in (128, 512) or (port_bits == 128 and element != "int8"):
        raise RecipeError(f"{table.where}: 'port_bits' must be 512, or 128 for int8, not {port_bits} for {element}.")
    storage = table.get("storage", str, "uram")
    if storage not in ("uram", "bram"):
        raise RecipeError(f'{table.where}: \'storage\' must be "uram" or "bram", not "{storage}".')
    lanes_of_rows = VECTOR_LANES[element]
    vector_lanes = table.get("vector_lanes", int, lanes_of_rows[-1])
    if vector_lanes not in lanes_of_rows:
        words = " or ".join(", ".join(str(n) for n in lanes_of_rows).rsplit(", ", 1))
        raise RecipeError(f"{table.where}: 'vector_lanes' of {element} must be {words}, not {vector_lanes}.")
    activations = table.get("activations", bool, element != "float32")
    if activations and element == "float32":
        raise RecipeError(
            f"{table.where}: 'activations' are tables, which a float32 engine does not have; leave it out."
        )
    if not activations and element == "int8":
        raise RecipeError(f"{table.where}: 'activations' of int8 are always there; leave it out.")
    gathers = element == "int8" and vector_lanes > 0
    gather = table.get("gather", bool, gathers)
    if gather and not gathers:
        raise RecipeError(f"{table.where}: 'gather' requires int8 and a vector side; leave it out.")
    casts = table.get("casts", bool, gathers)
    if casts and not gathers:
        raise RecipeError(f"{table.where}: 'casts' requires int8 and a vector side; leave it out.")
    sizes = {"weights": 1024, "tiles": 64, "taps": 128, "vector_depth": 512, "vector_blocks": 32}
    for name, default in sizes.items():
        sizes[name] = table.get(name, int, default)
        if not 1 <= sizes[name] <= 1 << 16:
            raise RecipeError(f"{table.where}: '{name}' must be from 1 to 65536, not {sizes[name]}.")
    return Engine(
        pixels, out_channels, in_channels, element, lanes, window, sizes["weights"], sizes["tiles"], sizes["taps"],
        port_bits // 8, storage == "uram", vector_lanes, sizes["vector_depth"], sizes["vector_blocks"],
        table.get("row_sums", bool, True), table.get("partial_sums", bool, True), activations, gather,
        casts,
    )  # fmt: skip
