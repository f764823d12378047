"""What one client has at the server, and the operations on it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fpga_dynamo._native import card_protocol
from fpga_dynamo.card_server.cards import Cards
from fpga_dynamo.card_server.fields import Fields
from fpga_dynamo.card_server.runs import Launch, ServedRun
from fpga_dynamo.errors import DeviceError

_FLAGS = (card_protocol.NORMAL, card_protocol.DEVICE_ONLY)

Answer = dict[str, Any]
Payload = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(eq=False)
class ServedDevice:
    """A card of a session. driver: that of the xclbin which is loaded."""

    index: int
    handle: Any
    driver: Any


@dataclass(eq=False)
class ServedKernel:
    """A kernel of a device."""

    handle: Any
    driver: Any


@dataclass(eq=False)
class ServedBuffer:
    """A buffer of a device. copies: whether the card's side is reached without a host side."""

    handle: Any
    driver: Any
    nbytes: int
    copies: bool

    def put(self, address: int, nbytes: int, offset: int) -> None:
        """Memory at `address` to the card."""
        if self.copies:
            self.handle.upload_ptr(address, nbytes, offset)
            return
        self.handle.write_ptr(address, nbytes, offset)
        self.handle.sync(self.driver.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, nbytes, offset)

    def fetch(self, address: int, nbytes: int, offset: int) -> None:
        """From the card to memory at `address`."""
        self.handle.sync(self.driver.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE, nbytes, offset)
        self.handle.read_ptr(address, nbytes, offset)

    def check(self, nbytes: int, offset: int) -> None:
        """Raises DeviceError for a part that does not lie in the buffer."""
        if offset + nbytes > self.nbytes:
            raise DeviceError(f"{nbytes} bytes at offset {offset} lie outside a buffer of {self.nbytes} bytes")


class Session:
    """The devices, kernels, buffers and runs of one client. Its connections ask at the same time."""

    def __init__(self, cards: Cards) -> None:
        self._cards = cards
        self._lock = threading.Lock()
        self._objects: dict[int, Any] = {}
        self._uploads: dict[str, np.ndarray[Any, Any]] = {}
        self.closed = False
        self._operations: dict[str, Callable[[Fields, Payload], tuple[Answer, Sequence[Any]] | Answer]] = {
            "free": lambda *_: {},
            "open": self._open,
            "load": self._load,
            "put": self._put,
            "fetch": self._fetch,
            "xclbin_uuid": lambda fields, _: {"uuid": self._device(fields).handle.get_xclbin_uuid().to_string()},
            "info": self._info,
            "memory": self._memory,
            "kernel": self._kernel,
            "group": self._group,
            "bo": self._bo,
            "address": lambda fields, _: {"address": self._buffer(fields).handle.address()},
            "write": self._write,
            "place": self._place,
            "read": self._read,
            "copy": self._copy,
            "populate": self._populate,
            "discard": self._discard,
            "start": self._execute,
            "execute": self._execute,
            "wait": lambda fields, _: self._run(fields).wait(
                max(fields.number("timeout_ms", card_protocol.MOST_TIMEOUT_MS), 1)
            ),
            "state": lambda fields, _: self._run(fields).answer(),
            "abort": lambda fields, _: self._run(fields).abort(),
        }

    def answer(self, head: dict[str, Any], payload: Payload) -> tuple[Answer, Sequence[Any]]:
        """The head and payload of the answer to a request. Raises DeviceError, with a sentence, for what cannot be."""
        fields = Fields(head)
        self._free(fields.numbers("free"))
        operation = self._operations.get(fields.text("op"))
        if operation is None:
            raise DeviceError(f"the server knows no operation '{fields.text('op')}'")
        made = operation(fields, payload)
        return made if isinstance(made, tuple) else (made, ())

    def close(self) -> None:
        """Ends runs that are under way, and gives everything back."""
        with self._lock:
            self.closed = True
            objects = list(self._objects.values())
            self._objects.clear()
            self._uploads.clear()
        for found in objects:
            if isinstance(found, ServedRun):
                found.end()
        self._cards.give(sum(found.nbytes for found in objects if isinstance(found, ServedBuffer)))
        self._cards.forget(self)

    @property
    def buffers(self) -> int:
        """How many buffers the client has."""
        with self._lock:
            return sum(isinstance(found, ServedBuffer) for found in self._objects.values())

    # Objects

    def _add(self, fields: Fields, made: Any, name: str = "id") -> None:
        number = fields.number(name)
        with self._lock:
            if self.closed:
                raise DeviceError("the session has ended")
            if number in self._objects or len(self._objects) >= card_protocol.MOST_OBJECTS:
                raise DeviceError(
                    f"a session has at most {card_protocol.MOST_OBJECTS} objects, each with a number of its own"
                )
            self._objects[number] = made

    def _find(self, fields: Fields, name: str, kind: type[Any]) -> Any:
        found = self._objects.get(fields.number(name))
        if not isinstance(found, kind):
            raise DeviceError(f"field '{name}' of a request names no {name} of this session")
        return found

    def _device(self, fields: Fields) -> ServedDevice:
        found: ServedDevice = self._find(fields, "device", ServedDevice)
        return found

    def _buffer(self, fields: Fields, name: str = "bo") -> ServedBuffer:
        found: ServedBuffer = self._find(fields, name, ServedBuffer)
        return found

    def _run(self, fields: Fields) -> ServedRun:
        found: ServedRun = self._find(fields, "run", ServedRun)
        return found

    def _free(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            with self._lock:
                found = self._objects.pop(number, None)
            if isinstance(found, ServedBuffer):
                self._cards.give(found.nbytes)

    # Devices

    def _open(self, fields: Fields, _: Payload) -> Answer:
        index = fields.number("index", card_protocol.MOST_INDEX)
        self._add(fields, ServedDevice(index, self._cards.open(index), self._cards.driver))
        return {}

    def _load(self, fields: Fields, _: Payload) -> Answer:
        device = self._device(fields)
        loaded = self._cards.load(self, device.index, device.handle, fields.digest())
        if loaded is None:
            return {"missing": True}
        device.driver, uuid = loaded
        answer: Answer = {"uuid": uuid.to_string()}
        if self._cards.contexts:
            answer |= {"lanes": device.handle.lanes(), "windows": list(device.handle.windows())}
        return answer

    def _put(self, fields: Fields, payload: Payload) -> Answer:
        """A part of an xclbin; the parts come in their order."""
        digest, offset, nbytes = fields.digest(), fields.number("offset"), fields.number("nbytes")
        if nbytes > self._cards.limits.kept_bytes or offset + payload.nbytes > nbytes:
            raise DeviceError(
                f"a part of {payload.nbytes} bytes at {offset} does not lie in a content of {nbytes} bytes, of at most "
                f"{self._cards.limits.kept_bytes} (--keep)"
            )
        with self._lock:
            whole = self._uploads.get(digest)
            if whole is None or whole.nbytes != nbytes:
                if self.closed or len(self._uploads) >= card_protocol.MOST_UPLOADS:
                    raise DeviceError(f"a session sends at most {card_protocol.MOST_UPLOADS} files at a time")
                whole = self._uploads[digest] = np.zeros(nbytes, np.uint8)
        whole[offset : offset + payload.nbytes] = payload
        if offset + payload.nbytes == nbytes:
            with self._lock:
                self._uploads.pop(digest, None)
            self._cards.content.put(digest, whole)
        return {}

    def _fetch(self, fields: Fields, _: Payload) -> tuple[Answer, Sequence[Any]]:
        """A part of the server's own xclbin."""
        offered, offset, nbytes = self._cards.offered, fields.number("offset"), fields.number("nbytes")
        if offered is None or fields.digest() != offered[0] or offset + nbytes > len(offered[1]):
            raise DeviceError("the server offers no such part of an xclbin")
        return {}, [memoryview(offered[1])[offset : offset + nbytes]]

    def _info(self, fields: Fields, _: Payload) -> Answer:
        what = getattr(self._cards.driver.xrt_info_device, fields.text("what"), None)
        if fields.text("what") not in ("bdf", "name", "offline") or what is None:
            raise DeviceError(f"a card has no information called '{fields.text('what')}'")
        return {"text": str(self._device(fields).handle.get_info(what))}

    def _memory(self, fields: Fields, _: Payload) -> Answer:
        handle = self._device(fields).handle
        return {"banks": list(handle.memory()) if hasattr(handle, "memory") else []}  # AMD's module has none

    def _kernel(self, fields: Fields, _: Payload) -> Answer:
        device = self._device(fields)
        uuid = self._cards.driver.uuid(fields.text("uuid"))
        made = device.driver.kernel(device.handle, uuid, fields.text("name"))
        self._add(fields, ServedKernel(made, device.driver))
        return {}

    def _group(self, fields: Fields, _: Payload) -> Answer:
        kernel: ServedKernel = self._find(fields, "kernel", ServedKernel)
        return {"group": kernel.handle.group_id(fields.number("argument", card_protocol.MOST_ARGUMENT))}

    # Buffers

    def _bo(self, fields: Fields, _: Payload) -> Answer:
        device, nbytes, flags = self._device(fields), fields.number("nbytes"), fields.text("flags")
        if flags not in _FLAGS:
            raise DeviceError(f"a buffer is {' or '.join(_FLAGS)}, not '{flags}'")
        driver = device.driver
        copies = bool(driver.COPIES_ON_CARD) and flags == card_protocol.DEVICE_ONLY
        kind = driver.bo.flags.device_only if copies else driver.bo.flags.normal
        self._cards.take(nbytes)
        try:
            made = driver.bo(device.handle, nbytes, kind, fields.number("group", card_protocol.MOST_INDEX))
            self._add(fields, ServedBuffer(made, driver, nbytes, copies))
        except BaseException:
            self._cards.give(nbytes)
            raise
        return {}

    def _write(self, fields: Fields, payload: Payload) -> Answer:
        """Bytes to the card; with a digest they are kept for the next time."""
        buffer, offset = self._buffer(fields), fields.number("offset")
        buffer.check(payload.nbytes, offset)
        if fields.has("digest"):
            self._cards.content.put(fields.digest(), payload)
        if payload.nbytes:
            buffer.put(payload.ctypes.data, payload.nbytes, offset)
        return {}

    def _place(self, fields: Fields, _: Payload) -> Answer:
        """Bytes that the server has kept to the card."""
        buffer, offset, nbytes = self._buffer(fields), fields.number("offset"), fields.number("nbytes")
        buffer.check(nbytes, offset)
        content = self._cards.content.get(fields.digest())
        if content is None or len(content) != nbytes:
            return {"missing": True}
        buffer.put(np.frombuffer(content, np.uint8).ctypes.data, nbytes, offset)
        return {}

    def _read(self, fields: Fields, _: Payload) -> tuple[Answer, Sequence[Any]]:
        buffer, offset, nbytes = self._buffer(fields), fields.number("offset"), fields.number("nbytes")
        buffer.check(nbytes, offset)
        made = np.empty(nbytes, np.uint8)
        if nbytes:
            buffer.fetch(made.ctypes.data, nbytes, offset)
        return {}, [made]

    def _copy(self, fields: Fields, _: Payload) -> Answer:
        target, source = self._buffer(fields), self._buffer(fields, "source")
        nbytes, to, begin = fields.number("nbytes"), fields.number("offset"), fields.number("source_offset")
        target.check(nbytes, to)
        source.check(nbytes, begin)
        if source.driver.COPIES_ON_CARD:
            target.handle.copy(source.handle, nbytes, begin, to)
        elif nbytes:
            through = np.empty(nbytes, np.uint8)
            source.fetch(through.ctypes.data, nbytes, begin)
            target.put(through.ctypes.data, nbytes, to)
        return {}

    def _populate(self, fields: Fields, _: Payload) -> Answer:
        buffer = self._buffer(fields)
        if hasattr(buffer.handle, "populate"):
            buffer.handle.populate()
        return {}

    def _discard(self, fields: Fields, _: Payload) -> Answer:
        buffer, nbytes, offset = self._buffer(fields), fields.number("nbytes"), fields.number("offset")
        buffer.check(nbytes, offset)
        if hasattr(buffer.handle, "discard"):
            buffer.handle.discard(nbytes, offset)
        return {}

    # Runs

    def _execute(self, fields: Fields, payload: Payload) -> tuple[Answer, Sequence[Any]]:
        run = self._made_run(fields)
        buffer = self._buffer(fields) if fields.number("bo") else None
        inputs, outputs = fields.pieces("inputs"), fields.pieces("outputs")
        for nbytes, offset in (*inputs, *outputs):
            if buffer is None:
                raise DeviceError("a launch with inputs or outputs names the buffer in which they lie")
            buffer.check(nbytes, offset)
        if sum(nbytes for nbytes, _ in inputs) != payload.nbytes:
            raise DeviceError(f"the inputs of a launch do not have the {payload.nbytes} bytes that were sent")
        for index, value in fields.arguments().items():
            run.set_arg(index, self._argument(index, value))
        if fields.text("op") == "start":
            return run.start(), ()
        launch = Launch(
            inputs=inputs,
            outputs=outputs,
            payload=payload,
            timeout_ms=fields.number("timeout_ms", card_protocol.MOST_TIMEOUT_MS),
            reads_status=fields.flag("reads_status"),
            traced=fields.flag("traced"),
        )
        return run.execute(launch, None if buffer is None else buffer.handle)

    def _made_run(self, fields: Fields) -> ServedRun:
        known = self._objects.get(fields.number("run"))
        if known is not None:
            return self._run(fields)
        kernel: ServedKernel = self._find(fields, "kernel", ServedKernel)
        made = ServedRun(kernel.driver.run(kernel.handle), kernel.driver, lambda: self.closed)
        self._add(fields, made, "run")
        return made

    def _argument(self, index: int, value: Any) -> Any:
        if value is None or type(value) is int:
            return value
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            kind, text = value
            if kind == "float":
                return float.fromhex(text)
            if kind == "bytes":
                return bytes.fromhex(text)
            if kind == "bo":
                return self._buffer(Fields({"bo": text})).handle
        raise DeviceError(f"argument {index} of a launch is no buffer, number or bytes")
