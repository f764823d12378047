"""A card whose kernels are the sources that v++ gets, in the simulator: units that work together, by XRT's API.

What link.cfg says is what connects it: a buffer has to lie in the bank of the argument that it is given to, and the
streams are those of `stream_connect`. A buffer's host side and its memory on the card are two.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from hls_kernels import ROOT
from tests.xclbin_build.cu_card import aligned
from xclbin_build.axlf import Axlf, Section, read, write
from xclbin_build.build import load_design
from xclbin_build.flow.vitis import write_sources
from xclbin_build.manifest import describe, encode
from xclbin_build.toolchain.gxx import INCLUDES, find_compiler

POISON = 0xA5


def _wrapper(units: list[str], types: list[str], link: str) -> str:
    """A C function that starts everything. types: of the kernel's arguments but the streams. link: link.cfg."""

    def value(unit: int, index: int, type_name: str) -> str:
        at = f"arguments[{unit * len(types) + index}]"
        if type_name == "uint32_t":
            return "count"
        element = type_name.removeprefix("hls::burst_maxi<").removesuffix(">")
        return f"static_cast<{element}*>({at})"

    places = range(1, len(units) + 1)
    # Each stream of a unit is the one of the kernel of their barrier that link.cfg connects it with.
    said = [re.search(rf"={unit}.to_peers:engine_barrier_1.from_(\d+):", link) for unit in units]
    heard = [re.search(rf"=engine_barrier_1.to_(\d+):{unit}.from_peers:", link) for unit in units]
    lines = ['#include "engine.cpp"', '#include "engine_barrier.cpp"', ""]
    lines += ['extern "C" const char* start(void* const* arguments, uint32_t count) {', "    static std::string why;"]
    lines += ["    try {"]
    lines += [f"        engine::peer_stream from_{n}, to_{n};" for n in places]
    lines += ["        sim::restart();", '        sim::region card("card");']
    for unit, (to, back) in enumerate(zip(said, heard, strict=True)):
        assert to and back
        values = ", ".join(value(unit, index, name) for index, name in enumerate(types))
        call = f"kernels::engine({values}, from_{to[1]}, to_{back[1]});"
        lines.append(f'        card.run("{units[unit]}", [&] {{ {call} }});')
    streams = ", ".join(f"{name}_{n}" for name in ("from", "to") for n in places)
    lines.append(f'        card.run("barrier", [&] {{ engine_barrier(count, {streams}); }});')
    lines += ["    } catch (const std::exception& error) {"]
    lines += ["        why = error.what();", "        return why.c_str();"]
    return "\n".join([*lines, "    }", '    return "";', "}", ""])


class SourcesCard:
    """A driver (`fpga_dynamo.runtime.drivers`) for one design, whose sources are compiled into `directory`."""

    COPIES_ON_CARD = False
    ert_cmd_state = SimpleNamespace(
        ERT_CMD_STATE_COMPLETED="completed", ERT_CMD_STATE_TIMEOUT="timeout", ERT_CMD_STATE_ERROR="error"
    )
    xclBOSyncDirection = SimpleNamespace(XCL_BO_SYNC_BO_TO_DEVICE="to", XCL_BO_SYNC_BO_FROM_DEVICE="from")

    def __init__(self, recipe: str | Path, directory: Path) -> None:
        design = load_design(recipe)
        write_sources(design, "hw", directory)
        self.xclbin = directory / "torch.xclbin"
        sections = {int(Section.USER_METADATA): encode(describe(design, "hw", ""))}
        write(self.xclbin, Axlf(sections, platform=design.platform.xsa))
        self._link = (directory / "link.cfg").read_text().splitlines()
        text = (directory / "engine.cpp").read_text()
        head = text[text.index('extern "C" void engine(') : text.index(") {")].partition("(")[2]
        declared = [argument.rsplit(" ", 1) for argument in re.split(r",\s*", head)]
        self.names = [name for _, name in declared if not name.endswith("_peers")]
        types = [type_name for type_name, name in declared if not name.endswith("_peers")]
        self.units = next(line for line in self._link if line.startswith("nk=engine:")).rpartition(":")[2].split(".")
        (directory / "wrapper.cpp").write_text(_wrapper(self.units, types, "\n".join(self._link)))
        command = [
            *find_compiler().command, "-std=c++17", "-O1", "-ffp-contract=off", "-Wall", "-Werror",
            "-Wno-unknown-pragmas", "-Wno-unused-label", *INCLUDES, f"-I{ROOT / 'sim'}", "wrapper.cpp", "-shared",
            "-fPIC", "-o", "card.so",
        ]  # fmt: skip
        result = subprocess.run(command, cwd=directory, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        self._start = ctypes.CDLL(str(directory / "card.so")).start
        self._start.restype = ctypes.c_char_p
        self._under_way: dict[str, Run] = {}
        self.launches = 0
        self.fails: str | None = None
        """A unit that ends in an error at once."""
        self.corrupts: str | None = None
        """A unit whose first command arrives with another opcode."""

    def device(self, index: int) -> Any:
        return SimpleNamespace(load_xclbin=lambda path: read(path).uuid, index=index)

    def kernel(self, _device: Any, _uuid: Any, name: str) -> Kernel:
        return Kernel(self, re.fullmatch(r".*:\{(\w+)\}", name)[1])  # type: ignore[index]

    def run(self, kernel: Kernel) -> Run:
        return Run(self, kernel)

    class bo:
        """A buffer in a bank."""

        flags = SimpleNamespace(normal="normal", device_only="device_only")

        def __init__(self, _device: Any, nbytes: int, flags: str, bank: str) -> None:
            self.bank = bank
            sizes = nbytes, nbytes if flags == "normal" else 0
            self.card, self._host = (aligned(-(-size // 4), np.uint8)[:size] for size in sizes)
            self.card.fill(POISON)
            self._host.fill(POISON)

        def write(self, data: Any, seek: int = 0) -> None:
            given = np.frombuffer(data, np.uint8)
            self._host[seek : seek + given.size] = given

        def write_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
            assert offset + nbytes <= self._host.size
            ctypes.memmove(self._host.ctypes.data + offset, address, nbytes)

        def read_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
            assert offset + nbytes <= self._host.size
            ctypes.memmove(address, self._host.ctypes.data + offset, nbytes)

        def map(self) -> Any:
            return self._host

        def sync(self, direction: str, size: int, offset: int) -> None:
            assert offset + size <= self._host.size
            sides = (self._host, self.card) if direction == "to" else (self.card, self._host)
            sides[1][offset : offset + size] = sides[0][offset : offset + size]

    def bank(self, unit: str, argument: str) -> str:
        """Of an argument of a unit, by link.cfg."""
        (line,) = (line for line in self._link if line.startswith(f"sp={unit}.{argument}:"))
        return line.rpartition(":")[2]

    def started(self, run: Run) -> None:
        """Runs everything when the last of the units has been started."""
        assert run.unit not in self._under_way, f"{run.unit} is started again while it waits for its peers"
        self._under_way[run.unit] = run
        if self.fails is not None or len(self._under_way) <= len(self.units):
            return
        barrier = next(run for unit, run in self._under_way.items() if unit not in self.units)
        count = self.names.index("count")
        assert {self._under_way[unit].arguments[count] for unit in self.units} == {barrier.arguments[0]}
        commands = self.names.index("commands")
        arriving = self._under_way[self.corrupts or self.units[0]].arguments[commands].card[:4]
        right = arriving.copy()
        if self.corrupts is not None:
            arriving[:] = (231, 3, 0, 0)
        at: list[int | None] = []
        for unit in self.units:
            given = self._under_way[unit].arguments
            assert sorted(given) == list(range(len(self.names)))
            at += [None if name == "count" else given[i].card.ctypes.data for i, name in enumerate(self.names)]
        why = self._start((ctypes.c_void_p * len(at))(*at), ctypes.c_uint32(barrier.arguments[0])).decode()
        arriving[:] = right
        assert not why, why
        for finished in self._under_way.values():
            finished.completed()
        self._under_way.clear()
        self.launches += 1

    def ended(self, run: Run) -> None:
        self._under_way.pop(run.unit, None)


class Kernel:
    """A compute unit."""

    def __init__(self, card: SourcesCard, unit: str) -> None:
        self.card, self.unit = card, unit

    def group_id(self, argument: int) -> str:
        return self.card.bank(self.unit, self.card.names[argument])


class Run:
    """A run of a unit."""

    def __init__(self, card: SourcesCard, kernel: Kernel) -> None:
        self.unit = kernel.unit
        self.arguments: dict[int, Any] = {}
        self._found = "new"
        self._card, self._kernel = card, kernel

    def set_arg(self, index: int, value: Any) -> None:
        if isinstance(value, self._card.bo):
            assert value.bank == self._kernel.group_id(index)
        self.arguments[index] = value

    def start(self) -> None:
        self._found = "started"
        self._card.started(self)

    def state(self) -> str:
        return "error" if self._card.fails == self.unit else self._found

    def wait(self, timeout_ms: int) -> str:
        assert timeout_ms, "would wait for ever"
        return "timeout" if self.state() == "started" else self.state()

    def completed(self) -> None:
        self._found = "completed"

    def abort(self) -> str:
        self._card.ended(self)
        return self.state()
