"""``python -m benchmarks [SUITE ...]``: runs the suites and writes JSON, pictures and a Markdown summary."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks import medians, suites, summary
from benchmarks.environment import environment
from benchmarks.peers import PEERS
from benchmarks.results import OURS, Result
from benchmarks.rounds import describe
from xclbin_build.toolchain.isa import chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if a suite ended early or a contestant failed; targets that are missed are no failure."""
    parser = _parser()
    given = parser.parse_args(arguments)
    unknown = (set(given.suites) - set(suites.NAMES)) | (set(given.peers or ()) - set(PEERS))
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))} ({parser.epilog})")
    os.environ["FPGA_DYNAMO_LANES"] = str(given.threads)  # read when a card is opened
    torch.set_num_threads(given.threads)
    given.out.mkdir(parents=True, exist_ok=True)
    settings = suites.Settings(given.threads, 0.0, tuple(given.only), quick=given.quick)
    if given.peers is not None:
        settings = replace(settings, peers=tuple(given.peers))
    results = [_run(name, settings, given.seconds, given.out) for name in given.suites or suites.NAMES]
    if given.history is not None and not given.quick:
        for result in results:
            medians.record(result, chosen()[0], given.history)
    path = given.out / "summary.md"
    path.write_text(summary.markdown(results), encoding="utf-8")
    print(summary.markdown(results))
    print(f"written to {given.out}")
    return int(any(result.error or any(row.failures for row in result.rows) for result in results))


def _run(name: str, settings: suites.Settings, seconds: float | None, out: Path) -> Result:
    """One suite; after each row its JSON is complete up to there."""
    suite = suites.load(name)
    settings = replace(settings, seconds=suite.SECONDS if seconds is None else seconds)
    asked = {"seconds": settings.seconds, "only": list(settings.only), "peers": list(settings.peers)}
    result = Result(name, environment(settings.threads), asked)
    began = time.perf_counter()
    try:
        for row in suite.rows(settings, result.details):
            result.rows.append(row)
            result.save(out)
            print(f"{name}: {row.name} ({time.perf_counter() - began:.0f} s)", file=sys.stderr, flush=True)
    except Exception as error:
        result.error = describe(error)
    try:
        suite.draw(result, out / f"{name}.png")
    except Exception as error:
        result.error = result.error or f"no picture: {describe(error)}"
    result.save(out)
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(suites.NAMES)}; all if none is named")
    parser.add_argument("--only", type=_list, default=[], help="rows, or parts of their names, separated by commas")
    parser.add_argument("--peers", type=_list, help="of `models`, by commas; all that are installed if left out")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="and lanes of the card")
    parser.add_argument("--seconds", type=float, help="for the rounds of one row")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    parser.add_argument("--history", type=Path, metavar="DIR", help="also record the medians in DIR/VERSION.json")
    parser.add_argument("--quick", action="store_true", help="the smallest piece of each suite, once")
    parser.epilog = f"suites: {', '.join(suites.NAMES)}; peers: {', '.join(name for name in PEERS if name != OURS)}"
    return parser


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
