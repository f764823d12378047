"""Whether the answer of `fpga-dynamo run` is right: eager mode's in float64, or of a quantized model eager mode's."""

from __future__ import annotations

import copy
from typing import Any

import torch
from rich.markup import escape

from fpga_dynamo.runtime.observe.rounding import in_float64
from fpga_dynamo.testing.reference import Mismatch, assert_close_to_eager
from fpga_dynamo.tools.zoo import ZooModel, is_quantized
from fpga_dynamo.torch_internals.pytree import tree_leaves

_STEPS = 0.02
"""Of a quantized model: norm of the difference over that of the result, as some values round to the next integer."""


def compare(example: ZooModel, outputs: Any) -> tuple[bool, str]:
    """Whether the answer is wrong, and how far it is off."""
    eager = example.model(*example.inputs)
    if is_quantized(example.model):
        return _compare_integers(outputs, eager)
    exact = copy.deepcopy(example.model).double()(*in_float64(example.inputs))
    try:
        errors = assert_close_to_eager(outputs, eager, exact)
    except Mismatch as error:
        return True, f"[red]WRONG[/red]: {escape(str(error))}"
    compiled, own = max(e.compiled for e in errors), max(e.eager for e in errors)
    return False, f"{compiled:.2g} against float64; eager mode: {own:.2g}"


def _compare_integers(outputs: Any, eager: Any) -> tuple[bool, str]:
    """The same of a quantized model, which has no form in float64: its own results in eager mode are right."""
    pairs = [(a, b) for a, b in zip(tree_leaves(outputs), tree_leaves(eager), strict=True) if torch.is_tensor(b)]
    if all(torch.equal(a, b) for a, b in pairs):
        return False, "0: the same bits as eager mode"
    errors = [float((a.double() - b.double()).norm() / b.double().norm().clamp(min=1e-30)) for a, b in pairs]
    if max(errors) <= _STEPS:
        return False, f"{max(errors):.2g} of the norm of eager mode's result"
    return True, f"[red]WRONG[/red]: differs from eager mode by {max(errors):.2g} of the result's norm"
