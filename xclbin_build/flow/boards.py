"""What an embedded board loads: the app folder of a Kria, a PYNQ overlay, the files of an SD card. Each is checked."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import atomic_file
from ..axlf import Axlf, Section
from ..design import Design
from ..errors import BuildError, RecipeError, ToolchainError, did_you_mean
from ..trusted_path import printable
from . import commands, kria, pynq

KINDS = ("kria", "pynq", "sd")
_TOOLS = {"kria": ("bootgen", "dtc"), "pynq": (), "sd": ()}
_FAMILIES = {"kria": ("zynqmp",), "pynq": ("alveo", "zynqmp"), "sd": ("zynqmp", "versal")}
_TARGETS = {"kria": ("hw",), "pynq": ("hw",), "sd": ("hw", "hw_emu")}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,60}")


@dataclass(frozen=True)
class Package:
    """A folder for a board: `kria` for xmutil loadapp, `pynq` for PYNQ's Overlay, `sd` for an SD card."""

    kind: str
    folder: Path

    @property
    def tools(self) -> tuple[str, ...]:
        return _TOOLS[self.kind]

    def check(self, design: Design, target: str, xclbin: Path) -> None:
        """Raises RecipeError if the board or the target has no such package, or its name cannot be the xclbin's."""
        family = design.platform.family
        if family not in _FAMILIES[self.kind]:
            able = ", ".join(kind for kind in KINDS if family in _FAMILIES[kind])
            raise RecipeError(
                f"--board {self.kind} is not supported for platform '{design.platform.name}' ({family}); "
                f"supported: {able}."
            )
        if target not in _TARGETS[self.kind]:
            raise RecipeError(f"--board {self.kind} requires --target hw, not {target}.")
        if self.folder.is_file():
            raise RecipeError(f"--board {self.kind}: {printable(self.folder)} is a file; name a folder.")
        if not _NAME.fullmatch(xclbin.stem):
            raise RecipeError(
                f"--output {printable(xclbin)}: a board's package is named after it; use letters, digits, '_' and '-', "
                "starting with a letter."
            )


def parse_package(text: str) -> Package:
    """`kria=DIR`. Raises RecipeError for another text."""
    kind, _, folder = text.partition("=")
    if kind not in KINDS:
        raise RecipeError(f"--board {text}: unknown kind '{kind}'; {did_you_mean(kind, KINDS)}")
    if not folder:
        raise RecipeError(f"--board {text}: the folder is missing; write --board {kind}=DIR.")
    return Package(kind, Path(folder))


def write_package(
    package: Package, axlf: Axlf, xclbin: Path, design: Design, directory: Path, keep_open: Sequence[int]
) -> list[str]:
    """Writes a package from a finished build, and checks it; notes for the user.

    axlf: the content of the xclbin. directory: where the design was built.
    """
    name = xclbin.stem
    try:
        package.folder.mkdir(parents=True, exist_ok=True)
        if package.kind == "kria":
            kria.write(package.folder, name, bitstream(axlf), xclbin, directory, keep_open)
            return [f"copy {printable(package.folder)} to /lib/firmware/xilinx/{name} of the board, then: "
                    f"xmutil loadapp {name}"]  # fmt: skip
        if package.kind == "pynq":
            bits = bitstream(axlf) if design.platform.embedded else None
            return pynq.write(package.folder, name, bits, xclbin, design, directory)
        return _write_card(package.folder, name, xclbin, directory)
    except OSError as error:
        raise BuildError(
            f"{printable(package.folder)} cannot be written: {error.strerror or error}; choose another folder."
        ) from error


def bitstream(axlf: Axlf) -> bytes:
    """The .bit in an xclbin of a Zynq UltraScale+. Raises ToolchainError if the file has none."""
    bits = axlf.sections.get(Section.BITSTREAM, b"")
    if not kria.is_bit(bits):
        raise ToolchainError(
            "the linked xclbin has no bitstream in the .bit format, which a package needs; --target hw writes one."
        )
    return bits


def _write_card(folder: Path, name: str, xclbin: Path, directory: Path) -> list[str]:
    """Copies what `v++ -p` wrote, with the xclbin that has the manifest."""
    source = directory / commands.PACKAGE_FOLDER
    shutil.copytree(source, folder, dirs_exist_ok=True)
    card = folder / "sd_card" if (folder / "sd_card").is_dir() else folder
    atomic_file.write(card / f"{name}.xclbin", xclbin.read_bytes())
    lacking = [file for file in ("BOOT.BIN", f"{name}.xclbin") if not (card / file).is_file()]
    if lacking:
        raise ToolchainError(
            f"v++ -p reported success, but {printable(card)} has no {lacking[0]}; look into the log "
            f"{printable(directory / 'logs' / 'package.log')}."
        )
    image = folder / "sd_card.img"
    if image.is_file():
        return [f"write {printable(image)} to an SD card"]
    return [f"copy the files in {printable(card)} to the first (FAT) partition of an SD card"]
