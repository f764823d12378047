"""Rows of the tables that the tests of lowering read as sentences: a small model, its inputs, and what is expected.

``check(case)`` compiles the row's model with everything offloaded that a core can run, and holds the answer against
eager; see there for the list of what must be true.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from fpga_dynamo import Explanation, Options
from fpga_dynamo.frontend import backend
from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.ir.program import Program
from fpga_dynamo.lowering.passes.pipeline import lower
from fpga_dynamo.runtime.calls.executor import Executor
from fpga_dynamo.runtime.calls.lifetime import Lifetime
from fpga_dynamo.runtime.cards.card import Card
from fpga_dynamo.runtime.observe.rounding import in_float64
from fpga_dynamo.testing.calls import reference
from fpga_dynamo.testing.reference import Mismatch, assert_close_to_eager, sharing
from fpga_dynamo.tools.explain import report

GREEDY: dict[str, Any] = {"partition": "greedy"}


class Call(nn.Module):
    """A function as a module; `tensors` become parameters (or buffers, where they cannot have a gradient)."""

    def __init__(self, function: Callable[..., Any], **tensors: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        self.names = tuple(tensors)
        for name, tensor in tensors.items():
            if tensor.is_floating_point():
                self.register_parameter(name, nn.Parameter(tensor))
            else:
                self.register_buffer(name, tensor)

    def forward(self, *args: Any) -> Any:
        return self.function(*args, **{name: getattr(self, name) for name in self.names})


class Case:
    """A row: `model`, and its inputs as tensors or as shapes of normally distributed ones.

    offload: share of the computing nodes that must be on the card; why: a pattern that the reason of every other node
    must match. launches: of one call. commands: how many of which opcode besides copies, where the row is about that.
    """

    def __init__(
        self,
        model: nn.Module | Callable[..., Any],
        *inputs: Any,
        offload: float = 1.0,
        launches: int = 1,
        why: str | None = None,
        commands: dict[str, int] | None = None,
    ) -> None:
        assert (why is None) == (offload == 1.0), "a row whose nodes are not all on the card gives the reason"
        self.model = model if isinstance(model, nn.Module) else Call(model)
        self.inputs = inputs
        self.offload = offload
        self.launches = launches
        self.why = why
        self.commands = commands

    def make_inputs(self) -> tuple[Any, ...]:
        """The same inputs, freshly made, at every call; tensors keep their strides."""
        generator = torch.Generator().manual_seed(1)
        return tuple(
            torch.randn(given, generator=generator) if isinstance(given, tuple) else copy.deepcopy(given)
            for given in self.inputs
        )


def randomise(model: nn.Module) -> nn.Module:
    """`model` in eval mode with parameters and statistics that hide no mistake (no zeros, no ones)."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
                assert module.running_var is not None
                module.running_mean.normal_(generator=generator)
                module.running_var.uniform_(0.5, 2.0, generator=generator)
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return model.eval()


def programs_of(model: Callable[..., Any], *inputs: Any, **options: Any) -> list[Program]:
    """The programs that one call of `model`, offloaded greedily unless `options` say otherwise, is compiled to."""
    torch._dynamo.reset()
    with torch.no_grad(), collect_programs() as programs:
        torch.compile(model, backend="fpga", options={**GREEDY, **options})(*inputs)
    return programs


class Shadowed(Executor):
    """An executor with a second one beside it, of the same graph under ``verify=True``, that must agree to the bit.

    Tracing takes most of a test's time; so it is done once for both.
    """

    def __init__(self, program: Program, card: Card, options: Options, lifetime: Lifetime) -> None:
        super().__init__(program, card, options, lifetime)
        watched = replace(options, verify=True)
        again = lower(program.module, card.target, watched, program.graph.static_inputs)
        self._verified = Executor(again, card, watched, lifetime)

    def __call__(self, *args: Any) -> Any:
        verified = self._verified(*args)
        results = super().__call__(*args)
        torch.testing.assert_close(results, verified, rtol=0, atol=0, equal_nan=True)
        return results


def run(case: Case, **options: Any) -> tuple[Any, tuple[Any, ...], Explanation]:
    """The compiled answer, which ``verify=True`` has seen too; the inputs after the call; what ran where."""
    torch._dynamo.reset()
    inputs = case.make_inputs()
    with torch.no_grad(), collect_programs() as programs, patch.object(backend, "Executor", Shadowed):
        answer = torch.compile(case.model, backend="fpga", options={**GREEDY, **options})(*inputs)
    return answer, inputs, Explanation(tuple(report(program) for program in programs))


def check(case: Case, **options: Any) -> Explanation:
    """Everything that must be true of a row:

    what its nodes run on and why, the number of launches, values as near to float64 as eager mode's, dtype, shape,
    strides and aliasing as in eager, inputs changed as in eager, and no partition that ``verify=True`` objects to.
    """
    randomise(case.model)
    answer, inputs, report = run(case, **options)
    assert_as_in_eager(case, answer, inputs)
    left = [node for graph in report.graphs for node in graph.nodes if node.computes and node.place == "PS"]
    assert report.node_offload == case.offload, f"{report}"
    for node in left:
        assert re.search(case.why or "", node.how), f"{node.name} is on the PS because {node.how}"
    assert report.pl_launches == case.launches, f"{report}"
    if case.commands is not None:
        found = Counter[str]()
        for graph in report.graphs:
            found.update(graph.opcodes)
        assert {opcode: n for opcode, n in found.items() if opcode != "move"} == case.commands, f"{report}"
    return report


def assert_as_in_eager(case: Case, answer: Any, inputs: tuple[Any, ...]) -> None:
    """Holds an answer against eager in float32 and in float64; see :mod:`fpga_dynamo.testing.reference`."""
    expected_inputs, exact_inputs = case.make_inputs(), in_float64(case.make_inputs())
    with torch.no_grad():
        expected = case.model(*expected_inputs)
        exact = copy.deepcopy(case.model).double()(*exact_inputs)
    try:
        assert_close_to_eager((answer, inputs), (expected, expected_inputs), (exact, exact_inputs))
    except Mismatch:
        # A handful of numbers may all be right to the last bit by luck: see what rounding can do before judging.
        outputs, changed, *_ = reference(case.model, case.make_inputs).noise
        assert_close_to_eager(
            (answer, inputs), (expected, expected_inputs), (exact, exact_inputs), noise=[*outputs, *changed]
        )
    assert sharing(answer, inputs) == sharing(expected, expected_inputs), "outputs share memory as in eager"
