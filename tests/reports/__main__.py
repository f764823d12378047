"""`python -m tests.reports`: runs the public reports in processes of their own and prints the table.

Exit codes: 0 fpga does what eager mode or aot_eager does, 1 it does not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ["FPGA_DYNAMO_PROGRAM_CACHE"] = "0"  # what lowering makes today is what is tested

from tests.reports.case import Report
from tests.reports.catalogue import reports
from tests.reports.outcome import BACKENDS, Outcome, acceptable, outcomes
from tests.reports.page import Row, table, write_page

BEFORE = Path(__file__).parent / "before.json"
"""What fpga did at commit 0c5ce48."""
_SHARE = 16  # programs that one process runs
SECONDS = 600  # for one program under all backends, before it counts as a hang


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.reports", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="reports whose name or kind has a word")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time (2)")
    parser.add_argument("--out", type=Path, default=Path("out/reports.json"), metavar="FILE", help="results")
    parser.add_argument("--resume", action="store_true", help="keep the results that FILE has")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page of the documentation")
    parser.add_argument("--child", nargs="+", default=[], metavar="NAME", help=argparse.SUPPRESS)
    return parser


def _run_here(names: list[str]) -> None:
    """Prints a JSON line before each backend's run and one with each outcome."""
    import torch

    torch.set_num_threads(1)
    chosen = {report.name: report for report in reports() if report.name in names}
    for name in names:
        for backend, outcome in outcomes(chosen[name]):
            _tell({"name": name, "backend": backend, "text": outcome.text, "launches": outcome.launches})


def _tell(line: dict[str, object]) -> None:
    sys.__stdout__.write(json.dumps(line) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


Found = dict[str, dict[str, Outcome]]


def _run_apart(names: list[str]) -> Found:
    """The outcomes of these reports; a program that ends or hangs its process is one, and a new process goes on."""
    found: Found = {}
    while names:
        command = [sys.executable, "-W", "ignore", "-m", "tests.reports", "--child", *names]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert child.stdout is not None
        watch = threading.Timer(SECONDS, child.kill)
        watch.start()
        for line in child.stdout:
            watch.cancel()
            told = json.loads(line)
            found.setdefault(told["name"], {})[told["backend"]] = Outcome(told["text"], told["launches"])
            watch = threading.Timer(SECONDS, child.kill)
            watch.start()
        watch.cancel()
        status = child.wait()
        names = [name for name in names if len(found.get(name, {})) < len(BACKENDS)]
        if names:
            row = found.setdefault(names[0], {})
            guilty = next(backend for backend in BACKENDS if backend not in row)
            row.update({backend: Outcome(f"ends the process ({status})") for backend in BACKENDS if backend not in row})
            print(f"{names[0]}: the process ended under {guilty} with status {status}", file=sys.stderr)
            names = names[1:]
    return found


def _chosen(words: list[str]) -> list[Report]:
    return [r for r in reports() if not words or any(word in r.name or word == r.kind for word in words)]


def _load(path: Path) -> Found:
    stored = json.loads(path.read_text()) if path.exists() else {}
    return {name: {key: Outcome(**cell) for key, cell in row.items()} for name, row in stored.items()}


def _store(path: Path, found: Found) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = {name: {key: vars(cell) for key, cell in row.items()} for name, row in sorted(found.items())}
    path.write_text(json.dumps(cells, indent=1) + "\n")


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.child:
        _run_here(arguments.child)
        return 0
    found = _load(arguments.out) if arguments.resume else {}
    left = [report.name for report in _chosen(arguments.only) if report.name not in found]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for part in pool.map(_run_apart, (left[i : i + _SHARE] for i in range(0, len(left), _SHARE))):
            found.update(part)
            _store(arguments.out, found)
    before = json.loads(BEFORE.read_text()) if BEFORE.exists() else {}
    rows = [Row(r, found[r.name], before.get(r.name, "not run")) for r in _chosen(arguments.only) if r.name in found]
    print(table(rows))
    if arguments.page:
        write_page(arguments.page, rows)
    wrong = [row for row in rows if not acceptable(row.cells["aot_eager"], row.cells["fpga"])]
    print(f"{len(rows)} programs, {len(wrong)} where fpga alone is wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
