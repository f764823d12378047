"""Networks of timm on a card's engine: launches, latency and the time of a call, for one model of each family.

    python -m benchmarks.families --platform kv260 --recipe engine-kv260-gather [--out FILE] [NAME ...]

A family is a module of `timm.models`. Without NAMEs the model with the fewest parameters stands for each. Each model is
estimated in a process of its own as by `fpga-dynamo estimate NAME --sizes-only`, and appended to FILE. Models that FILE
has with the same options are left out, so a run that was ended goes on. timm has to be installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from fpga_dynamo import quantize  # noqa: F401  for the processes of estimates, which are copies of this one
from fpga_dynamo.tools.estimate.report import estimate
from fpga_dynamo.tools.zoo import import_torchvision

_CONTEXT = multiprocessing.get_context("fork")
_LARGEST_RATIO = 1.3
"""Of a call to the engine's own latency, for a network that runs on the card."""


@dataclass(frozen=True)
class Row:
    """launches: 0 where the estimate failed. latency_ms: of the engine. nodes, macs: shares on the card, 0 to 1."""

    name: str
    launches: int
    latency_ms: float = 0.0
    call_ms: float = 0.0
    nodes: float = 0.0
    macs: float = 0.0
    reasons: tuple[str, ...] = ()

    @property
    def runs_on_card(self) -> bool:
        return self.launches == 1 and self.call_ms <= _LARGEST_RATIO * self.latency_ms


def smallest_models() -> Iterator[str]:
    """Of each module of timm's models."""
    import_torchvision()  # which timm imports
    timm = importlib.import_module("timm")
    for module in sorted(importlib.import_module("timm.models").list_modules()):
        sizes = {name: size for name in timm.list_models(module=module) if (size := _parameters(name)) is not None}
        if sizes:
            yield min(sizes, key=lambda name: (sizes[name], name))


def _parameters(name: str) -> int | None:
    """None for a model that cannot be made without memory for its parameters."""
    timm = importlib.import_module("timm")
    try:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in timm.create_model(name).parameters())
    except Exception:  # whatever a constructor reads of its parameters
        return None


def estimated(name: str, settings: argparse.Namespace) -> Row:
    """The row of a model; without launches, and with the error, where the estimate fails."""
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_send_row, args=(name, settings, sender))
    process.start()
    sender.close()
    try:
        found: Row = receiver.recv() if receiver.poll(settings.seconds) else Row(name, 0, reasons=("timed out",))
    except EOFError:
        found = Row(name, 0, reasons=("the process ended without a result",))
    process.kill()
    process.join()
    return found


def _send_row(name: str, settings: argparse.Namespace, sender: Connection) -> None:
    try:
        report = estimate(
            name, settings.platform, dtype=settings.dtype, recipe=settings.recipe, sizes_only=True
        ).as_dict()
    except Exception as error:  # of a model that cannot be exported, or a fault: the others go on
        sender.send(Row(name, 0, reasons=(f"{type(error).__name__}: {error}",)))
        return
    host = report["host"]
    shares = report["node_offload"], report["mac_offload"]
    reasons = tuple(dict.fromkeys(node["reason"] for node in host["nodes"]))
    sender.send(Row(name, host["launches"], report["latency_ms"], report["call_ms"], *shares, reasons))


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown, and how many run on the card."""
    lines = ["| network | launches | engine ms | call ms | nodes | MACs |", "|---|--:|--:|--:|--:|--:|"]
    for row in rows:
        figures = f"{row.launches} | {row.latency_ms:.2f} | {row.call_ms:.2f} | {row.nodes:.1%} | {row.macs:.1%}"
        lines.append(f"| `{row.name}` | {figures if row.launches else '| | | |'} |")
    count = sum(row.runs_on_card for row in rows)
    told = f"in one launch, with a call of at most {_LARGEST_RATIO} x the engine's latency"
    return "\n".join([*lines, "", f"{count} of {len(rows)} {told}"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--platform", default="kv260")
    parser.add_argument("--recipe", help="the platform's own without it")
    parser.add_argument("--dtype", default="int8")
    parser.add_argument("--out", type=Path, default=Path("out/families.jsonl"))
    parser.add_argument("--seconds", type=float, default=1200.0, help="the longest time of an estimate")
    given = parser.parse_args(arguments)
    options = ["--platform", given.platform, "--dtype", given.dtype]
    options += ["--recipe", given.recipe] if given.recipe else []
    known = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    rows = {}
    for of_options, row in known:
        if of_options == options:
            rows[row["name"]] = Row(**{**row, "reasons": tuple(row["reasons"])})
    given.out.parent.mkdir(parents=True, exist_ok=True)
    names = []
    for name in given.names or smallest_models():
        names.append(name)
        if name not in rows:
            rows[name] = estimated(name, given)
            with given.out.open("a") as out:
                out.write(json.dumps([options, asdict(rows[name])]) + "\n")
            print(rows[name], file=sys.stderr, flush=True)
    print(table([rows[name] for name in names]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
