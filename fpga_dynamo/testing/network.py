"""A network between a client and a server of this machine: a proxy with a delay and a bandwidth, which can be cut."""

from __future__ import annotations

import contextlib
import math
import queue
import socket
import threading
import time
from types import TracebackType

from typing_extensions import Self

_CHUNK = 1 << 16


class Network:
    """Forwards connections to `port` of this machine, within a `with` statement.

    delay: seconds that a byte takes in each direction. bandwidth: bytes/s in each direction.
    port: where clients connect. sent, received: bytes that clients have sent and received.
    """

    def __init__(self, port: int, *, delay: float = 0.0, bandwidth: float = math.inf) -> None:
        self._target = port
        self._delay = delay
        self._bandwidth = bandwidth
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.sent = self.received = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _end(self._listener)
        self.cut()

    def cut(self) -> None:
        """Ends all connections; new ones are accepted."""
        with self._lock:
            connections, self._open = self._open, set()
        for connection in connections:
            _end(connection)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the end of the block
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:  # the server has ended
                    client.close()
                    continue
                with self._lock:
                    self._open |= {client, server}
                for source, sink, outward in ((client, server, True), (server, client, False)):
                    sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                    for target, arguments in ((self._read, (source, waiting, outward)), (_write, (sink, waiting))):
                        threading.Thread(target=target, args=arguments, daemon=True).start()

    def _read(self, source: socket.socket, waiting: queue.SimpleQueue[tuple[float, bytes]], outward: bool) -> None:
        free = 0.0  # when the line has sent what was given to it
        data = b"-"
        while data:
            try:
                data = source.recv(_CHUNK)
            except OSError:  # cut
                data = b""
            free = max(free, time.perf_counter()) + len(data) / self._bandwidth
            waiting.put((free + self._delay, data))
            with self._lock:
                if outward:
                    self.sent += len(data)
                else:
                    self.received += len(data)


def _write(sink: socket.socket, waiting: queue.SimpleQueue[tuple[float, bytes]]) -> None:
    while True:
        due, data = waiting.get()
        time.sleep(max(0.0, due - time.perf_counter()))
        try:
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)
        except OSError:  # cut
            return


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
