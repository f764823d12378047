"""Engines of given sizes in the dataflow simulator, without an xclbin: one, or several that share a network.

`hls_kernels/engine/together.cpp` has their ports and memory. Lists of several are equally long, and command i of each
makes a part of the same layer (hls_kernels/engine/peers.hpp).
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fpga_dynamo.codegen.engine.command import COMMAND_BYTES
from fpga_dynamo.codegen.engine.sizes import LINE_BYTES, EngineSizes
from fpga_dynamo.errors import FpgaError
from hls_kernels import ROOT
from xclbin_build import atomic_file, cache, memory, qor
from xclbin_build import platform as platforms
from xclbin_build.toolchain.compiler import find_compiler, shared_object
from xclbin_build.toolchain.isa import host_flags
from xclbin_build.trusted_path import remove_untrusted, weakness


class EngineError(FpgaError):
    """The kernel did not run to its end, or says that a command is bad."""


class Simulator:
    """`units` engines of given sizes, compiled for the simulator, before the memory of a platform (`u250`), at `mhz`.

    The maps of several lie in `banks` banks, a page of 4 KiB in each in turn; of one in the first.
    """

    def __init__(
        self, sizes: EngineSizes, platform: str, mhz: float = 300.0, units: int = 1, banks: int | None = None
    ) -> None:
        self.sizes, self.mhz, self.units = sizes, mhz, units
        self.banks = banks or units
        self._library = ctypes.CDLL(str(_compiled(sizes, platform, mhz, units, self.banks)))
        self._library.engine_run.restype = ctypes.c_char_p

    def launch(self, lists: Sequence[bytes], maps: Tensor, weights: Sequence[Tensor]) -> tuple[dict[str, Any], Tensor]:
        """The simulator's report, and the region of maps afterwards, for a list and a region of weights of each unit.

        Regions are uint8. Raises EngineError.
        """
        words = [torch.frombuffer(bytearray(own), dtype=torch.uint8) for own in lists]
        maps = maps.clone()
        maps[:LINE_BYTES] = 0  # the status record, which nobody writes to if all went well with several units
        text = self._library.engine_run(
            *(_pointers(words), ctypes.c_uint32(len(lists[0]) // COMMAND_BYTES)),
            *(ctypes.c_void_p(maps.data_ptr()), ctypes.c_uint64(maps.numel() // LINE_BYTES)),
            *(_pointers(weights), (ctypes.c_uint64 * self.units)(*(w.numel() // LINE_BYTES for w in weights))),
        )
        report: dict[str, Any] = json.loads(text)
        if "error" in report:
            raise EngineError(report["error"])
        status = maps[:8].view(torch.int32)
        if int(status[0]) != 0:
            raise EngineError(f"command {int(status[1])} has an opcode that the engine does not support")
        return report, maps


def _pointers(tensors: Sequence[Tensor]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors))


def _compiled(sizes: EngineSizes, platform: str, mhz: float, units: int, banks: int) -> Path:
    """The shared object, kept in the user's cache for as long as its sources are the same.

    Raises BuildError if it cannot be compiled.
    """
    element = {1: 0, 2: 1, 4: 2}[sizes.element_bytes]
    options = {
        "ELEMENT": element,
        "CUS": units,
        "BANKS": banks,
        "PORT_BYTES": sizes.port_bytes,
        "PIXELS": sizes.pixels,
        "OUT_CHANNELS": sizes.out_channels,
        "IN_CHANNELS": sizes.in_channels,
        "LANES": sizes.lanes,
        "WINDOW_ROWS": sizes.window_rows,
        "WEIGHT_STEPS": sizes.weight_steps,
        "SET_TILES": sizes.set_tiles,
        "TAPS": sizes.taps,
        "VECTOR_LANES": sizes.vector_lanes,
        "VECTOR_DEPTH": sizes.vector_depth,
        "VECTOR_BLOCKS": sizes.vector_blocks,
        "ROW_SUMS": int(sizes.row_sums),
        "PARTIAL_SUMS": int(sizes.partial_sums),
        "ACTIVATIONS": int(sizes.activations),
    }
    source = ROOT / "engine" / "together.cpp"
    header = qor.header(qor.load(ROOT / "engine" / "qor.toml"))
    memories = platforms.load(platform).memory_header(mhz)
    flags = [f"-DENGINE_{name}={value}" for name, value in options.items()]
    compiler = find_compiler()
    texts = [source, *sorted([*(ROOT / "engine").rglob("*.hpp"), *(ROOT / "sim").glob("*.h*")])]
    key = cache.digest([
        *compiler.command, compiler.version, *sorted(host_flags()), *flags, header, memories,
        *(path.read_bytes() for path in texts),
    ])  # fmt: skip
    directory = cache.folder("simulator", key)
    library = directory / "engine.so"
    if _usable(library):
        return library
    with cache.locked(directory):
        if not _usable(library):
            remove_untrusted(directory)
            atomic_file.write(directory / qor.HEADER, header)
            atomic_file.write(directory / memory.HEADER, memories)
            arguments = [
                "-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC", "-Wno-unused-label",
                "-Wno-unknown-pragmas", "-DFPGA_COUNT_CYCLES=1", *flags, f"-I{ROOT}", f"-I{directory}", str(source),
            ]  # fmt: skip
            shared_object(arguments, library)
    return library


def _usable(library: Path) -> bool:
    return library.is_file() and weakness(library) is None
