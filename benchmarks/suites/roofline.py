"""Each command of ResNet-50 next to what the machine can do at most: FLOPs a second by FLOPs a byte.

The bytes are those of the buffers that a command touches, each once; most of them come from a cache. FLOPs are those of
the direct algorithm, so that a Winograd convolution may lie above the peak.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine, pictures
from benchmarks.card import CommandTime, OnCard
from benchmarks.results import CARD, Result, Row
from benchmarks.rounds import Timing
from benchmarks.suites import Settings
from benchmarks.workloads import WORKLOADS

SECONDS = 0.0  # a number of calls, see `CALLS`
NETWORK = "resnet50"
CALLS = 15


def rows(settings: Settings, details: dict[str, Any]) -> Iterator[Row]:
    counts = [1] if settings.quick or settings.threads == 1 else [1, settings.threads]
    roofs = machine.measure(*counts)
    details["machine"] = [asdict(roof) for roof in roofs]
    torch.compiler.reset()
    names = settings.chosen(list(WORKLOADS)) if settings.only else ["squeezenet1_1" if settings.quick else NETWORK]
    for name in names:
        model, x = WORKLOADS[name].make()
        with torch.no_grad():
            commands = OnCard(model, x).commands(x, 2 if settings.quick else CALLS)
        for number, command in enumerate(commands):
            yield _row(f"{name} {number:03} {command.opcode}", command, roofs[-1])


def _row(name: str, command: CommandTime, roofs: machine.Roofs) -> Row:
    seconds = command.seconds
    row = Row(name, {CARD: Timing(seconds, seconds, seconds, 1)})
    row.figures = {"macs": command.macs, "bytes": command.bytes, "gbytes_per_s": command.bytes / seconds / 1e9}
    if command.macs and command.bytes:
        row.figures["gflops"] = command.flops / 1e9
        row.figures["flops_per_byte"] = 2 * command.macs / command.bytes
        row.figures["share_of_peak"] = command.flops / roofs.flops
    row.details = {"opcode": command.opcode, "nodes": command.nodes, "layout_change": command.layout_change}
    return row


def draw(result: Result, path: Path) -> None:
    pictures.roofline(result, path)
