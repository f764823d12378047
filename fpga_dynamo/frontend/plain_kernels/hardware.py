"""Where a plain kernel runs: compute units of a model's xclbin, or of an xclbin of its own."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import xclbin_build
from fpga_dynamo.errors import FpgaError, XclbinError
from fpga_dynamo.ir.target import Target
from fpga_dynamo.runtime.cards.card import Card, open_beside, reopen
from fpga_dynamo.runtime.cards.plain_units import Units, has_kernel, units_of
from xclbin_build.build import cached_design, design_of
from xclbin_build.progress import shown
from xclbin_build.recipe import KernelRecipe, Recipe
from xclbin_build.signature import Argument


class Hardware:
    """The compute units of a kernel.

    xclbin: a file that has the kernel; None: one for the emulator is built of `source` when it is first needed.
    """

    def __init__(
        self,
        source: Path,
        top: str,
        arguments: list[Argument],
        *,
        xclbin: Path | None,
        driver: str | None,
        device: int | str,
        cu: int,
        memory: Mapping[str, str],
    ) -> None:
        self._source = source
        self._top = top
        self._arguments = [(argument.name, argument.kind, argument.bytes) for argument in arguments]
        self._given = xclbin
        self._driver = driver
        self._device = device
        self._entry = KernelRecipe(top, sources=(source.name,), cu=cu, memory=dict(memory))
        self._lock = threading.Lock()
        self._built: Path | None = None
        self._failed: tuple[int, XclbinError] | None = None  # when the source was changed last, and what building said
        self._units: Units | None = None

    def is_in(self, target: Target) -> bool:
        """Whether the xclbin of a target has the kernel."""
        return has_kernel(target.manifest, self._top, self._arguments)

    def why_not(self, target: Target) -> str | None:
        """Why a program for `target` cannot start the kernel, one sentence, or None."""
        if self.is_in(target):
            return None
        if not target.lanes:  # of a device, which holds one xclbin
            return (
                f"the xclbin has no kernel '{self._top}' with these arguments, and a card holds one xclbin: link "
                f'[kernel.{self._top}] with source = "{self._source.name}" into it'
            )
        try:
            self.path()
        except FpgaError as error:
            return str(error)
        return None

    def path(self) -> Path:
        """The xclbin that the kernel has for itself. Raises XclbinError if it cannot be built."""
        if self._given is not None:
            return self._given
        with self._lock:
            if self._built is None or not self._built.exists():  # the cache may be deleted at any time
                self._built = self._built_once()
            return self._built

    def _built_once(self) -> Path:
        """The xclbin, without another attempt if the source is the one that could not be built."""
        changed = self._source.stat().st_mtime_ns if self._source.exists() else 0
        if self._failed is not None and self._failed[0] == changed:
            raise self._failed[1]
        try:
            return self._build()
        except XclbinError as error:
            self._failed = changed, error
            raise

    def _build(self) -> Path:
        recipe = Recipe(self._top, self._source.parent, (self._entry,))
        try:
            return cached_design(
                design_of(recipe), show=shown(f"kernel '{self._top}' for the emulator, first time only")
            )
        except xclbin_build.BuildError as error:
            raise XclbinError(f"kernel '{self._top}' cannot be built: {_first_error(str(error))}") from error

    def units(self) -> Units:
        """The units for calls in eager mode. Raises XclbinError or DeviceError if the xclbin cannot be used."""
        path = self.path()
        with self._lock:
            if self._units is not None and self._units.card.displaced:
                self._units = units_of(reopen(self._units.card), self._top)
            if self._units is None or self._units.card.path != path:
                self._units = self._on(open_beside(path, self._driver, self._device))
            return self._units

    def open(self, card: Card) -> Units:
        """The units for programs on `card`."""
        if self.is_in(card.target):
            return units_of(card, self._top)
        return self._on(open_beside(self.path(), *card.key))

    def _on(self, card: Card) -> Units:
        if not self.is_in(card.target):
            raise XclbinError(f"xclbin {card.path} has no kernel '{self._top}' with the arguments of {self._source}")
        return units_of(card, self._top)


def _first_error(log: str) -> str:
    """The line of a compiler's output that says what is wrong; the text up to the first line break of another one."""
    lines = log.splitlines()
    return next((line.strip() for line in lines if ": error: " in line or ": fatal error: " in line), lines[0])
