"""Plain kernels as operators: what they compute in eager mode, in compiled graphs, and as tasks of the scheduler."""

from __future__ import annotations

import copy
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fpga_dynamo
import xclbin_build
from fpga_dynamo.runtime.scheduling.policies import policy_names
from tests.backend.backend_kit import counting
from tests.backend.plain_kit import RECIPE, axpy, define, halves, split, widen


@pytest.fixture(scope="module")
def shared() -> str:
    """An xclbin with the cores and one of the kernels."""
    return str(xclbin_build.cached(RECIPE))


def whole(model: Any, **options: Any) -> Any:
    """`model` compiled as one graph, all of it on the card."""
    chosen = {"partition": "greedy", "strict": True, **options}
    return torch.compile(model, backend="fpga", fullgraph=True, options=chosen)


def divided(a: torch.Tensor) -> torch.Tensor:
    low, high = split(a * 2)
    return torch.relu(high) - low


def test_float32_with_an_argument_that_is_written() -> None:
    x, y = torch.randn(2, 100)
    expected = y + 0.5 * x
    assert axpy(x, y, 0.5) is None
    torch.testing.assert_close(y, expected)


def test_int8_to_int32() -> None:
    a = torch.randint(-128, 128, (3, 50), dtype=torch.int8)
    assert torch.equal(widen(a), 2 * a.int())
    assert torch.equal(widen(**{"in": a}), 2 * a.int())


def test_half_with_a_half_as_scalar() -> None:
    a = torch.randn(4, 33).half()
    assert torch.equal(halves(a, 0.25), 0.25 * a)


def test_several_outputs_in_the_order_of_c() -> None:
    a = torch.randn(77)
    low, high = split(a)
    assert torch.equal(low, a.clamp(max=0)) and torch.equal(high, a.clamp(min=0))


def test_wide_elements_are_bytes_of_any_dtype() -> None:
    twice = define("twice", outputs={"out": "like a"}, sizes={"beats": "(a.numel() * a.itemsize + 63) // 64"})
    a = torch.randn(3, 7)  # its last beat is not full
    assert torch.equal(twice(a), a + a)


def test_content_of_an_output_that_a_rule_makes() -> None:
    histogram = define("histogram", outputs={"counts": "torch.zeros(4)"}, sizes={"n": "indices.numel()"})
    assert histogram(torch.tensor([1, 3, 1], dtype=torch.int32)).tolist() == [0, 2, 0, 1]


def test_shape_as_rule_and_an_input_that_is_not_const() -> None:
    square = define("square", inputs=("a",), outputs={"out": "(a.numel(), 1)"}, sizes={"n": "a.numel()"})
    assert torch.equal(square(torch.arange(3.0)), torch.tensor([[0.0], [1.0], [4.0]]))


def test_a_kernel_without_inputs() -> None:
    fill = define("fill", outputs={"out": "n"})
    assert fill(2.5, 3).tolist() == fill(n=3, value=2.5).tolist() == [2.5] * 3

    def model(a: torch.Tensor) -> torch.Tensor:
        return torch.relu(a + fill(-1.0, a.shape[0]))

    compiled = torch.compile(model, backend="fpga", dynamic=True, fullgraph=True)
    for count in (5, 9):
        assert torch.equal(compiled(torch.arange(float(count))), model(torch.arange(float(count))))


@pytest.mark.parametrize("view", [torch.t, lambda a: a[::2], lambda a: a.expand(2, *a.shape), lambda a: a[:, 1:]])
def test_inputs_that_are_not_contiguous(view: Any) -> None:
    a = torch.randn(6, 9)
    low, high = split(view(a))
    assert torch.equal(low + high, view(a)) and low.is_contiguous()


def test_written_argument_that_is_not_contiguous() -> None:
    x, y = torch.randn(2, 5, 5)
    expected = y.t() + x
    axpy(x, y.t(), 1.0)
    torch.testing.assert_close(y.t(), expected)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_no_elements(shape: tuple[int, ...]) -> None:
    with counting() as grown:
        low, _ = split(torch.empty(shape))
    assert low.shape == shape and grown["pl_launches"] == 0


def test_numpy_arrays() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 3, 4), np.float32)
    before = y.copy()
    axpy(x, y, 2.0)
    np.testing.assert_allclose(y, before + 2 * x, rtol=1e-6)
    low, high = split(x.T)
    assert isinstance(low, np.ndarray) and (low + high == x.T).all()
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    assert split(frozen)[1].sum() == 3


def test_compiled_as_a_launch_of_its_own() -> None:
    a = torch.randn(30, 40)
    with counting() as grown:
        assert torch.equal(whole(divided)(a), divided(a))
    assert grown["pl_launches"] == 4 and grown["ps_nodes"] == 0  # one of them in eager mode
    report = fpga_dynamo.explain(divided, a, options={"partition": "greedy"})
    (node,) = (node for node in report.graphs[0].nodes if "split" in node.op)
    assert (node.place, node.pattern) == ("PL", "split") and node.source.startswith("test_plain_kernels.py:")
    assert re.fullmatch(r"split: kernel of its own xclbin, launch graph\d+\.1", node.how)
    assert report.graph_count == 1 and report.pl_launches == 3


def test_compute_units_of_the_xclbin_that_has_the_kernel(shared: str) -> None:
    a = torch.randn(30, 40)
    compiled = whole(divided, xclbin=shared, verify=True)
    with fpga_dynamo.trace() as trace:
        result = compiled(a)
    assert torch.equal(result, divided(a))
    assert [task.pe for task in trace.tasks] == ["sequencer_1", "split_1", "sequencer_1"]
    report = fpga_dynamo.explain(divided, a, options={"partition": "greedy", "xclbin": shared})
    assert any(node.how.startswith("split: kernel of the xclbin, launch graph") for node in report.graphs[0].nodes)


def test_a_kernel_with_other_arguments_is_another_kernel(shared: str, tmp_path: Path) -> None:
    source = tmp_path / "split.cpp"
    source.write_text('extern "C" void split(const float* a, float* out) { out[0] = a[0] + 1; }\n')
    other = fpga_dynamo.kernel(source, outputs={"out": "1"})
    compiled = whole(lambda a: torch.relu(other(a)), xclbin=shared)
    with fpga_dynamo.trace() as trace:
        assert compiled(torch.ones(1)).item() == 2
    assert trace.tasks[0].pe == "split_1@2"  # the name of the unit is taken


def test_sizes_that_change() -> None:
    compiled = torch.compile(divided, backend="fpga", dynamic=True, fullgraph=True, options={"partition": "greedy"})
    for rows, columns in ((3, 20), (7, 20), (50, 33)):
        a = torch.randn(rows, columns)
        assert torch.equal(compiled(a), divided(a))


def test_written_argument_in_a_graph() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        axpy(x, y, 0.5)
        return torch.relu(y)

    x, y = torch.randn(2, 100)
    mine, theirs = y.clone(), y.clone()
    torch.testing.assert_close(whole(model)(x, mine), model(x, theirs))
    assert torch.equal(mine, theirs)


def test_gradients() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = y * 2
        axpy(x, z, 0.5)
        low, high = split(z)
        return (high - 3 * low).square().sum()

    x, y = torch.randn(2, 40)
    z = (2 * y + 0.5 * x).double().requires_grad_()
    (z.clamp(min=0) - 3 * z.clamp(max=0)).square().sum().backward()
    assert z.grad is not None
    for run in (model, torch.compile(model, backend="fpga", options={"partition": "greedy"})):
        a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
        run(a, b).backward()
        torch.testing.assert_close(a.grad, 0.5 * z.grad.float())
        torch.testing.assert_close(b.grad, 2 * z.grad.float())


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad: bool) -> None:
    x, y = torch.randn(2, 3, 4, requires_grad=requires_grad)
    torch.library.opcheck(axpy.op, (x, y, 0.5))
    torch.library.opcheck(split.op, (x.t(),))
    torch.library.opcheck(widen.op, (torch.ones(3, dtype=torch.int8),))


def test_threads_share_the_kernel(shared: str) -> None:
    compiled = whole(divided, xclbin=shared)
    compiled(torch.randn(64))
    wrong: list[int] = []

    def run(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(20):
            a = torch.randn(64, generator=generator)
            if not torch.equal(sum(split(a)), a) or not torch.equal(compiled(a), 2 * a.abs()):
                wrong.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("policy", policy_names())
def test_policies_choose_between_units_and_the_host(policy: str, shared: str) -> None:
    a = torch.randn(1000)
    for options in ({"xclbin": shared, "granularity": "op"}, {"partition": "greedy"}):
        torch._dynamo.reset()
        compiled = torch.compile(divided, backend="fpga", options={"policy": policy, **options})
        with fpga_dynamo.trace() as trace:
            results = [compiled(a) for _ in range(3)]
        assert all(torch.equal(result, 2 * a.abs()) for result in results)
        names = {task.pe.rstrip("0123456789") for task in trace.tasks}
        assert names <= ({"ps", "split_", "sequencer_"} if "xclbin" in options else {"split_", "sequencer_"})


def test_task_graph_has_both_kinds(shared: str) -> None:
    application = fpga_dynamo.task_graph(divided, torch.randn(100), granularity="op", options={"xclbin": shared})
    (task,) = (task for task in application.tasks if task.kernel == "split")
    assert {"x86", "split"} <= set(task.seconds)
    assert task.run is not None
    for kind in ("split", "x86"):
        low, high = task.run(kind, (torch.tensor([-1.0, 2.0]),))
        assert torch.equal(low + high, torch.tensor([-1.0, 2.0]))


def test_a_model_with_a_kernel_is_copied() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = split

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            low, high = self.kernel(a)
            return high - low

    model = copy.deepcopy(Model())
    a = torch.randn(9)
    assert torch.equal(torch.compile(model, backend="fpga")(a), a.abs())
