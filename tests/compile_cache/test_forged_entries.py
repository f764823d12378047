"""Entries that somebody else has written, or that a mistake has made, with a checksum that is right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fpga_dynamo.cache import seal, store
from fpga_dynamo.cache.artifacts import FpgaProgramArtifact
from fpga_dynamo.cache.plain import CorruptError
from tests.compile_cache import forging
from tests.compile_cache.test_warm_start import IMAGE, counts, run


def in_a_process(xclbin: str, model: str, seed: int, count: int, writer: str) -> tuple[int, int]:
    """What `forging.attack` gives; a crash of the process fails the test."""
    command = [sys.executable, "-m", "tests.compile_cache.forging", xclbin, model, str(seed), str(count), writer]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr[-3000:]
    refused, wrong = map(int, done.stdout.split()[-2:])
    return refused, wrong


@pytest.mark.parametrize("model", ["convolutions", "host"])
def test_a_strangers_entries_are_refused(model: str, xclbin: str) -> None:
    assert forging.attack(xclbin, model, 0, 4, "stranger") == (4, 0)


def test_wrong_entries_of_the_users_own_do_not_crash(xclbin: str) -> None:
    refused, _ = forging.attack(xclbin, "host", 1, 8, "owner")
    assert refused > 2


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow) for seed in range(5)])
@pytest.mark.parametrize("model", forging.MODELS)
def test_thousands_of_forged_entries(model: str, seed: int, xclbin: str) -> None:
    assert in_a_process(xclbin, model, seed, 100, "stranger") == (100, 0)
    refused, _ = in_a_process(xclbin, model, seed, 200, "owner")
    assert refused > 50


def test_a_slot_larger_than_its_tensor_is_refused_whoever_wrote_it(xclbin: str, cache: Path) -> None:
    expected = run(torch.tanh, xclbin, IMAGE)
    for path in cache.iterdir():
        entry = store.parse(path.stem, path.read_bytes())
        for segment in entry.header.get("segments", []):
            for slot in segment["lowered"]["outputs"]:
                slot[5] += 5000
        path.write_bytes(seal.serialise(path.stem, entry.header, bytes(entry.raw)))
    counts()
    with pytest.warns(RuntimeWarning, match="compiled again: a slot of tanh whose sizes contradict each other"):
        assert torch.equal(run(torch.tanh, xclbin, IMAGE), expected)
    assert counts()[0] == 1


def test_artifacts_of_a_stranger_do_not_reach_the_cache(xclbin: str, cache: Path) -> None:
    run(torch.tanh, xclbin, IMAGE)
    for path in sorted(cache.iterdir()):
        content = path.read_bytes()
        path.unlink()
        entry = store.parse(path.stem, content)
        header = {name: item for name, item in entry.header.items() if name != "seal"}
        with pytest.warns(RuntimeWarning, match="not written with this user's key"):
            FpgaProgramArtifact(path.stem, store.serialise(path.stem, header, bytes(entry.raw))).populate_cache()
        assert not path.exists()
        FpgaProgramArtifact(path.stem, content).populate_cache()
        assert path.read_bytes() == content


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key"
    monkeypatch.setenv("FPGA_DYNAMO_CACHE_KEY", str(key))
    made = store.parse("a", seal.serialise("a", {"x": 1}))
    seal.check(made.header, made.raw)
    assert key.stat().st_mode & 0o777 == 0o600 and key.stat().st_size == 32
    seal._key.cache_clear()
    seal.check(made.header, made.raw)
    os.chmod(key, 0o644)
    seal._key.cache_clear()
    with pytest.raises(CorruptError):
        seal.check(made.header, made.raw)


def test_the_key_lies_in_the_configuration_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(seal.KEY_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    seal.serialise("a", {"x": 1})
    assert (tmp_path / "fpga_dynamo" / "cache.key").stat().st_size == 32
