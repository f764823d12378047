"""A card with its xclbin loaded: kernels, compute units, the weights region, and the scheduler in front of it."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import xclbin_build
from fpga_dynamo.device_address import parse
from fpga_dynamo.errors import DeviceError, XclbinError
from fpga_dynamo.ir.target import Target, Windows
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.cards.target import read_target
from fpga_dynamo.runtime.cards.weights import WeightStore
from fpga_dynamo.runtime.drivers import choose, select
from fpga_dynamo.runtime.drivers.peers import behind_peers
from fpga_dynamo.runtime.scheduling.scheduler import Scheduler
from fpga_dynamo.runtime.task import ProcessingElement
from xclbin_build import cache
from xclbin_build import recipe as recipes
from xclbin_build.progress import shown

log = logging.getLogger(__name__)

COMMANDS, COUNT, ARENA, WEIGHTS = range(4)
"""Arguments of a kernel that runs command lists."""


class CardUser(Protocol):
    """Who has started something on a card that does not ask it each time."""

    def card_displaced(self) -> None: ...


class Card:
    """One device with one xclbin. Made by :func:`open_card`, shared by all programs that run on it.

    displaced: whether the device has been loaded with another xclbin since, which the emulator never is: it holds
    several at once. Programs of a displaced card ask :func:`reopen` for its successor.
    """

    def __init__(self, driver: Any, index: int, path: Path, target: Target) -> None:
        self.driver = driver
        self.index = index
        self.path = path
        device = driver.device(index)
        self.holds_several = hasattr(device, "context")
        self.device = device.context() if self.holds_several else device
        self.key = ("", index)  # driver and device, as options name them
        self.displaced = False
        if hasattr(self.device, "on_lost"):  # a card server's: with the connection goes what is on the card
            self.device.on_lost(self.displace)
        self._users: weakref.WeakSet[CardUser] = weakref.WeakSet()
        with utf8_path(path) as name:
            self.uuid = self.device.load_xclbin(name)
        self.target = target
        if hasattr(self.device, "lanes"):  # the emulator's
            self.target = replace(target, lanes=self.device.lanes(), windows=Windows(*self.device.windows()))
        self.kernels: dict[tuple[str, int], Any] = {}
        self.pes: list[ProcessingElement] = []
        self.peers: dict[str, tuple[str, ...]] = {}  # of a PE whose launches others share, all of them
        for kernel in target.manifest["kernels"]:
            units = kernel["compute_units"]
            if kernel.get("together"):
                self.peers[units[0]["name"]] = tuple(unit["name"] for unit in units)
                units = units[:1]
            for i, unit in enumerate(units):
                name = f"{kernel['name']}:{{{unit['name']}}}"
                self.kernels[kernel["name"], i] = driver.kernel(self.device, self.uuid, name)
                self.pes.append(ProcessingElement(unit["name"], "PL", kernel["name"], i))
        groups = {self.kernels[k.name, 0].group_id(WEIGHTS) for k in target.kernels}
        if len(groups) > 1:
            raise DeviceError(
                f"{path}: the kernels that run command lists read their weights from different banks "
                f"({sorted(groups)}); connect argument 'weights' of all of them to one bank in the recipe"
            )
        self.weights = WeightStore(driver, self.device, groups.pop() if groups else 0)  # 0: nobody packs any
        self.plain_units: dict[str, Any] = {}  # by kernel, see plain_units.py
        self._schedulers: dict[str, Scheduler] = {}
        self._lock = threading.Lock()

    def scheduler(self, policy: str) -> Scheduler:
        """The scheduler with this policy over the card's compute units and the host's threads."""
        with self._lock:
            if policy not in self._schedulers:
                threads = os.cpu_count() or 1
                hosts = [ProcessingElement(f"ps{i}", "PS", None, i) for i in range(threads)]
                self._schedulers[policy] = Scheduler([*self.pes, *hosts], policy)
            return self._schedulers[policy]

    def add_user(self, user: CardUser) -> None:
        """Has `user` told when another xclbin takes this one's place."""
        self._users.add(user)

    def displace(self) -> None:
        """Says that the device is about to get another xclbin: nothing more is to be started here."""
        self.displaced = True
        for user in list(self._users):
            user.card_displaced()

    def succeed(self, former: Card) -> None:
        """Takes over the schedulers of a card with the same xclbin, which was displaced."""
        self.pes, self._schedulers, self._lock = former.pes, former._schedulers, former._lock

    def aliases(self, kernel: str, argument: int) -> tuple[int, ...]:
        """The kernel's arguments that take the buffer of this one, too."""
        (info,) = (k for k in self.target.kernels if k.name == kernel)
        return tuple(other for other, same in info.same_as.items() if same == argument)

    def run(self, kernel: str, unit: int) -> Any:
        """A run of one of the kernel's compute units; on a card one that looks at the status record."""
        made = self.driver.run(self.kernels[kernel, unit])
        if self.target.is_hardware:
            made.reads_status = True
        return made

    def buffer(self, kernel: str, argument: int, nbytes: int, *, host: bool) -> Any:
        """A buffer object for an argument of a kernel; without `host` it has no host side."""
        bo = self.driver.bo
        flags = bo.flags.normal if host else bo.flags.device_only
        return bo(self.device, nbytes, flags, self.kernels[kernel, 0].group_id(argument))


_cards: dict[tuple[str, int], Card] = {}
"""Of each driver and index that with the xclbin that was asked for last."""
_several: weakref.WeakValueDictionary[tuple[str, int, str], Card] = weakref.WeakValueDictionary()
"""All that programs still use of a device that holds several, by UUID, too."""
_beside: dict[tuple[str, int, str], Card] = {}
"""Of a device that holds several those with a plain kernel's own xclbin, by UUID, too: as long as the process."""
_alternating: set[tuple[str, int]] = set()
_lock = threading.Lock()


def open_card(options: Options) -> Card:
    """The card that the options name, with their xclbin loaded (built first if they name none).

    Models compiled before for another xclbin go on working: the emulator holds several, any other card is loaded
    again by turns.

    Raises XclbinError for a file that cannot be used, DeviceError if the card does not take it, as while a run is under
    way.
    """
    with _lock:
        path = xclbin_path(options)
        target = read_target(path)
        return _open_card(*_place(options.driver, options.device, target), path, target)


def _place(driver: str | None, device: int | str, target: Target) -> tuple[str, int]:
    """The name of the driver for an xclbin, and the index of the card, that the options 'driver' and 'device' say."""
    if isinstance(device, str):
        address = parse(device)
        return address.driver, address.index
    return choose(driver, target.manifest["target"]), device


def open_beside(path: Path, driver: str | None, device: int | str) -> Card:
    """The card with the xclbin of a plain kernel, which leaves the xclbin of models where it is if the card can.

    Raises as :func:`open_card`.
    """
    with _lock:
        target = read_target(path)
        name, index = _place(driver, device, target)
        selected = select(name)
        if not hasattr(selected.device(index), "context"):
            return _open_card(name, index, path, target)
        several = (name, index, target.uuid)
        card = _several.get(several) or _beside.get(several)
        if card is None or card.displaced:
            card = Card(selected, index, path, target)
            card.key = (name, index)
        _beside[several] = card
        return card


def reopen(card: Card) -> Card:
    """The card with the xclbin of `card`, which was displaced by another.

    Raises DeviceError if it cannot be loaded now.
    """
    with _lock:
        other = _cards.get(card.key)
        if card.key not in _alternating and other is not None and other.target.uuid != card.target.uuid:
            _alternating.add(card.key)
            log.warning(
                "card %d alternates between %s and %s; each load takes time and packs all parameters again. Option "
                "'device' gives each model its own card",
                card.index,
                other.path,
                card.path,
            )
        return _open_card(*card.key, card.path, card.target, former=card)


def _open_card(name: str, index: int, path: Path, target: Target, former: Card | None = None) -> Card:
    key = (name, index)
    card = _cards.get(key)
    if card is not None and card.target.uuid == target.uuid and not card.displaced:
        return card
    several = (name, index, target.uuid)
    if (kept := _several.get(several)) is not None and not kept.displaced:
        _cards[key] = kept
        return kept
    if card is not None and not card.holds_several:
        card.displace()
    _cards.pop(key, None)  # if the card refuses the file: the kernels opened on it may be closed for good
    fresh = _cards[key] = Card(behind_peers(select(name), target.manifest), index, path, target)
    fresh.key = key
    if former is not None:
        fresh.succeed(former)
    if fresh.holds_several:
        _several[several] = fresh
    return fresh


def xclbin_path(options: Options, isa: str | None = None) -> Path:
    """The xclbin of the options; built from their recipe and cached per user if they name none.

    A card server that offers its own is asked for that, unless the options name a platform or recipe.

    isa: instruction set that its kernels are compiled for, by default as of ``xclbin_build.cached``.
    Raises :class:`XclbinError` if it cannot be built.
    """
    if options.xclbin is not None:
        return Path(options.xclbin)
    if isinstance(options.device, str) and options.platform is None and options.recipe is None:
        driver: Any = select(parse(options.device).driver)
        offered: Path | None = driver.offered_xclbin(_place_of_offer)
        if offered is not None:
            return offered
    path = _built(options.recipe, options.platform, isa)
    if not path.exists():  # the cache may be deleted at any time
        _built.cache_clear()
        path = _built(options.recipe, options.platform, isa)
    return path


def _place_of_offer(digest: str) -> Path:
    """Where the xclbin of a card server is kept."""
    return cache.folder("card-servers") / f"{digest}.xclbin"


@functools.cache
def _built(recipe: str | None, platform: str | None, isa: str | None) -> Path:
    # Once per process: looking whether sources have changed takes longer than compiling a small model.
    try:
        what = f"the emulator's xclbin, first time only (recipe {recipes.chosen(recipe, platform)})"
        return xclbin_build.cached(recipe, "emu", platform=platform, isa=isa, show=shown(what))
    except xclbin_build.BuildError as error:
        raise XclbinError(str(error)) from error


@contextlib.contextmanager
def utf8_path(path: Path) -> Iterator[str]:
    """A path to a file that drivers can open, who take UTF-8 alone."""
    try:
        name = str(path)
        name.encode()
    except UnicodeEncodeError:
        with path.open("rb") as file:
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        yield name


def opened_cards() -> list[Card]:
    """Cards that this process has opened."""
    with _lock:
        return list(_cards.values())
