"""Files of the cache: whole or not there."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from pathlib import Path

import pytest

from fpga_dynamo.cache import store
from fpga_dynamo.cache.plain import CorruptError
from fpga_dynamo.testing.cache import empty_program_cache


def put(key: str, size: int = 1000) -> bytes:
    content = store.serialise(key, {"number": 1}, bytes(range(256)) * (size // 256))
    assert store.write(key, content)
    return content


def test_an_entry_comes_back(cache: Path) -> None:
    content = put("abc")
    found = store.read("abc")
    assert found is not None and found[1] == content
    assert found[0].header["number"] == 1 and bytes(found[0].raw) == bytes(range(256)) * 3
    assert store.read("other") is None


def test_a_file_that_is_not_what_was_written_is_no_entry(cache: Path) -> None:
    content = put("abc")
    for i in range(0, len(content), 7):
        for bit in (1, 128):
            changed = bytearray(content)
            changed[i] ^= bit
            with pytest.raises(CorruptError):
                store.parse("abc", bytes(changed))
    for end in range(0, len(content), 13):
        with pytest.raises(CorruptError):
            store.parse("abc", content[:end])
    with pytest.raises(CorruptError):
        store.parse("abc", content + b"\0")
    with pytest.raises(CorruptError, match="another key"):
        store.parse("abd", content)


def test_a_header_nested_too_deeply_is_no_entry() -> None:
    whole = store.serialise("abc", {"nested": []}).replace(b"[]", b"[" * 100_000 + b"]" * 100_000)
    body = whole[store._BODY :]
    header = len(body) - 8
    body = header.to_bytes(8, "little") + body[8:]
    forged = bytearray(whole[: store._BODY])
    forged[store._CHECKSUM] = hashlib.sha256(body).digest()
    with pytest.raises(CorruptError, match="not JSON"):
        store.parse("abc", bytes(forged) + body)


def test_a_corrupt_file_is_ignored_with_a_warning(cache: Path) -> None:
    put("abc")
    (cache / "abc.program").write_bytes(b"garbage")
    with pytest.warns(RuntimeWarning, match="ignored and compiled again"):
        assert store.read("abc") is None


def test_what_was_not_used_for_longest_goes_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, key in enumerate(("newest", "older", "oldest")):
        put(key, 1 << 20)
        os.utime(cache / f"{key}.program", (time.time() - 100 * age,) * 2)
    assert store.read("oldest") is not None, "a use counts"
    monkeypatch.setenv(store.LIMIT_VARIABLE, "3.5")
    put("another", 1 << 20)
    assert sorted(path.stem for path in cache.iterdir()) == ["another", "newest", "oldest"]
    monkeypatch.setenv(store.LIMIT_VARIABLE, "0.5")
    assert not store.write("big", store.serialise("big", {}, bytes(1 << 20))), "more than all entries may take"


def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path / "file"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not store.write("abc", store.serialise("abc", {}))
        assert store.read("abc") is None


def test_a_limit_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.LIMIT_VARIABLE, "much")
    with pytest.warns(RuntimeWarning, match="'much' is not a number"):
        assert store.size_limit() == store.DEFAULT_MEBIBYTES << 20


def test_programs_of_a_test_are_kept_apart_from_the_user_s(cache: Path) -> None:
    content = store.serialise("k1", {})
    with empty_program_cache() as apart:
        assert store.write("k1", content) and store.read("k1") is not None
        assert [path.name for path in apart.iterdir()] == ["k1.program"]
    assert store.read("k1") is None and not list(cache.glob("*"))
