"""The client's connections to one card server.

Connections that belong together are a session, which has the buffers and runs of this process on that server. A request
has a connection for itself until its answer has come; threads that make requests at the same time have several. A
session ends with any of its connections: nothing that it had is there any more, and who needs it opens the card again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import socket
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fpga_dynamo._native import DeviceMemoryError, XclbinError, card_protocol
from fpga_dynamo.device_address import DeviceAddress
from fpga_dynamo.errors import DeviceError, OptionError
from fpga_dynamo.runtime.drivers.remote import frames, token

ANSWER_SECONDS = 60.0
"""Seconds until a server that is reached must have answered, besides what a run may take."""
_CONNECT_SECONDS = 10.0
_BATCH_SECONDS = 0.2
"""How long the server is not told what has been dropped, if no request comes before."""
_END = -1
_MOST_PAYLOAD = 1 << 62
"""Of an answer: the client knows how much it has asked for."""
_ERRORS: dict[str, type[DeviceError]] = {
    card_protocol.MEMORY_ERROR: DeviceMemoryError,
    card_protocol.XCLBIN_ERROR: XclbinError,
}


class Link:
    """A session with a server. Raises DeviceError if the server refuses or cannot be reached,
    OptionError for an unusable token file.

    Attributes that the server tells: `devices` (their number), `contexts` (whether each device is one's own), `offer`
    (digest and bytes of its xclbin, or None).
    """

    def __init__(self, address: DeviceAddress) -> None:
        self._address = address
        self._token = token.read_token(_named(address.token_file, "FPGA_DYNAMO_TOKEN_FILE", "token-file"))
        self._tls = _tls_context(address) if address.scheme == "tls" else None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: deque[socket.socket] = deque()
        self._all: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._freeing = threading.Lock()
        self._garbage: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        self._lost = ""
        self._session = ""
        self._on_lost: list[weakref.WeakMethod[Callable[[], None]]] = []
        self._idle.append(self._connect())
        threading.Thread(target=_free_garbage, args=(weakref.ref(self), self._garbage), daemon=True).start()
        weakref.finalize(self, self._garbage.put, _END)

    @property
    def is_usable(self) -> bool:
        """Whether requests of this process can be answered, as far as is known."""
        return not self._lost and self._process == os.getpid()

    def check_process(self) -> None:
        """Raises DeviceError in a child that was forked: the connections are its parent's."""
        if self._process != os.getpid():
            raise DeviceError(
                "this process was forked after a card had been opened, which it cannot use; open cards in the child"
            )

    def new_number(self) -> int:
        """A number by which the server is to know an object of this session."""
        return next(self._numbers)

    def drop(self, number: int) -> None:
        """The object is no longer needed; the next request says so, or one of its own. May be called by the garbage
        collector."""
        self._garbage.put(number)

    def free(self) -> None:
        """Tells the server what has been dropped, unless a request is under way, which others follow."""
        with self._freeing, contextlib.suppress(IndexError, DeviceError):  # busy, or lost, as the next request says
            connection = self._idle.pop()
            self._request_on(connection, {"op": "free", "free": _drained(self._garbage)})

    def close(self) -> None:
        """Ends the session, and with it all that it has at the server."""
        self._lose("it was closed here")

    def on_lost(self, method: Callable[[], None]) -> None:
        """Has a method called, held weakly, when the session ends."""
        self._on_lost.append(weakref.WeakMethod(method))

    def request(
        self,
        operation: str,
        *,
        payload: Sequence[Any] = (),
        into: Sequence[memoryview] = (),
        seconds: float = 0.0,
        **fields: Any,
    ) -> dict[str, Any]:
        """The answer to a request. into: what its payload is received in; seconds: what the operation itself takes.

        Raises DeviceError with the server's sentence, and if the connection is lost.
        """
        self.check_process()
        if self._lost:
            raise self._error()
        head = {"op": operation, **fields}
        if not self._garbage.empty():
            head["free"] = _drained(self._garbage)
        return self._request_on(self._take(), head, payload, into, seconds)

    def _request_on(
        self,
        connection: socket.socket,
        head: dict[str, Any],
        payload: Sequence[Any] = (),
        into: Sequence[memoryview] = (),
        seconds: float = 0.0,
    ) -> dict[str, Any]:
        try:
            connection.settimeout(ANSWER_SECONDS + seconds)
            frames.send(connection, head, payload)
            answer = self._receive(connection, into)
        except (OSError, DeviceError) as error:
            self._lose(_reason(error, ANSWER_SECONDS + seconds))
            raise self._error() from error
        except BaseException:  # an interrupt, after which nobody knows what of a frame is still to come
            self._lose("it was interrupted in the middle of a request")
            raise
        self._idle.append(connection)
        return self._checked(answer)

    def _receive(self, connection: socket.socket, into: Sequence[memoryview]) -> dict[str, Any]:
        answer, nbytes = frames.receive_head(connection, frames.MOST_HEAD, _MOST_PAYLOAD)
        expected = sum(view.nbytes for view in into)
        if nbytes not in (0, expected):
            raise DeviceError(f"the server sent {nbytes} bytes where {expected} were expected")
        for view in into if nbytes else ():
            frames.receive_into(connection, view)
        return answer

    def _checked(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "error" in answer:
            kind = _ERRORS.get(str(answer["error"]), DeviceError)
            raise kind(f"card server {self._address.endpoint}: {answer.get('text')}")
        return answer

    def _take(self) -> socket.socket:
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        with self._freeing, contextlib.suppress(IndexError):  # whose connection is idle in a moment
            return self._idle.pop()
        return self._connect()

    def _connect(self) -> socket.socket:
        where = self._address.endpoint
        connection: socket.socket | None = None
        try:
            connection = socket.create_connection((self._address.host, self._address.port), _CONNECT_SECONDS)
            frames.prepare(connection)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_hostname=self._address.host)
            self._greet(connection)
        except (OSError, UnicodeError, frames.FrameError) as error:
            if connection is not None:
                connection.close()
            reason = _reason(error, _CONNECT_SECONDS)
            raise DeviceError(f"card server {where} cannot be reached: {reason}; see `fpga-dynamo doctor`") from error
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        with self._lock:
            self._all.add(connection)
        return connection

    def _greet(self, connection: socket.socket) -> None:
        """Proves the token, has the server prove it, and joins the session."""
        numbers = {"client": token.nonce()}
        hello = {"op": "hello", "protocol": frames.PROTOCOL, "nonce": numbers["client"], "session": self._session}
        numbers["server"] = str(self._exchange(connection, hello).get("nonce"))
        answer = self._exchange(connection, {"op": "prove", "proof": token.proof(self._token, "client", numbers)})
        if not token.is_proof(answer.get("proof"), self._token, "server", numbers):
            raise DeviceError(f"card server {self._address.endpoint} does not know the token that this process has")
        self._session = str(answer.get("session"))
        self.devices = int(answer.get("devices", 0))
        self.contexts = bool(answer.get("contexts"))
        self.offer: tuple[str, int] | None = tuple(answer["offer"]) if answer.get("offer") else None
        self.description = str(answer.get("description"))

    def _exchange(self, connection: socket.socket, head: dict[str, Any]) -> dict[str, Any]:
        frames.send(connection, head)
        return self._checked(self._receive(connection, ()))

    def _lose(self, reason: str) -> None:
        with self._lock:
            if self._lost:
                return
            self._lost = reason
            connections = list(self._all)
        self._idle.clear()
        for connection in connections:
            _shut(connection)
        for reference in self._on_lost:
            method = reference()
            if method is not None:
                method()

    def _error(self) -> DeviceError:
        return DeviceError(
            f"the connection to card server {self._address.endpoint} was lost ({self._lost}); the next call connects "
            "again"
        )


def _drained(waiting: queue.SimpleQueue[int]) -> list[int]:
    numbers = []
    with contextlib.suppress(queue.Empty):
        while True:
            numbers.append(waiting.get_nowait())
    return numbers


def _free_garbage(reference: weakref.ref[Link], waiting: queue.SimpleQueue[int]) -> None:
    """Has an idle client's memory given back, in a thread that lives as long as its link."""
    while (number := waiting.get()) != _END:
        waiting.put(number)
        time.sleep(_BATCH_SECONDS)
        link = reference()
        if link is None or not link.is_usable:
            return
        link.free()
        del link


def _shut(connection: socket.socket) -> None:
    """Ends a connection under the hands of whoever waits for it."""
    with contextlib.suppress(OSError):  # it has ended
        connection.shutdown(socket.SHUT_RDWR)


def _reason(error: Exception, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message} (ca-file, or $FPGA_DYNAMO_CA_FILE, names one)"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _named(given: str, variable: str, key: str) -> str:
    name = given or os.environ.get(variable, "")
    if not name:
        raise OptionError(f"a card server needs a token: set {variable}, or add ?{key}=FILE to the address")
    return name


def _tls_context(address: DeviceAddress) -> ssl.SSLContext:
    authority = address.ca_file or os.environ.get("FPGA_DYNAMO_CA_FILE") or None
    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise OptionError(f"certificate {authority!r} cannot be read: {error.strerror or error}") from error
