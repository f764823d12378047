"""What may happen to the cache's folder: a compilation gives the right answer whatever lies there."""

from __future__ import annotations

import errno
import json
import os
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fpga_dynamo.cache import cached, store
from fpga_dynamo.cache.graphs import graph_from_plain
from fpga_dynamo.cache.plain import CorruptError

CHANGES = 200


def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.relu(x @ x.t())
    return y, torch.special.bessel_j0(y)


def other(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) + torch.tensor([1.0, 2.0, 3.0, 4.0])


INPUT = torch.linspace(-1, 1, 16).reshape(4, 4)


@pytest.fixture
def compile_and_check(xclbin: str) -> Callable[..., None]:
    def run(*functions: Callable[..., Any]) -> None:
        for f in functions or (function,):
            torch._dynamo.reset()
            options: dict[str, Any] = {"xclbin": xclbin, "partition": "greedy"}
            torch.testing.assert_close(torch.compile(f, backend="fpga", options=options)(INPUT), f(INPUT))

    return run


def whole(path: Path) -> bool:
    """Whether the file is an entry under its name."""
    store.parse(path.stem, path.read_bytes())
    return True


def damaged(content: bytes) -> Iterator[bytes]:
    yield b""
    yield content[: len(content) // 2]
    yield content[:-1] + bytes([content[-1] ^ 1])
    yield content[: store._BODY] + (1 << 63).to_bytes(8, "little") + content[store._BODY + 8 :]


def test_damaged_files_are_made_again(cache: Path, compile_and_check: Callable[..., None]) -> None:
    compile_and_check()
    for path in cache.iterdir():
        for content in damaged(path.read_bytes()):
            path.write_bytes(content)
            with pytest.warns(RuntimeWarning, match="ignored and compiled again"):
                compile_and_check()
            assert whole(path)


def test_an_error_in_reading_a_whole_entry_is_told_as_what_it_is(
    cache: Path,
    compile_and_check: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def mistaken(*_: Any) -> None:
        raise ZeroDivisionError("a mistake of ours")

    compile_and_check(other)
    monkeypatch.setattr(cached, "assemble", mistaken)
    with pytest.warns(RuntimeWarning, match="compiled again: ZeroDivisionError: a mistake of ours"):
        compile_and_check(other)
    (record,) = [record for record in caplog.records if "please report" in record.message]
    assert record.exc_info and record.exc_info[0] is ZeroDivisionError


def test_files_that_changed_names_are_made_again(cache: Path, compile_and_check: Callable[..., None]) -> None:
    compile_and_check(function, other)
    paths = sorted(cache.iterdir())
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)
    with pytest.warns(RuntimeWarning, match="another key"):
        compile_and_check(function, other)
    assert all(whole(path) for path in paths)


def change_at_random(header: dict[str, Any], chance: random.Random) -> None:
    """Puts a value of another kind somewhere into nested lists and objects, or takes one out."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for at in value if isinstance(value, dict) else range(len(value)):
            places.append((value, at))
            if isinstance(value[at], dict | list):
                walk(value[at])

    walk(header)
    holder, at = chance.choice([(holder, at) for holder, at in places if at not in ("key", "graph")])
    if chance.random() < 0.3:
        del holder[at]
    else:
        holder[at] = chance.choice([None, -1, 1 << 40, 10**30, "x", [], {}, [[]], True, 0.5])


def test_headers_that_no_version_writes_are_corrupt_entries(
    cache: Path, compile_and_check: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checksum that fits is no proof: each is refused as a whole, or understood."""
    calls: list[tuple[Any, ...]] = []
    load = cached.load

    def watched(*given: Any) -> Any:
        calls.append(given)
        return load(*given)

    monkeypatch.setattr(cached, "load", watched)
    compile_and_check()
    compile_and_check()
    key, _, target, static = calls[-1]
    program = store.read(key)
    trace = next(store.read(path.stem) for path in cache.iterdir() if path.stem != key)
    assert program is not None and trace is not None
    graph, chance = trace[0].header["graph"], random.Random(0)
    refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(CHANGES):
            changed = json.loads(json.dumps(program[0].header))
            change_at_random(changed, chance)
            entry = store.Entry(changed, program[0].raw)
            monkeypatch.setattr(store, "read", lambda key, entry=entry: (entry, b""))
            refused += load(key, graph_from_plain(graph), target, static) is None
    assert refused > CHANGES // 4
    refused = 0
    for _ in range(CHANGES):
        changed = {"graph": json.loads(json.dumps(graph))}
        change_at_random(changed, chance)
        try:
            graph_from_plain(changed["graph"])
        except CorruptError:
            refused += 1
    assert refused > CHANGES // 4


def test_a_full_disk_does_no_harm(
    cache: Path, compile_and_check: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store.os, "replace", full)
    compile_and_check()
    monkeypatch.setattr(store.os, "fdopen", full)
    compile_and_check()
    assert not list(cache.iterdir())


def test_whoever_reads_while_others_write_sees_whole_entries(cache: Path) -> None:
    contents = [store.serialise("abc", {"number": number}, bytes([number]) * 50_000) for number in range(3)]
    done = threading.Event()

    def write(content: bytes) -> None:
        while not done.is_set():
            assert store.write("abc", content)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    assert store.write("abc", contents[0])
    for writer in writers:
        writer.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(200):
                found = store.read("abc")
                assert found is not None and found[1] in contents
    finally:
        done.set()
        for writer in writers:
            writer.join()
    assert [path.name for path in cache.iterdir()] == ["abc.program"]
