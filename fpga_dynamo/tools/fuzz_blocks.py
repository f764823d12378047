"""Random models in blocks, each with a seed of its own: on this host one after the other, or spread over hosts.

A block draws the same models wherever it runs, and blocks are reported in their order. So the report does not depend on
the hosts.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from fpga_dynamo.testing.fuzz import MAX_FAILURES, Failure, FuzzReport, run_fuzz
from fpga_dynamo.testing.quantised import QuantisedReport, fuzz_quantised
from fpga_dynamo.tools.executor import Executor, WorkerDiedError, as_ended
from xclbin_build import atomic_file

BLOCK = 25
"""Models of a block; the last one may have fewer."""
Report = FuzzReport | QuantisedReport


@dataclass(frozen=True)
class Block:
    seed: int
    examples: int


def blocks(examples: int, seed: int) -> list[Block]:
    """The first block has the seed itself, so a block's seed draws its models again."""
    return [
        Block(_seed(seed, number), min(BLOCK, examples - first))
        for number, first in enumerate(range(0, examples, BLOCK))
    ]


def _seed(seed: int, number: int) -> int:
    return int(hashlib.sha256(f"{seed} {number}".encode()).hexdigest()[:8], 16) if number else seed


@dataclass(frozen=True, eq=False)
class Fuzzing:
    """What is compared. dtype "int8": quantized networks. See `run_fuzz` and `fuzz_quantised`."""

    dtype: str
    backend: str
    options: Mapping[str, Any] | None
    winograd: int | None

    @property
    def is_quantized(self) -> bool:
        return self.dtype == "int8"

    def run(self, block: Block, out: Path, progress: Callable[[int], None] | None = None) -> Report:
        """Writes scripts to `out`. Raises what a wrong option raises."""
        if self.is_quantized:
            return fuzz_quantised(block.examples, block.seed, self.options, out, progress)
        return run_fuzz(
            block.examples,
            block.seed,
            self.backend,
            self.options,
            out,
            winograd=self.winograd,
            dtype=self.dtype,
            progress=progress,
        )

    def run_elsewhere(self, block: Block) -> tuple[Report, dict[str, str]]:
        """The report, and by their names the scripts, which another host cannot read."""
        with tempfile.TemporaryDirectory(prefix="fpga_dynamo-") as folder:
            report = self.run(block, Path(folder))
            return report, {file.name: file.read_text(encoding="utf-8") for file in Path(folder).iterdir()}

    def report(self, failures: list[Failure]) -> Report:
        return QuantisedReport(failures=failures) if self.is_quantized else FuzzReport(failures=failures)


def fuzz_in_blocks(
    fuzzing: Fuzzing,
    examples: int,
    seed: int,
    out: Path,
    executor: Executor | None = None,
    progress: Callable[[int], None] = lambda examples: None,
) -> Report:
    """Compares `examples` random models; ends after the block in which the last failure of `MAX_FAILURES` was found.

    executor: where blocks run; else on this host. A block whose process dies on each attempt is a failure.
    """
    given = blocks(examples, seed)
    reports = (
        _here(fuzzing, given, out, progress) if executor is None else _spread(fuzzing, given, out, executor, progress)
    )
    found = []
    with closing(reports):
        for report in reports:
            found.append(report)
            if sum(len(one.failures) for one in found) >= (1 if fuzzing.is_quantized else MAX_FAILURES):
                break
    return functools.reduce(_sum, found)


def _here(fuzzing: Fuzzing, given: list[Block], out: Path, progress: Callable[[int], None]) -> Generator[Report]:
    for number, block in enumerate(given):

        def done(examples: int, before: int = number * BLOCK) -> None:
            progress(before + examples)

        yield fuzzing.run(block, out, done)


def _spread(
    fuzzing: Fuzzing, given: list[Block], out: Path, executor: Executor, progress: Callable[[int], None]
) -> Generator[Report]:
    remaining, done = list(given), 0
    found: dict[Block, tuple[Report, dict[str, str]]] = {}
    with closing(as_ended(executor, fuzzing.run_elsewhere, given)) as ended:
        for block, future in ended:
            try:
                found[block] = future.result()
            except WorkerDiedError as error:
                found[block] = fuzzing.report([Failure(str(error), None, block.seed, block.examples)]), {}
            done += block.examples
            progress(done)
            while remaining and remaining[0] in found:
                yield _written(*found.pop(remaining.pop(0)), out)


def _written(report: Report, scripts: Mapping[str, str], out: Path) -> Report:
    """The report of another host, with its scripts here."""
    for name, text in scripts.items():
        out.mkdir(parents=True, exist_ok=True)
        atomic_file.write(out / name, text)
    failures = [replace(one, script=one.script and out / one.script.name) for one in report.failures]
    return replace(report, failures=failures)


def _sum(one: Report, other: Report) -> Report:
    return type(one)(**{it.name: operator.add(getattr(one, it.name), getattr(other, it.name)) for it in fields(one)})
