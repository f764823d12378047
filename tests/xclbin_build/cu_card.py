"""The least card there can be: calls a kernel's `cu_entry` through ctypes, with numpy arrays as device memory."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from xclbin_build import Axlf
from xclbin_build.axlf import Section

REGISTER_BYTES = 4096
POISON = np.float32(np.nan)
_TRANSLATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64))


class CuCall(ctypes.Structure):
    _fields_ = (
        ("registers", ctypes.c_void_p),
        ("translate", _TRANSLATE),
        ("card", ctypes.c_void_p),
        ("windows", ctypes.c_void_p),
        ("window_count", ctypes.c_uint32),
        ("streams", ctypes.c_void_p),
        ("steps", ctypes.c_uint32),
        ("error", ctypes.c_char * 512),
        ("scratch", ctypes.c_uint64 * 32),
    )


_CALL = ctypes.POINTER(CuCall)


class CuWindow(ctypes.Structure):
    _fields_ = (("address", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("host", ctypes.c_void_p))


WINDOWS_REFUSED = 0xFFFF_FFFE


class CuEntry(ctypes.Structure):
    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("begin", ctypes.CFUNCTYPE(ctypes.c_uint32, _CALL)),
        ("slices", ctypes.CFUNCTYPE(ctypes.c_uint32, _CALL, ctypes.c_uint32)),
        ("execute", ctypes.CFUNCTYPE(ctypes.c_uint32, _CALL, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)),
        ("end", ctypes.CFUNCTYPE(None, _CALL, ctypes.c_uint32, ctypes.c_uint32)),
    )


class Refused(Exception):
    """What `begin` said; `for_a_window`: without windows it could start."""

    def __init__(self, sentence: str, for_a_window: bool) -> None:
        super().__init__(sentence)
        self.for_a_window = for_a_window


def aligned(words: int, dtype: type = np.float32) -> np.ndarray:
    """A poisoned array of 32-bit elements whose address is a multiple of 64."""
    raw = np.full(words * 4 + 64, 0xFF, np.uint8)
    start = -raw.ctypes.data % 64
    array: np.ndarray = raw[start : start + words * 4].view(dtype)
    if dtype is np.float32:
        array[:] = POISON
    return array


class Card:
    """The kernels of an emulation's xclbin; buffers are at the device addresses that `place` hands out."""

    def __init__(self, xclbin: Axlf) -> None:
        self.manifest = xclbin.manifest
        self.buffers: dict[int, np.ndarray] = {}
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "kernels.so"
            path.write_bytes(xclbin.sections[Section.BITSTREAM])
            self.library = ctypes.CDLL(str(path))

    def place(self, array: np.ndarray) -> int:
        """Device address of a buffer."""
        address = 0x4000_0000 + 0x100_0000 * len(self.buffers)
        self.buffers[address] = array
        return address

    def translate(self, _card: object, address: int, size: ctypes._Pointer) -> int | None:
        for base, array in self.buffers.items():
            if base <= address < base + array.nbytes:
                size[0] = base + array.nbytes - address
                return array.ctypes.data + address - base
        return None

    def start(
        self,
        kernel: str,
        arguments: Mapping[str, int | float],
        slices: int | None = None,
        windows: dict[int, np.ndarray] | None = None,
    ) -> list[int]:
        """Runs a kernel; returns how many slices each step asked for. `slices` forces another number of slices.

        `windows`: device addresses that stand for an array in the host's memory.
        """
        entry = CuEntry.in_dll(self.library, f"fpga_cu_{kernel}")
        assert entry.abi == 5
        registers = self.registers(kernel, arguments)
        translate = _TRANSLATE(self.translate)
        shown = [CuWindow(address, array.nbytes, array.ctypes.data) for address, array in (windows or {}).items()]
        elsewhere = (CuWindow * len(shown))(*shown)
        call = CuCall(registers.ctypes.data, translate, None, ctypes.addressof(elsewhere), len(shown), 12345)
        if status := entry.begin(call):
            raise Refused(call.error.decode(), status == WINDOWS_REFUSED)
        wanted, status, step = [], 0, 0
        for step in range(call.steps):
            wanted.append(entry.slices(call, step))
            parts = wanted[-1] and (slices or wanted[-1])
            # Backwards: a core must not rely on an order of its slices.
            status = max((entry.execute(call, step, part, parts) for part in reversed(range(parts))), default=0)
            if status:
                break
        entry.end(call, status, step)
        return wanted

    def registers(self, kernel: str, arguments: Mapping[str, int | float]) -> np.ndarray:
        """The register map, from the manifest's offsets and types."""
        table = next(entry for entry in self.manifest["kernels"] if entry["name"] == kernel)
        assert {argument["name"] for argument in table["args"]} == set(arguments)
        registers = np.zeros(REGISTER_BYTES, np.uint8)
        for argument in table["args"]:
            value = arguments[argument["name"]]
            types = {"float": np.float32, "double": np.float64}
            integer = np.dtype(f"u{argument['bytes']}")
            dtype = np.dtype(types.get(argument["type"], integer)) if argument["kind"] == "scalar" else integer
            data = np.array([value], dtype).view(np.uint8)
            registers[argument["offset"] : argument["offset"] + len(data)] = data
        return registers


def encode(manifest: dict, name: str, /, **fields: object) -> np.ndarray:
    """The 64 words of a command, from the manifest's record table."""
    words = np.zeros(64, np.uint32)
    values = {"opcode": manifest["opcodes"][name], "slices": 1} | fields
    for entry in manifest["commands"][name]:
        value = np.atleast_1d(values.pop(entry["field"]))
        assert len(value) == entry["count"]
        dtype = np.float32 if entry["type"] == "float" else np.int64
        data = value.astype(dtype)
        words[entry["word"] : entry["word"] + entry["count"]] = (
            data.view(np.uint32) if entry["type"] == "float" else data.astype(np.uint32)
        )
    assert not values, f"unknown fields {set(values)}"
    return words
