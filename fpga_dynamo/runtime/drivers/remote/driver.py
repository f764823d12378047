"""The driver of a card server's cards: pyxrt's names, whose objects are at the server.

A buffer's host side is here, and a sync is what crosses the network. Arguments of a run are sent with its start, so a
launch is one round trip. Packed weights are named by their content first, and sent only if the server has not kept it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fpga_dynamo._native import (
    XclbinError,
    card_protocol,
    ert_cmd_state,
    uuid,
    xclbin,
    xclBOSyncDirection,
    xrt_info_device,
)
from fpga_dynamo._native import bo as native_bo
from fpga_dynamo.device_address import parse
from fpga_dynamo.errors import DeviceError
from fpga_dynamo.runtime.drivers.remote import frames
from fpga_dynamo.runtime.drivers.remote.link import Link
from fpga_dynamo.runtime.drivers.remote.memory import ADDRESSABLE, view_of
from fpga_dynamo.runtime.drivers.remote.run import RemoteKernel, RemoteRun

CHUNK = 16 << 20
"""Bytes of a buffer that one request moves."""
SILENCE_SECONDS = 10.0
"""How long a host that has not answered is left alone."""
_NAMED = 1 << 15
"""Bytes from which content is named by its digest first."""
_INFO = ("bdf", "name", "offline")


class RemoteDriver:
    """The driver of one server, by its address without an index; connects when a device is first used."""

    COPIES_ON_CARD = True  # the server has the host side that its card needs
    ert_cmd_state = ert_cmd_state
    xclBOSyncDirection = xclBOSyncDirection
    xrt_info_device = xrt_info_device
    xclbin = xclbin
    uuid = uuid

    def __init__(self, name: str) -> None:
        self._address = parse(name)
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._silent_until, self._silence = 0.0, ""
        self.bo = RemoteBuffer
        self.kernel = RemoteKernel
        self.run = RemoteRun

    def link(self) -> Link:
        """The session with the server: another one once the connection has been lost."""
        with self._lock:
            if self._link is None or not self._link.is_usable:
                if self._link is not None:
                    self._link.check_process()
                self._link = self._connect()
            return self._link

    def _connect(self) -> Link:
        """A new session. A host that does not answer is not asked again for a while: each attempt takes seconds."""
        if time.monotonic() < self._silent_until:
            raise DeviceError(self._silence)
        try:
            return Link(self._address)
        except DeviceError as error:
            if isinstance(error.__cause__, TimeoutError):
                self._silent_until, self._silence = time.monotonic() + SILENCE_SECONDS, str(error)
            raise

    def enumerate_devices(self) -> int:
        """How many cards the server has. Raises DeviceError if it does not answer."""
        self.status()
        return self.link().devices

    def device(self, index: int = 0) -> RemoteDevice:
        """Card `index` of the server. Raises DeviceError if it has none of that number."""
        link = self.link()
        link.check_process()
        if not 0 <= index < link.devices:
            raise DeviceError(
                f"card server {self._address.endpoint} has no card {index}: it has {link.devices} ({link.description})"
            )
        return (OwnDevice if link.contexts else RemoteDevice)(link, index)

    def offered_xclbin(self, place: Callable[[str], Path]) -> Path | None:
        """The xclbin that the server was started with, in the file that `place` gives for its digest; None if none."""
        link = self.link()
        if link.offer is None:
            return None
        digest, nbytes = link.offer
        path = place(digest)
        if not path.exists():
            content = np.empty(nbytes, np.uint8)
            for begin in range(0, nbytes, CHUNK):
                part = content.data[begin : begin + CHUNK]
                link.request("fetch", digest=digest, offset=begin, nbytes=part.nbytes, into=[part])
            if hashlib.sha256(content.data).hexdigest() != digest:
                raise DeviceError(f"card server {self._address.endpoint} sent another xclbin than it had offered")
            temporary = path.with_name(f"{path.name}.{link.new_number()}.{threading.get_ident()}")
            temporary.write_bytes(content.data)
            temporary.replace(path)
        return path

    def status(self) -> dict[str, Any]:
        """What the server holds: clients, buffers, bytes (of them), kept_bytes (content that is kept to be reused)."""
        return self.link().request("status")


class RemoteDevice:
    """A card of a server."""

    def __init__(self, link: Link, index: int) -> None:
        self.link = link
        self.index = index
        self._number = 0
        self._loaded: dict[str, Any] = {}

    @property
    def number(self) -> int:
        """The server's device, opened at first use."""
        if not self._number:
            number = self.link.new_number()
            self.link.request("open", id=number, index=self.index)
            self._number = number
        return self._number

    def __del__(self) -> None:
        if self._number:
            self.link.drop(self._number)

    def on_lost(self, method: Callable[[], None]) -> None:
        """Has a method called when the connection is lost, and with it all that is on the card."""
        self.link.on_lost(method)

    def load_xclbin(self, file: Any, /) -> Any:
        """Configures the card from a path; the file is sent if the server has not kept it."""
        if not isinstance(file, (str, Path)):
            raise DeviceError("a card of a server loads an xclbin from a path, not from an xclbin object")
        try:
            content = np.frombuffer(Path(file).read_bytes(), np.uint8)
        except OSError as error:
            raise XclbinError(f"xclbin '{file}': {error.strerror or error}") from error
        digest = hashlib.sha256(content.data).hexdigest()
        fields: dict[str, Any] = {"device": self.number, "digest": digest}
        answer = self.link.request("load", **fields)
        if answer.get("missing"):
            for begin in range(0, max(content.nbytes, 1), CHUNK):
                part = content[begin : begin + CHUNK]
                self.link.request("put", digest=digest, nbytes=content.nbytes, offset=begin, payload=[part])
            answer = self.link.request("load", **fields, seconds=frames.GREETING_SECONDS)
        self._loaded = answer
        return uuid(answer["uuid"])

    def get_xclbin_uuid(self) -> Any:
        return uuid(self.link.request("xclbin_uuid", device=self.number)["uuid"])

    def get_info(self, what: Any, /) -> str:
        name = next(name for name in _INFO if what == getattr(xrt_info_device, name))
        return str(self.link.request("info", device=self.number, what=name)["text"])

    def memory(self) -> list[dict[str, Any]]:
        return list(self.link.request("memory", device=self.number)["banks"])


class OwnDevice(RemoteDevice):
    """An emulator of a server, of which each session has its own."""

    def context(self) -> OwnDevice:
        """The same card once more, with an xclbin and memory of its own."""
        return OwnDevice(self.link, self.index)

    def lanes(self) -> int:
        return int(self._loaded["lanes"])

    def windows(self) -> tuple[int, int]:
        least, beat = self._loaded["windows"]
        return int(least), int(beat)


class RemoteBuffer:
    """A buffer on a card of a server; its host side is in this process, made at first use."""

    flags = native_bo.flags

    def __init__(self, device: RemoteDevice, nbytes: int, flags: Any, group: int) -> None:
        self.link = device.link
        self.number = 0
        self._nbytes = nbytes
        self._has_host = flags != self.flags.device_only
        self._host: Any = None
        kind = card_protocol.NORMAL if self._has_host else card_protocol.DEVICE_ONLY
        number = self.link.new_number()
        self.link.request("bo", id=number, device=device.number, nbytes=nbytes, flags=kind, group=group)
        self.number = number

    def __del__(self) -> None:
        if self.number:
            self.link.drop(self.number)

    def size(self) -> int:
        return self._nbytes

    def address(self) -> int:
        return int(self.link.request("address", bo=self.number)["address"])

    def map(self) -> memoryview:
        return memoryview(self._side())

    def write(self, data: Any, seek: int = 0) -> None:
        view = np.frombuffer(data, np.uint8)
        self._part(view.nbytes, seek)[:] = view

    def read(self, size: int, skip: int = 0) -> Any:
        return self._part(size, skip).view(np.int8).copy()

    def write_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """As write, from memory at `address`."""
        self._part(nbytes, offset)[:] = np.frombuffer(view_of(address, nbytes), np.uint8)

    def read_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """As read, to memory at `address`."""
        np.frombuffer(view_of(address, nbytes), np.uint8)[:] = self._part(nbytes, offset)

    def sync(self, direction: Any, size: int | None = None, offset: int = 0) -> None:
        size = self._nbytes - offset if size is None else size
        side = self._part(size, offset)
        outward = direction == xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
        for begin in range(0, size, CHUNK):
            part = side[begin : begin + CHUNK].data
            fields: dict[str, Any] = {"bo": self.number, "offset": offset + begin, "nbytes": part.nbytes}
            if outward:
                self.link.request("write", payload=[part], **fields)
            else:
                self.link.request("read", into=[part], **fields)

    def upload_ptr(self, address: int, nbytes: int, offset: int = 0) -> None:
        """Memory at `address` to the card, past the host side; content that the server has kept is not sent."""
        self.send_ptr(address, nbytes, offset, named=True)

    def send_ptr(self, address: int, nbytes: int, offset: int, *, named: bool) -> None:
        """As upload_ptr. named: whether the server is to keep the content, as that of weights."""
        self._check(nbytes, offset)
        whole = view_of(address, nbytes)
        for begin in range(0, nbytes, CHUNK):
            part = whole[begin : begin + CHUNK]
            fields: dict[str, Any] = {"bo": self.number, "offset": offset + begin, "nbytes": part.nbytes}
            if named and part.nbytes >= _NAMED:
                fields["digest"] = hashlib.sha256(part).hexdigest()
                if not self.link.request("place", **fields).get("missing"):
                    continue
            self.link.request("write", payload=[part], **fields)

    def copy(self, source: RemoteBuffer, size: int = 0, source_offset: int = 0, offset: int = 0) -> None:
        """From another buffer, at the server; size 0: all."""
        fields: dict[str, Any] = {
            "bo": self.number,
            "source": source.number,
            "source_offset": source_offset,
            "offset": offset,
        }
        self.link.request("copy", nbytes=size or min(source.size(), self._nbytes), **fields)

    def populate(self) -> None:
        self.link.request("populate", bo=self.number)

    def discard(self, nbytes: int, offset: int) -> None:
        self.link.request("discard", bo=self.number, nbytes=nbytes, offset=offset)

    def _check(self, nbytes: int, offset: int) -> None:
        if offset < 0 or nbytes < 0 or offset + nbytes > self._nbytes or nbytes > ADDRESSABLE:
            raise DeviceError(f"{nbytes} bytes at offset {offset} lie outside a buffer of {self._nbytes} bytes")

    def _part(self, nbytes: int, offset: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        self._check(nbytes, offset)
        part: np.ndarray[Any, np.dtype[np.uint8]] = self._side()[offset : offset + nbytes]
        return part

    def _side(self) -> Any:
        if not self._has_host:
            raise DeviceError("a buffer of kind device_only has no host side")
        if self._host is None:
            self._host = np.zeros(self._nbytes, np.uint8)
        return self._host


_drivers: dict[str, RemoteDriver] = {}
_lock = threading.Lock()


def driver_at(name: str) -> RemoteDriver:
    """The driver of the server at an address, the same for the same address. Raises OptionError for no address."""
    canonical = parse(name).driver
    with _lock:
        return _drivers.setdefault(canonical, RemoteDriver(canonical))
