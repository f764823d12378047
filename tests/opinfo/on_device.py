"""The databases in eager mode on ``torch.device("fpga")``, held against the CPU: values, dtypes, strides, gradients."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map

from fpga_dynamo.device import extension
from fpga_dynamo.runtime.internal_errors import raising
from fpga_dynamo.testing.reference import Mismatch
from tests.device.device_kit import fpga
from tests.opinfo.cases import Case, Subject
from tests.opinfo.compare import assert_results, run
from tests.opinfo.runs import VERDICTS, Result, line, spread


def place_on_device(values: tuple[nn.Module | None, tuple[Any, ...], dict[str, Any]]) -> Any:
    """Module, arguments and keyword arguments with their tensors on the device; leaves stay leaves."""
    module, args, kwargs = values
    there = None if module is None else module.to("fpga")
    return there, *tree_map(_moved, (args, kwargs))


def place_first_on_device(values: tuple[nn.Module | None, tuple[Any, ...], dict[str, Any]]) -> Any:
    """The first argument only, of operators that expect the others on the CPU, whatever the device."""
    module, args, kwargs = values
    return module, (_moved(args[0]), *args[1:]), kwargs


_FIRST_ONLY = ("tensor_split",)


def _moved(value: Any) -> Any:
    if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
        return torch.device("fpga:0")
    return _on_card(value) if isinstance(value, torch.Tensor) else value


def _back(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.device.type != "fpga":
        raise Mismatch(f"a result is on {value.device}")
    return extension.start().host_view(value.detach()).requires_grad_(value.requires_grad)


def _on_card(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on the device; the part of a larger memory stays such a part, as ``as_strided`` sees all of it."""
    if tensor.requires_grad and tensor.is_leaf:
        return _on_card(tensor.detach()).requires_grad_()
    if tensor.layout is not torch.strided or tensor.requires_grad or tensor.is_conj() or tensor.is_neg():
        return tensor.to("fpga")
    whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).to("fpga")
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def run_on_device(subject: Subject, *, backward: bool, limit: int, options: dict[str, Any]) -> Result:
    """What came of a subject, with operators where the option `partition` says; `graphs` is 0, as Dynamo makes none."""
    began = time.perf_counter()
    fpga.set_operator_placement(options["partition"])
    result = Result(subject.name)
    verdicts: Counter[str] = Counter()
    for case in spread(list(subject.cases()), limit):
        fpga.reset_operator_stats()
        with raising():
            verdict, note = _verdict(subject, case, backward)
        result.on_card += bool(fpga.operator_stats()["card"])
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
        place = place_first_on_device if subject.name in _FIRST_ONLY else place_on_device
        answer = run(subject.call, case, backward=backward, place=place)
        # Whether inputs are written to in place is another question: here they are copies.
        answer = replace(answer, results=tree_map(_back, answer.results), after=expected.after)
        assert_results(subject.call, case, answer, expected, backward, subject.defined)
    except AssertionError as error:
        return ("wrong" if isinstance(error, Mismatch) else "crash"), line(error)
    except Exception as error:
        # PyTorch makes such parameters of a module that is moved plain ones without elements, unless it goes to CUDA.
        lazy = case.module is not None and any(map(is_lazy, case.module.parameters()))
        return ("torch" if lazy else "crash"), line(error)
    return "right", ""
