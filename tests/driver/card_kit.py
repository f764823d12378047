"""What the driver's tests share: a packer of test xclbins and a loaded card with shorthands."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fpga_dynamo.runtime.drivers import emulated as xrt
from xclbin_build import axlf, manifest
from xclbin_build.toolchain.isa import host_isa

MIB = 1 << 20


@dataclass
class Bank:
    tag: str
    base: int
    size: int
    used: bool = True


@dataclass
class Kernel:
    name: str
    args: str  # "a* n": pointers and 32-bit scalars
    units: list[int] = field(default_factory=lambda: [0])  # per compute unit: the bank of its pointers
    lanes: bool = True


BANKS = [Bank("DDR[0]", 0, 64 * MIB), Bank("DDR[1]", 1 << 36, 16 * MIB), Bank("DDR[2]", 2 << 36, 16 * MIB, False)]
KERNELS = [
    Kernel("vadd", "a* b* out* n", [0, 0], lanes=False),
    Kernel("empty", "", lanes=False),
    Kernel("steps", "data* n steps slices", [0, 1]),
    Kernel("misbehave", "out* what step ms"),
    Kernel("pair", "out* what step ms", [0, 0]),
    Kernel("deep", "out*"),
]
HANG, SEGFAULT, DIVIDE, OVERRUN, OVERFLOW_STACK, STATUS, REFUSE, SLEEP, HANG_IN_END = range(1, 10)
THROW, THROW_IN_ALL, THROW_IN_BEGIN, THROW_IN_SLICES, THROW_IN_END, EXIT, EXIT_IN_END, ABORT = range(10, 18)
CRASH_IN_HANDLER, TERMINATE_IN_UNWINDING, LOOK_FOR_EXCEPTIONS = range(18, 21)


def arguments(kernel: Kernel) -> list[dict[str, Any]]:
    """The manifest's list of arguments, at the offsets that Vitis HLS gives them."""
    found, offset = [], 0x10
    for index, name in enumerate(kernel.args.split()):
        pointer = name.endswith("*")
        size = 8 if pointer else 4
        found.append({"name": name.rstrip("*"), "kind": "global" if pointer else "scalar", "index": index,
                      "offset": offset, "bytes": size, "bank": "DDR[0]" if pointer else None})  # fmt: skip
        offset += size + 4
    return found


def sections(shared_object: bytes, kernels: list[Kernel], banks: list[Bank], **changes: object) -> dict[int, bytes]:
    units = [(k, f"{k.name}_{i + 1}", bank) for k in kernels for i, bank in enumerate(k.units)]
    bases = {name: 0x1400000 + 0x10000 * i for i, (_, name, _) in enumerate(units)}
    layout = b"".join(struct.pack("<IIQ64s", 1, 1, bases[u], f"{k.name}:{u}".encode()) for k, u, _ in units)
    topology = b"".join(struct.pack("<BB6xQQ16s", 1, b.used, b.size // 1024, b.base, b.tag.encode()) for b in banks)
    wires = [
        struct.pack("<iii", a["index"], i, bank)
        for i, (kernel, _, bank) in enumerate(units)
        for a in arguments(kernel)
        if a["kind"] == "global"
    ]
    described = [
        {"name": k.name, "lanes": k.lanes, "cores": [], "opcodes": [], "args": arguments(k),
         "compute_units": [{"name": u, "base": bases[u]} for owner, u, _ in units if owner is k]}
        for k in kernels
    ]  # fmt: skip
    table: dict[str, Any] = {
        "manifest_version": 1, "command_version": 1, "target": "emu", "isa": host_isa(), "recipe": "test",
        "platform": {}, "tiles": {}, "opcodes": {}, "enums": {}, "commands": {}, "constants": {},
        "banks": [{"tag": b.tag, "base": b.base, "bytes": b.size} for b in banks], "kernels": described,
    }  # fmt: skip
    return {
        axlf.Section.BITSTREAM: shared_object,
        axlf.Section.EMBEDDED_METADATA: b"<project/>",
        axlf.Section.IP_LAYOUT: struct.pack("<i4x", len(units)) + layout,
        axlf.Section.MEM_TOPOLOGY: struct.pack("<i4x", len(banks)) + topology,
        axlf.Section.CONNECTIVITY: struct.pack("<i", len(wires)) + b"".join(wires),
        axlf.Section.USER_METADATA: manifest.encode({**table, **changes}),
    }


class Card:
    """A loaded device and shorthands for what most tests do with it."""

    def __init__(self, index: int, path: Path) -> None:
        self.device = xrt.device(index)
        self.uuid = self.device.load_xclbin(str(path))
        self._started: list[xrt.run] = []

    def kernel(self, name: str, mode: xrt.kernel.cu_access_mode = xrt.kernel.shared) -> xrt.kernel:
        return xrt.kernel(self.device, self.uuid, name, mode)

    def bo(self, size: int, flags: xrt.bo.flags = xrt.bo.normal, group: int = 0) -> xrt.bo:
        return xrt.bo(self.device, size, flags, group)

    def array(self, values: np.ndarray) -> xrt.bo:
        """A buffer with these values on the card; the host's copy is poisoned."""
        buffer = self.bo(values.nbytes)
        buffer.write(values)
        buffer.sync(xrt.XCL_BO_SYNC_BO_TO_DEVICE)
        np.asarray(buffer.map())[:] = 0xFF
        return buffer

    def fetch(self, buffer: xrt.bo, dtype: type) -> np.ndarray:
        buffer.sync(xrt.XCL_BO_SYNC_BO_FROM_DEVICE)
        return np.frombuffer(buffer.read(buffer.size(), 0).tobytes(), dtype)

    def misbehaving(self, what: int, step: int = 0, ms: int = 0) -> tuple[xrt.run, xrt.bo]:
        """A run of `misbehave` and its buffer; the run keeps the buffer alive."""
        run = xrt.run(self.kernel("misbehave"))
        out = self.array(np.zeros(1024, np.uint32))
        arguments: tuple[xrt.bo | int, ...] = (out, what, step, ms)
        for index, value in enumerate(arguments):
            run.set_arg(index, value)
        self._started.append(run)
        return run, out

    def abort_all(self) -> None:
        """Ends what a test that failed has left behind."""
        for run in self._started:
            run.abort()
        self._started.clear()

    def check_works(self) -> None:
        """A run of `misbehave` that does nothing wrong completes: the compute unit is sound."""
        run, out = self.misbehaving(0)
        assert run.execute(10000) == xrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED, run.error
        assert self.fetch(out, np.uint32)[0] == 1


def until_running(run: xrt.run) -> None:
    """Waits until a compute unit has taken up a run that was started."""
    deadline = time.monotonic() + 20
    while run.state() != xrt.ert_cmd_state.ERT_CMD_STATE_RUNNING:
        assert time.monotonic() < deadline, run.state()
        time.sleep(0.001)
