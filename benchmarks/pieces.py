"""What the suites `compile` and `memory` run in processes of their own (see process.py)."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.workloads import EAGER, INDUCTOR, WORKLOADS
from fpga_dynamo.runtime.cards.card import open_card

FLOOR = "dynamo"
"""Dynamo and AOTAutograd with eager behind them: the memory that any backend's Python code takes."""


def first_call(workload: str, contestant: str, threads: int, xclbin: str) -> dict[str, float]:
    """Seconds from `torch.compile` to the first answer, and to the second."""
    torch.set_num_threads(threads)
    model, x = WORKLOADS[workload].make()
    with torch.no_grad():
        model(x)  # eager mode's own start is nobody's compile time
        began = time.perf_counter()
        compiled = _compiled(model, contestant, xclbin)
        compiled(x)
        first = time.perf_counter() - began
        compiled(x)
        return {"first_call": first, "second_call": time.perf_counter() - began - first}


def memory(workload: str, contestant: str, threads: int, xclbin: str, calls: int = 5) -> dict[str, float]:
    """Bytes of resident memory: most until the model is warm, most during later calls, and then at rest."""
    torch.set_num_threads(threads)
    model, x = WORKLOADS[workload].make()
    compiled = _compiled(model, contestant, xclbin)
    with torch.no_grad():
        for _ in range(2):
            compiled(x)
        gc.collect()
        peak = _status()["VmHWM"]
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # VmHWM begins again
        for _ in range(calls):
            compiled(x)
    status = _status()
    figures: dict[str, float] = {
        "peak_bytes": peak,
        "warm_peak_bytes": status["VmHWM"],
        "resident_bytes": status["VmRSS"],
    }
    if contestant == "fpga":
        figures["device_bytes"] = sum(bank["used"] for bank in open_card(_options(xclbin)).device.memory())
    return figures


def _compiled(model: Any, contestant: str, xclbin: str) -> Any:
    if contestant == EAGER:
        return model
    if contestant == INDUCTOR:
        return torch.compile(model)
    if contestant == FLOOR:
        return torch.compile(model, backend="aot_eager")
    return torch.compile(model, backend="fpga", options={"xclbin": xclbin})


def _options(xclbin: str) -> Any:
    from fpga_dynamo import Options

    return Options(xclbin=xclbin)


def _status() -> dict[str, int]:
    """The sizes in bytes that the kernel tells of this process, all of one moment."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    fields = (line.split() for line in lines)
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in fields if words[-1] == "kB"}
