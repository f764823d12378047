"""The C++ extension: built, loaded and started at the first use of the device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import TYPE_CHECKING

from fpga_dynamo.errors import DeviceError, OptionError
from fpga_dynamo.options import Options

if TYPE_CHECKING:
    import torch

    from fpga_dynamo.device.segments import Segments

SIGHTINGS = 3
"""At which call of one kind an operator is compiled, if the cost model decides where it runs."""

_lock = threading.RLock()
_loaded: ModuleType | None = None
_segments: Segments | None = None
_count = 0
_options = Options()
_placement = "cost"
_waiting: dict[str, Callable[[], None]] = {}


def loaded() -> ModuleType | None:
    """The extension if the device has been used, else None."""
    return _loaded


def count() -> int:
    """How many cards the device has since its first use; before that, 0."""
    return _count


def options() -> Options:
    """What the cards of the device are opened with."""
    return _options


def set_options(given: Options) -> None:
    """What the cards are to be opened with. Raises OptionError once the device has been used."""
    global _options
    with _lock:
        if _loaded is not None and given != _options:
            raise OptionError(
                "the options of device 'fpga' cannot change after its first use; call torch.fpga.set_options before"
            )
        _options = given


def place_operators(placement: str) -> None:
    """Where operators of eager mode run, from now on; see ``torch.fpga.set_operator_placement``."""
    global _placement
    with _lock:
        _placement = placement
        if _loaded is not None:
            _place_operators(_loaded, placement)


def _place_operators(extension: ModuleType, placement: str) -> None:
    if placement == "host":
        extension.compile_operators_by(None, 0, False)
        return
    from fpga_dynamo.device.operators import Operators

    compiler = Operators(replace(_options, partition=placement))
    by_cost = placement == "cost"
    extension.compile_operators_by(compiler, SIGHTINGS if by_cost else 1, by_cost)


def _why_not_sent(tensor: torch.Tensor) -> str:
    return (
        f"a tensor on {tensor.device} cannot be sent to another process, which has cards of its own; "
        "send tensor.cpu(), and call .to('fpga') there"
    )


def when_started(what: str, action: Callable[[], None]) -> None:
    """Calls `action` now if the device is in use, else at its first use; then, of each kind `what`, the last one."""
    with _lock:
        if _loaded is None:
            _waiting.pop(what, None)  # the last one runs last, too
            _waiting[what] = action
            return
    action()


def segments() -> Segments:
    """The memory of the device's cards."""
    start()
    assert _segments is not None, "a started extension has its memory"
    return _segments


def start() -> ModuleType:
    """The extension, with the device ready. Raises FpgaError if there is no card, or if it cannot be built."""
    global _loaded, _segments, _count
    if _loaded is not None:
        return _loaded
    with _lock:
        if _loaded is None:
            from fpga_dynamo.device import build
            from fpga_dynamo.device.segments import Segments
            from fpga_dynamo.runtime.device_tensors import share_memory_by
            from fpga_dynamo.torch_internals.device import refuse_to_send

            memory = Segments(_options)
            found = memory.count()
            if found < 1:
                raise DeviceError("device 'fpga' finds no card; `fpga-dynamo doctor` says what the driver sees")
            path = str(build.built())
            spec = spec_from_file_location(build.NAME, path, loader=ExtensionFileLoader(build.NAME, path))
            assert spec is not None and spec.loader is not None
            extension = module_from_spec(spec)
            spec.loader.exec_module(extension)
            extension.start(found, memory)
            share_memory_by(extension.host_view)
            _place_operators(extension, _placement)
            refuse_to_send(_why_not_sent)
            _loaded, _segments, _count = extension, memory, found
            while _waiting:
                _waiting.pop(next(iter(_waiting)))()
    return _loaded
