"""The harness around PyTorch's databases, against backends that are known to be wrong; then a few ops of each kind.

All of the databases are `make opinfo`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from tests.opinfo.cases import Case, Subject, module_subjects, op_subjects
from tests.opinfo.runs import Result, run_subject, spread

aten = torch.ops.aten

_OPS = """
    add clamp masked_fill nn.functional.gelu nn.functional.softplus pow where sum var argmax cumsum sort cat isnan
    nn.functional.conv2d nn.functional.avg_pool2d nn.functional.interpolate.bilinear matmul addmm gather index_put
    nn.functional.layer_norm softmax bernoulli linalg.inv transpose empty_like isinf logical_xor
"""
OPS = _OPS.split()
MODULES = ("torch.nn.Linear", "torch.nn.GroupNorm", "torch.nn.LSTM in training", "torch.nn.BatchNorm2d in training")


def ops(*names: str, dtype: torch.dtype = torch.float32, backward: bool = False) -> list[Subject]:
    return [s for s in op_subjects(dtype, backward=backward, in_place=False) if s.name in names]


def counted(result: Result) -> dict[str, int]:
    return {verdict: number for verdict, number in result.counts.items() if number}


@pytest.fixture
def damaged() -> Iterator[Callable[[Callable[[GraphModule], None]], str]]:
    """Registers a backend whose graphs are damaged by a function."""

    def register(damage: Callable[[GraphModule], None]) -> str:
        def compiler(graph: GraphModule, inputs: Any) -> Any:
            damage(graph)
            graph.recompile()
            return graph

        torch._dynamo.register_backend(aot_autograd(fw_compiler=compiler), name="damaged")
        return "damaged"

    yield register
    torch._dynamo.backends.registry._COMPILER_FNS.pop("damaged", None)
    torch._dynamo.reset()


def replace_op(old: Any, new: Any) -> Callable[[GraphModule], None]:
    def damage(graph: GraphModule) -> None:
        for node in graph.graph.nodes:
            if node.target is old:
                node.target = new

    return damage


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_a_wrong_value_or_gradient_is_found(damaged: Callable[..., str], backward: bool) -> None:
    wrong = replace_op(aten.mul.Tensor, aten.add.Tensor)
    (subject,) = ops("mul", backward=backward)
    result = run_subject(subject, backward=backward, limit=2, options=None, backend=damaged(wrong))
    assert counted(result) == {"wrong": 2}
    assert "is off by" in result.notes[0]["note"]


def test_a_result_that_lies_elsewhere_is_found(damaged: Callable[..., str]) -> None:
    def copy_results(graph: GraphModule) -> None:
        output = graph.graph.output_node()
        for node in output.all_input_nodes:
            with graph.graph.inserting_before(output):
                contiguous: dict[str, Any] = {"memory_format": torch.contiguous_format}
                output.replace_input_with(node, graph.graph.call_function(aten.clone.default, (node,), contiguous))

    def transposed(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[0].t() + 1

    matrices = (Case("a matrix", None, (torch.randn(2, 3),), {}),)
    subject = Subject("transposed", transposed, lambda: iter(matrices))
    result = run_subject(subject, backward=False, limit=1, options=None, backend=damaged(copy_results))
    assert counted(result) == {"wrong": 1}
    assert "strides" in result.notes[0]["note"]


def test_an_error_is_a_crash_unless_aot_eager_has_it_too(damaged: Callable[..., str]) -> None:
    def fail(graph: GraphModule) -> None:
        raise RuntimeError("no such card")

    (subject,) = ops("sin")
    result = run_subject(subject, backward=False, limit=1, options=None, backend=damaged(fail))
    assert counted(result) == {"crash": 1}
    assert "no such card" in result.notes[0]["note"]

    def otherwise_when_compiled(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[0] + 1 if torch.compiler.is_compiling() else args[0]

    subject = Subject("otherwise", otherwise_when_compiled, subject.cases)
    assert counted(run_subject(subject, backward=False, limit=1, options=None)) == {"torch": 1}


def test_samples_are_spread_from_first_to_last() -> None:
    cases = list(ops("add")[0].cases())
    assert spread(cases, 0) == cases
    assert len(spread(cases, 4)) == 4
    assert spread(cases, 4)[0] is cases[0]


@pytest.mark.parametrize("subject", ops(*OPS), ids=lambda subject: subject.name)
def test_op(subject: Subject) -> None:
    result = run_subject(subject, backward=False, limit=3, options={"partition": "greedy"})
    assert counted(result).keys() == {"right"}, result.notes


@pytest.mark.parametrize("name", MODULES)
def test_module_with_gradients(name: str) -> None:
    (subject,) = [s for s in module_subjects(torch.float32, backward=True) if s.name.endswith(name.split("nn.")[1])]
    result = run_subject(subject, backward=True, limit=2, options={"partition": "greedy"})
    assert counted(result).keys() == {"right"}, result.notes
