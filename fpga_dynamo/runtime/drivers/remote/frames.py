"""Frames of the card server's protocol, which fpga_dynamo/native/card_server/protocol.hpp describes for both ends."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

from typing_extensions import Buffer

from fpga_dynamo._native import card_protocol
from fpga_dynamo.errors import DeviceError

PROTOCOL = card_protocol.VERSION
MOST_HEAD = card_protocol.MOST_HEAD
MOST_PAYLOAD = card_protocol.MOST_PAYLOAD
MOST_GREETING = card_protocol.MOST_GREETING
GREETING_SECONDS = float(card_protocol.GREETING_SECONDS)

_PREFIX = struct.Struct("<4sIQ")
_JOINED = 1 << 16
"""Bytes up to which a frame is one write."""
_TLS_ALERT = b"\x15\x03"
_UNANSWERED_MS = 1000 * (card_protocol.QUIET_SECONDS + card_protocol.PROBE_SECONDS * card_protocol.PROBES)


class FrameError(DeviceError):
    """What came is no frame, or the peer has closed the connection."""


def prepare(connection: socket.socket) -> None:
    """No delay of small frames, and an end to connections whose peer has vanished."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, card_protocol.QUIET_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, card_protocol.PROBE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, card_protocol.PROBES)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNANSWERED_MS)


def send(connection: socket.socket, head: dict[str, Any], payload: Sequence[Buffer] = ()) -> None:
    """Sends a frame. Raises OSError if the connection does not allow it."""
    text = json.dumps(head, separators=(",", ":")).encode()
    views = [memoryview(piece).cast("B") for piece in payload]
    nbytes = sum(view.nbytes for view in views)
    begin = _PREFIX.pack(card_protocol.MAGIC, len(text), nbytes) + text
    if nbytes <= _JOINED:
        connection.sendall(b"".join([begin, *views]))
        return
    connection.sendall(begin)
    for view in views:
        connection.sendall(view)


def receive_head(connection: socket.socket, most_head: int, most_payload: int) -> tuple[dict[str, Any], int]:
    """The next frame's head, and the bytes of the payload that follows.

    Raises FrameError for what is no frame, is larger than allowed, or ends too early; OSError as `recv`.
    """
    prefix = bytearray(_PREFIX.size)
    receive_into(connection, memoryview(prefix))
    magic, head_bytes, payload_bytes = _PREFIX.unpack(prefix)
    if magic != card_protocol.MAGIC:
        if prefix.startswith(_TLS_ALERT):
            raise FrameError("the peer speaks TLS: its address begins with tls://")
        raise FrameError(f"the peer does not speak the protocol of a card server: it sent {bytes(magic)!r}")
    if head_bytes > most_head or payload_bytes > most_payload:
        raise FrameError(
            f"a frame has a head of {head_bytes} and a payload of {payload_bytes} bytes, of at most {most_head} and "
            f"{most_payload}"
        )
    text = bytearray(head_bytes)
    receive_into(connection, memoryview(text))
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FrameError("the head of a frame is no JSON") from error
    if not isinstance(head, dict):
        raise FrameError("the head of a frame is no JSON object")
    return head, payload_bytes


def receive_into(connection: socket.socket, view: memoryview) -> None:
    """Fills a view. Raises FrameError if the connection ends before."""
    while view.nbytes:
        received = connection.recv_into(view)
        if received == 0:
            raise FrameError("the peer closed the connection")
        view = view[received:]
