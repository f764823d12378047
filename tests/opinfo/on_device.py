"""The databases in eager mode on ``torch.device("fpga")``, held against the CPU: values, dtypes, strides, gradients."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from fpga_dynamo.device import extension
from fpga_dynamo.testing.reference import Mismatch
from tests.opinfo.cases import Case, Subject
from tests.opinfo.compare import Call, assert_results, run
from tests.opinfo.runs import VERDICTS, Result, line, spread


def on_device(call: Call, *, backward: bool) -> Call:
    """`call` with its tensors moved to the device, and its results moved back."""

    def moved(value: Any) -> Any:
        if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
            return torch.device("fpga:0")
        return value.to("fpga") if isinstance(value, torch.Tensor) else value

    def back(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.device.type != "fpga":
            raise Mismatch(f"a result is on {value.device}")
        return value.cpu() if backward else extension.start().host_view(value.detach())

    def run_there(module: nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        there = None if module is None else module.to("fpga")
        return tree_map(back, call(there, tree_map(moved, args), tree_map(moved, kwargs)))

    return run_there


def run_on_device(subject: Subject, *, backward: bool, limit: int, options: object = None) -> Result:
    """What came of a subject; `on_card` and `graphs` are 0, as nothing is compiled."""
    began = time.perf_counter()
    result = Result(subject.name)
    verdicts: Counter[str] = Counter()
    for case in spread(list(subject.cases()), limit):
        verdict, note = _verdict(subject, case, backward)
        verdicts[verdict] += 1
        if note:
            result.notes.append({"case": case.name, "verdict": verdict, "note": note})
    result.counts = {verdict: verdicts[verdict] for verdict in VERDICTS}
    result.seconds = round(time.perf_counter() - began, 2)
    return result


def _verdict(subject: Subject, case: Case, backward: bool) -> tuple[str, str]:
    try:
        expected = run(subject.call, case, backward=backward)
    except Exception as error:
        return "refused", line(error)
    try:
        answer = run(on_device(subject.call, backward=backward), case, backward=backward)
        # Whether inputs are written to in place is another question: here they are copies.
        assert_results(subject.call, case, replace(answer, after=expected.after), expected, backward, subject.defined)
    except AssertionError as error:
        return ("wrong" if isinstance(error, Mismatch) else "crash"), line(error)
    except Exception as error:
        return "crash", line(error)
    return "right", ""
