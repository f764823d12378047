"""Blocks of random models: the report does not depend on where, and in which order, they ran."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fpga_dynamo.testing.fuzz import Failure, FuzzReport
from fpga_dynamo.tools.cli import main
from fpga_dynamo.tools.executor import Threads, WorkerDiedError, as_ended
from fpga_dynamo.tools.fuzz_blocks import BLOCK, Block, Fuzzing, Report, blocks, fuzz_in_blocks
from fpga_dynamo.tools.host_versions import differences, versions


@dataclass(frozen=True, eq=False)
class Fake(Fuzzing):
    """Each block in which `fails` finds a number above 0 has so many failures, with scripts; -1: its process dies."""

    fails: Callable[[Block], int] = lambda block: 0

    def run(self, block: Block, out: Path, progress: Callable[[int], None] | None = None) -> Report:
        count = self.fails(block)
        if count < 0:
            raise WorkerDiedError("the process died")
        report = FuzzReport(examples=block.examples)
        for number in range(count):
            script = out / f"{block.seed}_{number}.py"
            out.mkdir(parents=True, exist_ok=True)
            script.write_text("print('wrong')\n")
            report.failures.append(Failure(f"wrong {number}", script, block.seed, block.examples))
        if progress is not None:
            progress(block.examples)
        return report


def _fuzzing(fails: Callable[[Block], int] = lambda block: 0) -> Fake:
    return Fake("float32", "eager", None, None, fails)


def test_blocks_have_seeds_of_their_own_and_the_first_has_the_given_one() -> None:
    given = blocks(2 * BLOCK + 3, 7)
    assert [block.examples for block in given] == [BLOCK, BLOCK, 3] and given[0].seed == 7
    seeds = [block.seed for seed in (7, 8) for block in blocks(100 * BLOCK, seed)]
    assert len(set(seeds)) == len(seeds)


def test_spread_blocks_give_the_report_of_one_host(tmp_path: Path) -> None:
    given = blocks(12 * BLOCK, 0)
    first_may_end = threading.Event()

    def fails(block: Block) -> int:
        if block == given[0]:
            assert first_may_end.wait(60)
        elif block == given[1]:
            first_may_end.set()
        return 2 if block in (given[0], given[2], given[3], given[5]) else 0

    first_may_end.set()
    counts: list[int] = []
    here = fuzz_in_blocks(_fuzzing(fails), 12 * BLOCK, 0, tmp_path / "here", None, counts.append)
    first_may_end.clear()
    with Threads(2) as executor:
        there = fuzz_in_blocks(_fuzzing(fails), 12 * BLOCK, 0, tmp_path / "there", executor)
    assert str(there) == str(here).replace(str(tmp_path / "here"), str(tmp_path / "there"))
    assert counts == [BLOCK, 2 * BLOCK, 3 * BLOCK, 4 * BLOCK]
    assert here.examples == 4 * BLOCK, "the fifth failure is in the fourth block"
    assert f"wrong 1 (--seed {given[3].seed} --examples {BLOCK})\n    {tmp_path}" in str(here)
    names = [sorted(file.name for file in (tmp_path / place).iterdir()) for place in ("here", "there")]
    assert names[0] == names[1] and len(names[0]) == 6


def test_a_block_whose_process_died_is_a_failure(tmp_path: Path) -> None:
    with Threads(1) as executor:
        report = fuzz_in_blocks(_fuzzing(lambda block: -(block.seed == 3)), 2 * BLOCK, 3, tmp_path, executor)
    assert report.examples == BLOCK
    assert "the process died (--seed 3 --examples 25)" in str(report)


def test_calls_that_have_not_begun_are_cancelled() -> None:
    begun: list[int] = []
    with Threads(1) as executor:
        ended = as_ended(executor, begun.append, range(100))
        next(ended)
        ended.close()
    assert len(begun) < 4


def test_hosts_that_differ() -> None:
    here = versions()
    assert not differences(here, dict(here))
    assert differences(here, {**here, "Python": "3.9.1"}) == f"Python is 3.9.1, here {here['Python']}"
    assert differences({"the code of a:B": "1"}, {}) == "the code of a:B is missing, here 1"


def test_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "fpga_dynamo.tools.ray_executor", raising=False)
    assert main(["fuzz", "--out", str(tmp_path), "--ray"]) == 2
    assert " ".join(capsys.readouterr().err.split()) == ("fpga-dynamo: --ray needs ray: pip install 'fpga_dynamo[ray]'")
