"""Frames that no client of ours sends: the server answers with a sentence or closes the connection, and goes on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

import xclbin_build
from fpga_dynamo.runtime.drivers.remote import frames, token
from fpga_dynamo.runtime.drivers.remote.driver import RemoteDriver
from tests.card_server.card_server_kit import KINDS, TOKEN, Served, serving, status, wait_until_empty
from tests.driver.xrt_kit import HERE

RECIPE = HERE / "data/conformance.toml"
ROUNDS = 3000


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server"), "--memory", "256", kind=request.param) as running:
        yield running


def connect(server: Served) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), 20)
    frames.prepare(connection)
    return connection


def greet(connection: socket.socket, session: str = "") -> dict[str, Any]:
    """Joins as a client with the token."""
    numbers = {"client": token.nonce()}
    frames.send(connection, {"op": "hello", "protocol": 1, "nonce": numbers["client"], "session": session})
    numbers["server"] = frames.receive_head(connection, 1 << 20, 0)[0]["nonce"]
    frames.send(connection, {"op": "prove", "proof": token.proof(TOKEN.encode(), "client", numbers)})
    return frames.receive_head(connection, 1 << 20, 0)[0]


def end_of_sending(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the server has closed it already
        connection.shutdown(socket.SHUT_WR)


def answer(connection: socket.socket) -> dict[str, Any] | None:
    """The answer's head; None if the server has closed the connection."""
    try:
        head, nbytes = frames.receive_head(connection, frames.MOST_HEAD, 1 << 40)
        frames.receive_into(connection, memoryview(bytearray(nbytes)))
    except (OSError, frames.FrameError):
        return None
    return head


def is_well(server: Served) -> None:
    """Whether the server still gives another client a card."""
    driver = RemoteDriver(server.driver)
    device = driver.device(0)
    uuid = device.load_xclbin(str(xclbin_build.cached(RECIPE, "sw_emu")))
    assert driver.kernel(device, uuid, "vadd").group_id(0) >= 0


RAW = [
    b"",
    b"GET / HTTP/1.1\r\nHost: card\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    b"FDcs",
    b"FDcs" + struct.pack("<IQ", 2, 0) + b"[]",
    b"FDcs" + struct.pack("<IQ", 4, 0) + b"null",
    b"FDcs" + struct.pack("<IQ", 1 << 31, 0),
    b"FDcs" + struct.pack("<IQ", 2, 1 << 62) + b"{}",
    b"FDcs" + struct.pack("<IQ", 2, 0) + b"\xff\xfe",
    b"FDcs" + struct.pack("<IQ", 4000, 0) + b"[" * 4000,
    bytes(4096),
]


@pytest.mark.parametrize("number", range(len(RAW)))
def test_bytes_of_strangers(server: Served, number: int) -> None:
    with connect(server) as connection:
        connection.sendall(RAW[number])
        end_of_sending(connection)
        assert answer(connection) is None
    is_well(server)


def test_strangers_get_no_operation(server: Served) -> None:
    for head in ({"op": "status"}, {"op": "prove", "proof": ""}, {"op": "open", "id": 1, "index": 0}, {}):
        with connect(server) as connection:
            frames.send(connection, head)
            assert answer(connection) is None
    hello = {"op": "hello", "protocol": 1, "nonce": token.nonce(), "session": ""}
    for proof in (None, 1, "", "0" * 64, "\ud800", ["x"], "é" * 64):
        with connect(server) as connection:
            frames.send(connection, hello)
            assert answer(connection)
            frames.send(connection, {"op": "prove", "proof": proof})
            refused = answer(connection)
            assert refused is not None and "the token is wrong" in refused["text"]
    for nonce in (None, "", "x" * 10000, "\ud800" * 64, 7):
        with connect(server) as connection:
            frames.send(connection, {**hello, "nonce": nonce})
            refused = answer(connection)
            assert refused is None or "random number" in refused["text"]
    with connect(server) as connection:
        assert "session has ended" in greet(connection, "nobody's")["text"]
    with connect(server) as connection:
        frames.send(connection, hello)
        connection.sendall(b"FDcs" + struct.pack("<IQ", 3 << 12, 0))
        assert answer(connection) is not None and answer(connection) is None
    is_well(server)


VALUES: list[Any] = [
    None, True, -1, 0, 1, 2, 3, 5, 7, 64, 4096, 1 << 31, 1 << 47, 1 << 63, 1 << 70, 0.5, float("nan"), "", "normal",
    "device_only", "vadd", "misbehave", "\ud800", "x" * 5000, "0" * 64, [], [[1, 2]], [[-1, 2]], [1, 2], {}, {"0": 5},
    {"0": ["bo", 3], "1": 0, "2": 0}, {"0": ["float", "nan"]}, {"0": ["bytes", "00"]}, {"x": 1}, ["bo", 3],
]  # fmt: skip


def requests(uuid: str) -> list[dict[str, Any]]:
    """One of each operation, as a client of ours sends them."""
    launch: dict[str, Any] = {
        "run": 5, "kernel": 2, "arguments": {"0": ["bo", 3], "1": 0, "2": 0}, "bo": 3, "inputs": [],
        "outputs": [[64, 0]], "timeout_ms": 500, "reads_status": False, "traced": False,
    }  # fmt: skip
    buffer = {"bo": 3, "offset": 0, "nbytes": 64}
    return [
        {"op": "status"},
        {"op": "open", "id": 9, "index": 0},
        {"op": "xclbin_uuid", "device": 1},
        {"op": "info", "device": 1, "what": "name"},
        {"op": "memory", "device": 1},
        {"op": "load", "device": 1, "digest": "0" * 64},
        {"op": "put", "digest": "0" * 64, "nbytes": 64, "offset": 0},
        {"op": "fetch", "digest": "0" * 64, "nbytes": 64, "offset": 0},
        {"op": "kernel", "id": 8, "device": 1, "uuid": uuid, "name": "vadd"},
        {"op": "group", "kernel": 2, "argument": 0},
        {"op": "bo", "id": 7, "device": 1, "nbytes": 4096, "flags": "normal", "group": 0},
        {"op": "address", "bo": 3},
        {"op": "write", **buffer},
        {"op": "place", "digest": "0" * 64, **buffer},
        {"op": "read", **buffer},
        {"op": "copy", "source": 4, "source_offset": 0, **buffer},
        {"op": "populate", "bo": 3},
        {"op": "discard", **buffer},
        {"op": "start", **launch},
        {"op": "execute", **launch},
        {"op": "wait", "run": 5, "timeout_ms": 50},
        {"op": "state", "run": 5},
        {"op": "abort", "run": 5},
        {"op": "nothing"},
    ]


def prepared(connection: socket.socket, server: Served) -> str:
    """Has the session objects 1 (device), 2 (kernel), 3 and 4 (buffers); the UUID of the xclbin."""
    assert "error" not in greet(connection)
    path = xclbin_build.cached(RECIPE, "sw_emu")
    driver = RemoteDriver(server.driver)
    device = driver.device(0)
    uuid = str(device.load_xclbin(str(path)).to_string())  # which the server keeps from now on
    group = driver.kernel(device, uuid_of(uuid), "misbehave").group_id(0)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    for head in (
        {"op": "open", "id": 1, "index": 0},
        {"op": "load", "device": 1, "digest": digest},
        {"op": "kernel", "id": 2, "device": 1, "uuid": uuid, "name": "misbehave"},
        {"op": "bo", "id": 3, "device": 1, "nbytes": 4096, "flags": "normal", "group": group},
        {"op": "bo", "id": 4, "device": 1, "nbytes": 4096, "flags": "normal", "group": group},
    ):
        frames.send(connection, head)
        found = answer(connection)
        assert found is not None and "error" not in found, found
    return uuid


def uuid_of(text: str) -> Any:
    return RemoteDriver.uuid(text)


def mutated(head: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    changed = dict(head)
    for _ in range(chance.randint(1, 3)):
        key = chance.choice([*changed, "free", "op", "extra"])
        if chance.random() < 0.25:
            changed.pop(key, None)
        else:
            changed[key] = chance.choice(VALUES)
    return changed


def test_mutated_requests_of_a_client_with_the_token(server: Served) -> None:
    chance = random.Random(0)
    connection = connect(server)
    uuid = prepared(connection, server)
    answers = errors = 0
    for _ in range(ROUNDS):
        head = mutated(chance.choice(requests(uuid)), chance)
        is_last = chance.random() < 0.02
        if is_last:  # not JSON, too long, or cut
            text = json.dumps(head).encode()
            text = text[: chance.randint(0, len(text))]
            connection.sendall(b"FDcs" + struct.pack("<IQ", len(text), chance.choice([0, 1 << 40])) + text)
            end_of_sending(connection)
        else:
            frames.send(connection, head, [bytes(chance.choice([0, 0, 1, 64, 4096, 70000]))])
        found = answer(connection)
        answers += found is not None
        if found is not None and "error" in found:
            errors += 1
            assert found["error"] in ("device", "memory", "xclbin", "internal") and found["text"], found
            assert found["error"] != "internal", (head, found)
        if found is None or is_last:
            connection.close()
            connection = connect(server)
            prepared(connection, server)
    connection.close()
    assert errors > ROUNDS / 3 and answers > 0.9 * ROUNDS
    is_well(server)
    wait_until_empty(server)
    assert status(server)["clients"] >= 1
