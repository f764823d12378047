"""``torch.fpga``: the cards of this machine as a device of PyTorch, with the functions that ``torch.cuda`` has, too.

Importing this module loads nothing. The first tensor on the device builds the extension if need be, and opens the card.
Streams are synchronous: an operator has ended when its call returns.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import torch

from fpga_dynamo.device.statistics import (
    operator_stats,
    reset_operator_stats,
    reset_transfer_stats,
    set_operator_placement,
    transfer_stats,
)

__all__ = [
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "operator_stats",
    "reset_operator_stats",
    "reset_peak_memory_stats",
    "reset_transfer_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_operator_placement",
    "set_options",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    "transfer_stats",
]

DeviceLike = torch.device | str | int | None
"""A card: ``torch.device("fpga:1")``, "fpga:1" or 1; None is the current one."""


def _extension() -> Any:
    from fpga_dynamo.device import extension

    return extension.start()


def _lazy_init() -> None:
    """Called by PyTorch at the first use of the device."""
    _extension()


def _started() -> Any:
    from fpga_dynamo.device import extension

    return extension.loaded()


def _is_in_bad_fork() -> bool:
    """Whether this process was forked after the device had been used, so that cards do not work here."""
    started = _started()
    return started is not None and bool(started.is_forked())


def _index(of: DeviceLike) -> int:
    """The index of a card; raises ValueError for a device of another type."""
    if of is None:
        return current_device()
    if isinstance(of, int):
        return of
    given = torch.device(of)
    if given.type != "fpga":
        raise ValueError(f"expected a device of type 'fpga', got {given}; write 'fpga' or 'fpga:0'")
    return current_device() if given.index is None else given.index


def init() -> None:
    """Builds and loads what the device needs, which otherwise its first use does.

    Raises DeviceError if there is no card or no C++ compiler.
    """
    _extension()


def is_initialized() -> bool:
    """Whether the device has been used in this process."""
    return _started() is not None and not _is_in_bad_fork()


def set_options(options: Mapping[str, Any] | None) -> None:
    """What cards are opened with: `xclbin`, `recipe`, `platform` and `driver` of ``torch.compile``'s options.

    Raises OptionError for other options, for wrong ones, and after the first use of the device.
    """
    from fpga_dynamo.device import extension
    from fpga_dynamo.errors import OptionError
    from fpga_dynamo.options import Options

    known = ("xclbin", "recipe", "platform", "driver")
    if unknown := sorted(set(options or {}) - set(known)):
        raise OptionError(f"device 'fpga' has no option '{unknown[0]}'; its options are {', '.join(known)}")
    extension.set_options(Options.parse(options))


def device_count() -> int:
    """How many cards the driver finds, since the first use those that it found then; 0 if it cannot be used."""
    from fpga_dynamo.device import extension

    if _started() is not None:
        return extension.count()
    from fpga_dynamo.device.segments import Segments
    from fpga_dynamo.errors import FpgaError

    try:
        return Segments(extension.options()).count()
    except FpgaError:
        return 0


def is_available() -> bool:
    """Whether there is a card, or an emulated one, and the extension is built or there is a compiler for it.

    For ``torch.accelerator.is_available()`` the device is available from its first use on. Dynamo and DataLoader ask
    that in every process, and use streams and pinned memory if it is true. They must not build the extension for
    programs without tensors on the device.
    """
    from fpga_dynamo.device import build

    if _is_in_bad_fork():
        return False
    if _started() is not None:
        return True
    if sys._getframe(1).f_globals.get("__name__") == "torch.accelerator":
        return False
    return device_count() > 0 and build.is_possible()


def is_bf16_supported() -> bool:
    """Whether tensors and autocast of the device support bfloat16."""
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes of ``torch.autocast("fpga")``; the first one is its default."""
    return [torch.bfloat16, torch.float16]


def current_device() -> int:
    """The index of the card that "fpga" stands for in this thread."""
    return int(_extension().current_device())


def set_device(device: DeviceLike) -> None:
    """Makes a card the current one of this thread. Raises RuntimeError for an index without a card."""
    _extension().set_device(_index(device))


class device:
    """A context in which a card is the current one of this thread; None changes nothing."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = None if device is None else _index(device)
        self._before: int | None = None

    def __enter__(self) -> device:
        if self.idx is not None:
            self._before = current_device()
            set_device(self.idx)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._before is not None:
            set_device(self._before)


def synchronize(device: DeviceLike = None) -> None:
    """Waits for all work on a card. Streams are synchronous, so that the call returns at once."""
    _extension()
    torch.accelerator.synchronize(_index(device))


# --- streams and events -----------------------------------------------------------------------------------------------


def Stream(device: DeviceLike = None, priority: int = 0) -> torch.Stream:
    """A stream of a card. Work on it has ended when the call that started it returns."""
    _extension()
    return torch.Stream(device=f"fpga:{_index(device)}", priority=priority)


def Event(enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> torch.Event:
    """A point in time of a stream; with ``enable_timing=True`` two of them tell the milliseconds between them."""
    _extension()
    return torch.Event(device="fpga", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def current_stream(device: DeviceLike = None) -> torch.Stream:
    """The stream that this thread uses on a card."""
    _extension()
    return torch.accelerator.current_stream(_index(device))


def default_stream(device: DeviceLike = None) -> torch.Stream:
    """The stream that threads use on a card unless they choose another."""
    _extension()
    index = _index(device)
    kind = torch.accelerator.current_stream(index).device_type
    return torch.Stream(stream_id=0, device_index=index, device_type=kind)


def set_stream(stream: torch.Stream) -> None:
    """Has this thread use a stream."""
    torch.accelerator.set_stream(stream)


def stream(stream: torch.Stream) -> torch.Stream:
    """A context in which this thread uses a stream."""
    return stream


# --- memory -----------------------------------------------------------------------------------------------------------


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """What the allocator has counted on a card, by the names of ``torch.cuda.memory_stats``; sizes are in bytes."""
    _extension()
    return dict(torch.accelerator.memory_stats(_index(device)))


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes of a card that tensors take up."""
    return int(memory_stats(device)["allocated_bytes.all.current"])


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most bytes of a card that tensors have taken up since the last ``reset_peak_memory_stats``."""
    return int(memory_stats(device)["allocated_bytes.all.peak"])


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes of a card that the allocator holds, for tensors and for those to come."""
    return int(memory_stats(device)["reserved_bytes.all.current"])


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The most bytes of a card that the allocator has held since the last ``reset_peak_memory_stats``."""
    return int(memory_stats(device)["reserved_bytes.all.peak"])


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Begins the peaks of a card's memory again from what is allocated now."""
    _extension()
    torch.accelerator.reset_peak_memory_stats(_index(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free bytes and all bytes of the banks of a card in which tensors lie."""
    from fpga_dynamo.device import extension

    return extension.segments().capacity(_index(device))


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the cards."""
    if is_initialized():
        torch.accelerator.empty_cache()


# --- random numbers ---------------------------------------------------------------------------------------------------


def _generator(of: DeviceLike) -> torch.Generator:
    extension = _extension()
    generator: torch.Generator = extension.default_generator(_index(of))
    return generator


def manual_seed(seed: int) -> None:
    """Seeds the current card's generator. It gives the numbers that the CPU's generator gives after the same seed."""
    from fpga_dynamo.device import extension

    def seed_current() -> None:
        _generator(None).manual_seed(int(seed))

    extension.when_started("seed of one card", seed_current)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all cards; ``torch.manual_seed`` calls it. Before the first use it takes note only."""
    from fpga_dynamo.device import extension

    def seed_each() -> None:
        for index in range(device_count()):
            _generator(index).manual_seed(int(seed))

    extension.when_started("seed of all cards", seed_each)


def seed() -> None:
    """Seeds the current card's generator with a random number."""
    _generator(None).seed()


def seed_all() -> None:
    """Seeds the generators of all cards with one random number."""
    manual_seed_all(_generator(None).seed())


def initial_seed() -> int:
    """The seed of the current card's generator."""
    return _generator(None).initial_seed()


def get_rng_state(device: DeviceLike = None) -> torch.Tensor:
    """The state of a card's generator, a uint8 tensor on the CPU."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all cards' generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = None) -> None:
    """Sets what ``get_rng_state`` has returned."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Sets what ``get_rng_state_all`` has returned."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
