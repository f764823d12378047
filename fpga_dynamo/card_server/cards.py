"""The cards of the server's machine: the driver, who has which xclbin on a card, and how much memory clients have."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xclbin_build
from fpga_dynamo._native import DeviceMemoryError
from fpga_dynamo.card_server.content import ContentStore
from fpga_dynamo.errors import DeviceError
from fpga_dynamo.runtime.drivers import select
from fpga_dynamo.runtime.drivers.peers import behind_peers

_MOST_FILES = 16
"""xclbins that lie in the server's folder: XRT may read one after it was loaded."""


@dataclass(frozen=True)
class Limits:
    """What clients may have: `clients` at a time, `device_bytes` of all buffers, `kept_bytes` of content."""

    clients: int
    device_bytes: int
    kept_bytes: int


class Cards:
    """All cards of one driver.

    folder: for xclbins that clients send. offered: digest and content of the xclbin that clients get who name none.
    only_offered: clients may load no other.
    """

    def __init__(
        self, name: str, folder: Path, limits: Limits, offered: tuple[str, bytes] | None, only_offered: bool
    ) -> None:
        self.name = name
        self.driver: Any = select(name)
        self.count = self.driver.enumerate_devices()
        self.contexts = hasattr(self.driver.device, "context")
        self.limits = limits
        self.content = ContentStore(limits.kept_bytes)
        self.offered = offered
        self._only_offered = only_offered
        self._folder = folder
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._used = 0
        self._loaded: dict[int, tuple[str, set[object]]] = {}
        self._files: list[Path] = []

    def open(self, index: int) -> Any:
        """A card; an emulator with memory and compute units of its own."""
        if index >= self.count:
            raise DeviceError(f"there is no card {index}: the server has {self.count}")
        device = self.driver.device(index)
        return device.context() if self.contexts else device

    def take(self, nbytes: int) -> None:
        """Counts memory of a card that a client is about to get. Raises DeviceMemoryError if it would be too much."""
        with self._lock:
            if self._used + nbytes > self.limits.device_bytes:
                raise DeviceMemoryError(
                    f"a buffer of {nbytes} bytes: {self._used} of {self.limits.device_bytes} bytes are in use by all "
                    "clients of the server (--memory)"
                )
            self._used += nbytes

    def give(self, nbytes: int) -> None:
        """Counts memory that a client has given back."""
        with self._lock:
            self._used -= nbytes

    @property
    def used(self) -> int:
        """Bytes of all buffers of all clients."""
        return self._used

    def load(self, session: object, index: int, device: Any, digest: str) -> tuple[Any, Any] | None:
        """Loads an xclbin by its digest: the driver for it, and its UUID; None if the content is not there.

        Raises DeviceError if other clients use the card with another one.
        """
        offered = self.offered is not None and self.offered[0] == digest
        if self._only_offered and not offered:
            raise DeviceError("the server loads no xclbin but its own (--only-own-xclbin): leave option 'xclbin' out")
        content = self.offered[1] if offered and self.offered is not None else self.content.get(digest)
        if content is None:
            return None
        path = self._written(digest, content)
        if self.contexts:
            return self._peers(path), device.load_xclbin(str(path))
        with self._loading:
            self._check_shared(session, index, digest)
            uuid = device.load_xclbin(str(path))
            users = self._loaded[index][1] if index in self._loaded else set()
            self._loaded[index] = (digest, users | {session})
        return self._peers(path), uuid

    def _peers(self, path: Path) -> Any:
        try:
            return behind_peers(self.driver, xclbin_build.axlf.read(path).manifest)
        except (xclbin_build.XclbinError, KeyError):  # of no recipe of ours: plain kernels
            return self.driver

    def forget(self, session: object) -> None:
        """The session has ended, and uses no card any more."""
        with self._loading:
            for _, users in self._loaded.values():
                users.discard(session)

    def _check_shared(self, session: object, index: int, digest: str) -> None:
        current, users = self._loaded.get(index, ("", set()))
        others = len(users - {session})
        if others and current != digest:
            raise DeviceError(
                f"card {index} runs another xclbin for {others} other client(s) of the server; use that one, or try "
                "again when they have gone"
            )

    def _written(self, digest: str, content: bytes) -> Path:
        path = self._folder / f"{digest}.xclbin"
        with self._lock:
            if path not in self._files:
                path.write_bytes(content)
                self._files.append(path)
                for old in self._files[:-_MOST_FILES]:
                    old.unlink(missing_ok=True)
                del self._files[:-_MOST_FILES]
        return path
