"""A PYNQ overlay: the .xclbin, a driver module, and for a Zynq UltraScale+ the .bit and the .hwh that Vivado left."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from .. import atomic_file
from ..axlf import read
from ..design import Design
from ..errors import ToolchainError, XclbinError
from ..trusted_path import printable

_HANDOFF_ROOT = "EDKSYSTEM"
_DRIVER = '''\
"""Made by xclbin_build: loads {name}.xclbin with PYNQ, and runs its compute units."""

from pathlib import Path

from pynq import Overlay, allocate

XCLBIN = Path(__file__).with_name("{name}.xclbin")
# Of each compute unit its arguments, in order: name, and how it is passed ("in", "inout" or "scalar").
UNITS = {units}


def load(device=None):
    """The overlay, loaded to the board; device: of several cards, one of pynq.Device.devices."""
    return Overlay(str(XCLBIN)) if device is None else Overlay(str(XCLBIN), device=device)


def buffer(shape, dtype, **options):
    """A buffer that the kernels read or write; options: such as target=overlay.DDR0 on a card."""
    return allocate(shape, dtype, **options)


def run(overlay, unit, *arguments):
    """Runs a compute unit with buffers and numbers, and waits: buffers go to the board before and come back behind."""
    kinds = [kind for _, kind in UNITS[unit]]
    if len(arguments) != len(kinds):
        raise TypeError(f"{{unit}} has {{len(kinds)}} arguments, not {{len(arguments)}}: {{UNITS[unit]}}")
    for value, kind in zip(arguments, kinds):
        if kind != "scalar":
            value.sync_to_device()
    getattr(overlay, unit).call(*arguments)
    for value, kind in zip(arguments, kinds):
        if kind == "inout":
            value.sync_from_device()


if __name__ == "__main__":
    load()
    print(*UNITS, sep="\\n")
'''


def write(folder: Path, name: str, bits: bytes | None, xclbin: Path, design: Design, directory: Path) -> list[str]:
    """Writes and checks an overlay folder; notes for the user. bits: the .bit; None for a data-centre card."""
    module = re.sub(r"\W", "_", name)
    atomic_file.write(folder / f"{name}.xclbin", xclbin.read_bytes())
    atomic_file.write(folder / f"{module}.py", driver(name, design))
    notes = [f"on the board: import {module}; overlay = {module}.load()"]
    if bits is not None:
        atomic_file.write(folder / f"{name}.bit", bits)
        handoff = _handoff(directory)
        if handoff is None:
            notes.append(f"Vivado has left no .hwh, so PYNQ's Overlay accepts {name}.xclbin and not {name}.bit alone")
        else:
            atomic_file.write(folder / f"{name}.hwh", handoff.read_bytes())
    check_overlay(folder, name)
    return notes


def driver(name: str, design: Design) -> str:
    """The text of the driver module."""
    units = {
        unit.name: [
            (bound.argument.name, _kind(bound.argument.kind, bound.argument.const))
            for bound in kernel.arguments
            if bound.argument.kind != "stream"  # the host does not pass one
        ]
        for kernel in design.kernels
        if not kernel.free_running and kernel.peers == 1
        for unit in kernel.compute_units
    }
    lines = [f"    {unit!r}: {arguments!r}," for unit, arguments in units.items()]
    return _DRIVER.format(name=name, units="\n".join(["{", *lines, "}"]))


def check_overlay(folder: Path, name: str) -> None:
    """Raises ToolchainError unless the folder holds what PYNQ's Overlay and the driver need."""
    module = folder / f"{re.sub(r'[^A-Za-z0-9_]', '_', name)}.py"
    try:
        assert read(folder / f"{name}.xclbin").manifest
        compile(module.read_text(), str(module), "exec")
        handoff = folder / f"{name}.hwh"
        if handoff.is_file():
            root = ElementTree.parse(handoff).getroot()
            if root.tag != _HANDOFF_ROOT or root.find("MODULES") is None:
                raise ToolchainError(f"{printable(handoff)} is not a hardware handoff file of Vivado; delete it.")
    except (XclbinError, OSError, SyntaxError, ElementTree.ParseError) as error:
        raise ToolchainError(f"the overlay in {printable(folder)} cannot be used: {error}") from error


def _kind(kind: str, const: bool) -> str:
    """How the driver passes an argument."""
    return "scalar" if kind == "scalar" else "in" if const else "inout"


def _handoff(directory: Path) -> Path | None:
    """The hardware handoff file of the link: of several the one of the whole design, which is the largest."""
    found = [path for path in (directory / "link").rglob("*.hwh") if path.is_file()]
    return max(found, key=lambda path: path.stat().st_size, default=None)
