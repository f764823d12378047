"""Runs the cases of subjects and says of each: right, wrong, crashed, torch's own, or no case; as JSON."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters

import fpga_dynamo
from fpga_dynamo.runtime.internal_errors import raising
from tests.opinfo.cases import Case, Subject
from tests.opinfo.compare import check, run

SECONDS = 120
"""What a case may take before it counts as one that hangs."""

VERDICTS = ("right", "wrong", "crash", "torch", "refused")
"""right; wrong: an answer that is not eager mode's; crash: an error that eager does not raise, an internal error of the
compiler, or a launch that failed, even if eager took its place; torch: wrong or crashed, but so is the same sample
under aot_eager; refused: eager itself raises, so that there is nothing to compare."""


@dataclass
class Result:
    """What came of one subject.

    on_card: samples of which a launch was part; graphs: how many Dynamo handed to the backend (0: it runs all in
    eager); notes: what was not right, and how.
    """

    name: str
    counts: dict[str, int] = field(default_factory=dict)
    on_card: int = 0
    graphs: int = 0
    notes: list[dict[str, str]] = field(default_factory=list)
    seconds: float = 0.0


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def spread(cases: Sequence[Case], limit: int) -> list[Case]:
    """At most `limit` of them, evenly from first to last; 0 is all."""
    if not limit or len(cases) <= limit:
        return list(cases)
    return [cases[i * len(cases) // limit] for i in range(limit)]


def run_subject(
    subject: Subject, *, backward: bool, limit: int, options: dict[str, Any] | None, backend: str = "fpga"
) -> Result:
    """Compiles the subject once; Dynamo compiles again for every sample whose shapes or constants differ."""
    began = time.perf_counter()
    result = Result(subject.name)
    torch._dynamo.reset()
    compiled = torch.compile(subject.call, backend=backend, options=options, dynamic=False)
    by_torch = torch.compile(_renamed(subject.call), backend="aot_eager", dynamic=False)
    verdicts: Counter[str] = Counter()
    for case in spread(list(subject.cases()), limit):
        fpga_dynamo.reset_stats()
        verdict, note = _verdict(subject, compiled, by_torch, case, backward)
        stats = fpga_dynamo.stats()
        result.on_card += bool(stats["pl_launches"])
        if stats["ps_fallbacks"] and verdict == "right":
            verdict, note = "crash", f"{int(stats['ps_fallbacks'])} launch(es) failed and ran in eager"
        verdicts[verdict] += 1
        if note:
            result.notes.append({"case": case.name, "verdict": verdict, "note": note})
    result.graphs = counters["stats"]["unique_graphs"]
    result.counts = {verdict: verdicts[verdict] for verdict in VERDICTS}
    result.seconds = round(time.perf_counter() - began, 2)
    return result


def _renamed(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with code of its own: Dynamo keeps what it has compiled by code object."""

    def by_aot_eager(*args: Any) -> Any:
        return call(*args)

    by_aot_eager.__code__ = by_aot_eager.__code__.replace()
    return by_aot_eager


def _verdict(subject: Subject, compiled: Any, by_torch: Any, case: Case, backward: bool) -> tuple[str, str]:
    try:
        run(subject.call, case, backward=backward)
    except Exception as error:
        return "refused", line(error)
    why = _trouble(subject, compiled, case, backward)
    if why is None:
        return "right", ""
    if _trouble(subject, by_torch, case, backward) is not None:
        return "torch", f"{why[0]}: {why[1]}"
    return why


def _trouble(subject: Subject, compiled: Any, case: Case, backward: bool) -> tuple[str, str] | None:
    try:
        with _limited(SECONDS), raising():
            check(subject.call, compiled, case, backward=backward, defined=subject.defined)
    except AssertionError as error:
        return "wrong" if type(error).__name__.endswith("Mismatch") else "crash", line(error)
    except Exception as error:
        return "crash", line(error)
    return None


def line(error: BaseException) -> str:
    """An error as one line of bounded length."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"


def run_shard(
    subjects: Sequence[Subject],
    path: Path,
    settings: dict[str, Any],
    runner: Callable[..., Result] | None = None,
    **how: Any,
) -> list[Result]:
    """Runs the subjects, writing `path` after each, so that a process that dies can be continued behind its end.

    A subject during which a process died counts as a crash.
    """
    runner = runner or run_subject
    path.parent.mkdir(parents=True, exist_ok=True)
    past = json.loads(path.read_text()) if path.exists() else {}
    results = [Result(**entry) for entry in past.get("results", ())] if past.get("settings") == settings else []
    if results and past.get("running"):
        results.append(_died(past["running"]))
    done = {result.name for result in results}
    for subject in subjects:
        if subject.name in done:
            continue
        _write(path, settings, results, subject.name)
        try:
            results.append(runner(subject, **how))
        except Exception as error:  # the database's own samples cannot be made
            note = {"case": subject.name, "verdict": "refused", "note": f"its samples: {line(error)}"}
            results.append(Result(subject.name, {**dict.fromkeys(VERDICTS, 0), "refused": 1}, notes=[note]))
    _write(path, settings, results, None)
    return results


def _died(name: str) -> Result:
    note = {"case": name, "verdict": "crash", "note": "the process died"}
    return Result(name, {**dict.fromkeys(VERDICTS, 0), "crash": 1}, notes=[note])


def _write(path: Path, settings: dict[str, Any], results: Sequence[Result], running: str | None) -> None:
    content = {"settings": settings, "running": running, "results": [asdict(result) for result in results]}
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1))
    part.replace(path)


def summary(title: str, results: Sequence[Result]) -> str:
    """One line of counts, then a line for every case that is wrong or crashed."""
    totals = Counter[str]()
    for result in results:
        totals.update(result.counts)
    compared = sum(totals[verdict] for verdict in VERDICTS if verdict != "refused")
    share = sum(result.on_card for result in results) / compared if compared else 0.0
    counts = ", ".join(f"{totals[verdict]} {verdict}" for verdict in VERDICTS)
    unseen = [result.name for result in results if not result.graphs]
    lines = [
        f"{title}: {len(results)} subjects, {compared} samples ({counts}), {share:.1%} of them touch the PL; "
        f"Dynamo compiles nothing of {len(unseen)} subjects"
    ]
    for result in results:
        lines += [
            f"  {note['verdict']}: {note['case']}: {note['note']}"
            for note in result.notes
            if note["verdict"] in ("wrong", "crash")
        ]
    return "\n".join(lines)


def is_clean(results: Sequence[Result]) -> bool:
    return not any(result.counts.get("wrong") or result.counts.get("crash") for result in results)
