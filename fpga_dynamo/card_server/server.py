"""The server: connections, who may have one, and their ends."""

from __future__ import annotations

import contextlib
import logging
import secrets
import select
import socket
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fpga_dynamo._native import DeviceMemoryError, XclbinError, card_protocol
from fpga_dynamo.card_server.cards import Cards
from fpga_dynamo.card_server.session import Session
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.runtime.drivers.remote import frames, token

log = logging.getLogger(__name__)

_LOOK_S = 0.5
"""Seconds after which the end of a connection is noticed while its request is under way."""
_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR
_SHARED_BYTES = 1 << 20
"""Bytes of the buffer for payloads that a connection keeps."""
_PAGE = 4096


class _RefusedError(Exception):
    """Somebody may not have a session; the sentence is for him."""


@dataclass(eq=False)
class _Client:
    session: Session
    connections: set[socket.socket] = field(default_factory=set)


class CardServer:
    """Serves the cards to everybody with the token, until :meth:`stop`.

    tls: None for connections that others can read.
    """

    def __init__(self, cards: Cards, secret: bytes, tls: ssl.SSLContext | None) -> None:
        self._cards = cards
        self._token = secret
        self._tls = tls
        self._lock = threading.Lock()
        self._clients: dict[str, _Client] = {}
        self._connections: set[socket.socket] = set()
        self._stopped = threading.Event()

    def serve(self, listener: socket.socket) -> None:
        """Accepts connections until the server is stopped."""
        listener.settimeout(_LOOK_S)
        threading.Thread(target=self._watch, daemon=True).start()
        while not self._stopped.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError as error:  # of descriptors there may be none for a while
                if self._stopped.wait(_LOOK_S):
                    break
                log.warning("a connection was not accepted: %s", error.strerror or error)
                continue
            with self._lock:
                full = len(self._connections) >= card_protocol.MOST_CONNECTIONS
                if not full:
                    self._connections.add(connection)
            if full:
                connection.close()
                continue
            threading.Thread(target=self._attend, args=(connection,), daemon=True).start()
        for connection in list(self._connections):
            _shut(connection)
        for client in list(self._clients.values()):
            client.session.close()

    def stop(self) -> None:
        """Ends all sessions, and :meth:`serve`; may be called by a signal."""
        self._stopped.set()

    # Connections

    def _attend(self, connection: socket.socket) -> None:
        """A connection from its beginning to its end."""
        raw = connection
        client: _Client | None = None
        try:
            connection.settimeout(frames.GREETING_SECONDS)
            frames.prepare(connection)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                with self._lock:
                    self._connections.discard(raw)
                    self._connections.add(connection)
            client = self._greet(connection)
            connection.settimeout(None)
            self._answer_all(connection, client)
        except _RefusedError as error:
            log.warning("a client was refused: %s", error)
            with contextlib.suppress(OSError):
                frames.send(connection, _failure(card_protocol.DEVICE_ERROR, error))
        except (OSError, frames.FrameError) as error:
            log.info("a connection ended: %s", error)
        except Exception:
            log.exception("a connection ended by a fault of the server")
        finally:
            with self._lock:
                self._connections -= {raw, connection}
            connection.close()
            if client is not None:
                self._leave(client)

    def _greet(self, connection: socket.socket) -> _Client:
        """Who has proved that he has the token. Raises _RefusedError for somebody else."""
        hello = self._greeting(connection, "hello")
        theirs = hello.get("protocol")
        if theirs != frames.PROTOCOL:
            older = "server" if isinstance(theirs, int) and theirs > frames.PROTOCOL else "client"
            raise _RefusedError(
                f"the server speaks version {frames.PROTOCOL} of the protocol, and the client version "
                f"{str(theirs)[:20]!a}; update fpga_dynamo at the {older}"
            )
        if not token.is_nonce(hello.get("nonce")):
            raise _RefusedError("the greeting has no random number")
        numbers = {"client": hello["nonce"], "server": token.nonce()}
        frames.send(connection, {"nonce": numbers["server"]})
        given = self._greeting(connection, "prove").get("proof")
        if not token.is_proof(given, self._token, "client", numbers):
            raise _RefusedError("the token is wrong: both ends need a token file with the same content")
        client, session = self._enter(connection, hello.get("session"))
        cards = self._cards
        frames.send(
            connection,
            {
                "proof": token.proof(self._token, "server", numbers),
                "session": session,
                "devices": cards.count,
                "contexts": cards.contexts,
                "offer": None if cards.offered is None else [cards.offered[0], len(cards.offered[1])],
                "description": f"driver {cards.name}",
            },
        )
        return client

    def _greeting(self, connection: socket.socket, expected: str) -> dict[str, Any]:
        head, _ = frames.receive_head(connection, frames.MOST_GREETING, 0)
        if head.get("op") != expected:
            raise frames.FrameError(f"the client sent another request where '{expected}' was expected")
        return head

    def _enter(self, connection: socket.socket, session: Any) -> tuple[_Client, str]:
        """The client of a session, a new one for "", and the session's name."""
        with self._lock:
            if session:
                client = self._clients.get(session) if isinstance(session, str) else None
                if client is None:
                    raise _RefusedError("the session has ended; open the card again")
                if len(client.connections) >= card_protocol.MOST_OF_SESSION:
                    raise _RefusedError(f"a client has at most {card_protocol.MOST_OF_SESSION} connections")
            else:
                if len(self._clients) >= self._cards.limits.clients:
                    raise _RefusedError(
                        f"the server is full: it has {len(self._clients)} client(s), the most that it was started for "
                        "(--clients)"
                    )
                session = secrets.token_hex(16)
                client = self._clients[session] = _Client(Session(self._cards))
            client.connections.add(connection)
            return client, session

    def _leave(self, client: _Client) -> None:
        """A session ends with the first of its connections that does."""
        with self._lock:
            self._clients = {name: known for name, known in self._clients.items() if known is not client}
            connections = list(client.connections)
        for connection in connections:
            _shut(connection)
        client.session.close()

    # Requests

    def _answer_all(self, connection: socket.socket, client: _Client) -> None:
        shared = _aligned(_SHARED_BYTES)
        while True:
            head, nbytes = frames.receive_head(connection, frames.MOST_HEAD, frames.MOST_PAYLOAD)
            payload = shared[:nbytes] if nbytes <= _SHARED_BYTES else _aligned(nbytes)
            frames.receive_into(connection, memoryview(payload))
            answer, pieces = self._answer(head, payload, client)
            frames.send(connection, answer, pieces)
            del payload, pieces

    def _answer(self, head: dict[str, Any], payload: Any, client: _Client) -> tuple[dict[str, Any], Sequence[Any]]:
        try:
            if head.get("op") == "status":
                return self._status(), ()
            return client.session.answer(head, payload)
        except DeviceMemoryError as error:
            return _failure(card_protocol.MEMORY_ERROR, error), ()
        except XclbinError as error:
            return _failure(card_protocol.XCLBIN_ERROR, error), ()
        except (FpgaError, MemoryError) as error:
            return _failure(card_protocol.DEVICE_ERROR, error), ()
        except Exception as error:  # of whatever kind: it is an answer to this client, and nobody else's
            log.exception("operation %r", head.get("op"))
            return _failure(card_protocol.INTERNAL_ERROR, error), ()

    def _status(self) -> dict[str, Any]:
        with self._lock:
            clients = list(self._clients.values())
        return {
            "clients": len(clients),
            "buffers": sum(client.session.buffers for client in clients),
            "bytes": self._cards.used,
            "kept_bytes": self._cards.content.nbytes,
        }

    def _watch(self) -> None:
        """Closes sessions whose client has gone while one of their requests is under way."""
        while not self._stopped.wait(_LOOK_S):
            with self._lock:
                owners = {c.fileno(): client for client in self._clients.values() for c in client.connections}
            poll = select.poll()
            for descriptor in owners:
                if descriptor >= 0:
                    poll.register(descriptor, _GONE)
            for descriptor, _ in poll.poll(0):
                self._leave(owners[descriptor])


def _failure(kind: str, error: BaseException) -> dict[str, Any]:
    text = str(error) or "there is no memory left"
    return {
        "error": kind,
        "text": text if kind != card_protocol.INTERNAL_ERROR else f"the server failed with {type(error).__name__}",
    }


def _aligned(nbytes: int) -> Any:
    """Memory in which cores can read and write tensors where they lie."""
    memory = np.empty(nbytes + _PAGE, np.uint8)
    begin = -memory.ctypes.data % _PAGE
    return memory[begin : begin + nbytes]


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended
        connection.shutdown(socket.SHUT_RDWR)
