"""Runs a command list on the engine's kernel in the dataflow simulator, which counts its cycles."""

from __future__ import annotations

import ctypes
import hashlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.engine.build import Built
from fpga_dynamo.codegen.engine.sizes import LINE_BYTES, EngineSizes
from hls_kernels import ROOT
from xclbin_build import memory, qor
from xclbin_build import platform as platforms
from xclbin_build.toolchain.gxx import find_compiler


class EngineError(Exception):
    """The kernel did not run to its end, or says that a command is bad."""


class Engine:
    """An engine of given sizes, compiled for the simulator, before the memory of a platform (`u250`), at `mhz`."""

    def __init__(self, sizes: EngineSizes, platform: str, mhz: float = 300.0) -> None:
        self.sizes, self.mhz = sizes, mhz
        self._library = ctypes.CDLL(str(_compiled(sizes, platform, mhz)))
        self._library.engine_run.restype = ctypes.c_char_p

    def run(self, built: Built) -> tuple[dict[str, Any], Tensor]:
        """The simulator's report, and the region of maps afterwards. Raises EngineError."""
        commands = torch.frombuffer(bytearray(b"".join(c.words() for c in built.commands)), dtype=torch.uint8)
        maps, weights = built.maps.bytes(), built.weights.bytes()
        text = self._library.engine_run(
            *(ctypes.c_void_p(commands.data_ptr()), ctypes.c_uint32(len(built.commands))),
            *(ctypes.c_void_p(maps.data_ptr()), ctypes.c_uint64(maps.numel() // LINE_BYTES)),
            *(ctypes.c_void_p(weights.data_ptr()), ctypes.c_uint64(weights.numel() // LINE_BYTES)),
        )
        report: dict[str, Any] = json.loads(text)
        if "error" in report:
            raise EngineError(report["error"])
        status = maps[:8].view(torch.int32)
        if int(status[0]) != 0:
            raise EngineError(f"command {int(status[1])} has an opcode that is none of the engine's")
        return report, maps


def _compiled(sizes: EngineSizes, platform: str, mhz: float) -> Path:
    """The shared object, kept in the temporary directory for as long as its sources are the same."""
    element = {1: 0, 2: 1, 4: 2}[sizes.element_bytes]
    options = {
        "ELEMENT": element,
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
    }
    source = Path(__file__).with_name("run.cpp")
    header = qor.header(qor.load(ROOT / "engine" / "qor.toml"))
    memories = platforms.load(platform).memory_header(mhz)
    flags = [f"-DENGINE_{name}={value}" for name, value in options.items()]
    digest = hashlib.sha256(repr((flags, header, memories, source.read_text())).encode())
    for path in sorted([*(ROOT / "engine").rglob("*.hpp"), *(ROOT / "sim").glob("*.h*")]):
        digest.update(path.read_bytes())
    directory = Path(tempfile.gettempdir()) / f"fpga-dynamo-engine-{digest.hexdigest()[:16]}"
    library = directory / "engine.so"
    if not library.exists():
        directory.mkdir(exist_ok=True)
        (directory / qor.HEADER).write_text(header)
        (directory / memory.HEADER).write_text(memories)
        partial = library.with_suffix(".partial")
        command = [
            *find_compiler().command, "-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC",
            "-Wno-unused-label", "-Wno-unknown-pragmas", "-DFPGA_COUNT_CYCLES=1", *flags, f"-I{ROOT}", f"-I{directory}",
            str(source), "-o", str(partial),
        ]  # fmt: skip
        subprocess.run(command, check=True)
        partial.rename(library)
    return library
