"""What goes to the card, in how few launches, in what order; and what stays, for which reason."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import fpga_dynamo
from fpga_dynamo.codegen import cost
from fpga_dynamo.codegen.core import CORES
from fpga_dynamo.ir.program import CardTask, Program
from fpga_dynamo.ir.target import Target, Windows
from fpga_dynamo.lowering.passes.pipeline import lower
from fpga_dynamo.options import Options
from tests.lowering.lowering_cases import GREEDY, Call, Case, check, programs_of, randomise

ON_PS = torch.special.erfcx  # no core computes it


def assert_runnable_in_order(program: Program) -> None:
    """Every value is made before it is read, and dependencies say so: there can be no cycle."""
    made: dict[object, int] = {}
    for i, task in enumerate(program.tasks):
        for node in task.reads:
            if node in made:
                assert made[node] in task.dependencies
            else:
                assert node.op in ("placeholder", "get_attr")
        assert all(d < i for d in task.dependencies)
        made.update(dict.fromkeys(task.writes, i))


def launches(program: Program) -> int:
    return len(program.card_tasks)


ROUND_TRIPS = {
    "all on the card": (lambda x: torch.tanh(x * 2 + 1), 1),
    "eager in the end": (lambda x: ON_PS(x * 2), 1),
    "eager at the start": (lambda x: torch.tanh(ON_PS(x)), 1),
    "eager in between": (lambda x: torch.tanh(ON_PS(x * 2)), 2),
    "a way around eager": (lambda x: (lambda y: ON_PS(y) + y)(x * 2), 2),
    "two branches, one through eager": (lambda x: ON_PS(x * 2) + torch.tanh(x * 3), 2),
    "two branches through eager": (lambda x: ON_PS(x * 2) + ON_PS(x * 3), 2),
    "a long way and a short way": (lambda x: ON_PS(ON_PS(x * 2) * 3) + x * 4, 3),
    "eager mode's results meet": (lambda x: (ON_PS(x) * 2, ON_PS(x + 1) * 3), 2),
}


@pytest.mark.parametrize("function, count", ROUND_TRIPS.values(), ids=ROUND_TRIPS)
def test_launches_are_as_few_as_the_flow_of_data_allows(function: Any, count: int) -> None:
    (program,) = programs_of(function, torch.randn(3, 17))
    assert_runnable_in_order(program)
    assert launches(program) == count


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=9), st.booleans())
@settings(max_examples=25, deadline=None)
def test_no_mixture_of_card_and_eager_is_a_cycle(steps: list[tuple[bool, int, int]], both: bool) -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        values = [x]
        for on_card, i, j in steps:
            a, b = values[-1 - i % len(values)], values[-1 - j % len(values)]
            values.append((a * 0.5 + b) if on_card else ON_PS(a.abs() + b.abs()))
        return values[1:] if both else values[-1:]

    x = torch.linspace(-1, 1, 17)
    (program,) = programs_of(function, x)
    assert_runnable_in_order(program)
    answers = torch.compile(function, backend="fpga", options=GREEDY)(x)
    for ours, eager in zip(answers, function(x), strict=True):
        torch.testing.assert_close(ours, eager)


def test_random_numbers_are_drawn_in_the_order_of_eager() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        a = F.dropout(x * 2, 0.3, training=True)
        b = torch.rand_like(x) + ON_PS(x)
        c = F.dropout(torch.tanh(a), 0.5, training=True) + torch.randn(3, 17)
        return a * b + c

    compiled = torch.compile(function, backend="fpga", options=GREEDY)
    x = torch.randn(3, 17)
    for seed in range(3):
        torch.manual_seed(seed)
        eager, eager_after = function(x), torch.rand(3)
        torch.manual_seed(seed)
        torch.testing.assert_close(compiled(x), eager)
        assert torch.equal(torch.rand(3), eager_after), "as many numbers were drawn"


def test_effects_follow_each_other_whatever_else_is_ready() -> None:
    (program,) = programs_of(lambda x: (torch.rand_like(x * 2), torch.rand(3), torch.rand_like(x)), torch.randn(3))
    assert_runnable_in_order(program)
    drawing = [i for i, task in enumerate(program.tasks) if any("rand" in str(n.target) for n in task.nodes)]
    assert all(a in program.tasks[b].dependencies for a, b in itertools.pairwise(drawing))


def lowered_for(target: Target, model: nn.Module, x: torch.Tensor, **platform: float) -> Program:
    """`model` lowered by cost for a card with memory of its own, whose figures are those of `platform`."""
    (program,) = programs_of(model, x)
    card = replace(target, windows=None, platform=replace(target.platform, **platform))  # type: ignore[arg-type]
    return lower(program.module, card, Options(), program.graph.static_inputs)


def test_work_that_does_not_pay_for_its_launch_stays_on_the_ps(target: Target) -> None:
    program = lowered_for(target, nn.Linear(8, 8).eval(), torch.randn(1, 8), launch_seconds=1e-3)
    assert (program.card_tasks, program.greedy_launches) == ([], 1)
    (why,) = {reason for reason in program.reasons.values()}
    assert re.search(r"1 command\(s\) save \d+ us of host time but cost 1\d{3} us with launch and transfers", why)
    assert "options={'partition': 'greedy'} offloads anyway" in why


def test_work_that_does_not_pay_for_its_transfers_stays_on_the_ps(target: Target) -> None:
    program = lowered_for(target, nn.ReLU(), torch.randn(300, 300), launch_seconds=0, transfer_bytes=1e6)
    assert program.card_tasks == []


def test_a_few_kilobytes_between_eager_nodes_are_no_launch() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x @ w).abs().relu(), torch.fft.fft(x).real.tanh()

    x, w = torch.randn(32, 64, dtype=torch.complex64), torch.randn(64, 64, dtype=torch.complex64)
    (program,) = programs_of(function, x, w, partition="cost")
    assert (program.card_tasks, program.greedy_launches) == ([], 1)
    (alone,) = programs_of(lambda x: (x.relu(), x.tanh()), torch.randn(32, 64), partition="cost")
    assert launches(alone) == 1, "a program of one launch has no tasks to go between"


def test_a_launch_among_other_tasks_has_to_pay_for_the_hosts_work_on_it(target: Target) -> None:
    figures = {"launch_seconds": 0, "transfer_bytes": 1e15, "clock_hz": 1e15, "ps_bytes": 1e15}
    for first, count, wanted in ((ON_PS, cost.TASK_NODES - 1, 0), (ON_PS, cost.TASK_NODES + 1, 1), (None, 1, 1)):
        nodes = [nn.Softmax(1) for _ in range(count)]
        model = nn.Sequential(*nodes) if first is None else nn.Sequential(Call(first), *nodes)
        assert launches(lowered_for(target, model.eval(), torch.randn(3, 17), **figures)) == wanted


def test_a_large_tensor_that_is_read_in_place_costs_no_transfer(target: Target) -> None:
    model, x = nn.Softmax(1), torch.randn(512, 1024)
    (program,) = programs_of(model, x, partition="cost")
    assert launches(program) == 1
    software = program.graph.target
    assert software.windows == Windows(least=16384, beat=64)

    def card_seconds(x: torch.Tensor, card: Target) -> float:
        (program,) = programs_of(model, x)
        (task,) = lower(program.module, card, Options(partition="greedy")).card_tasks
        return task.seconds

    def copied(x: torch.Tensor, card: Target = software) -> float:
        """Bytes that are paid for: at an infinite rate of transfer the rest of the time is left."""
        fast = replace(card, platform=replace(card.platform, transfer_bytes=float("inf")))
        return (card_seconds(x, card) - card_seconds(x, fast)) * card.platform.transfer_bytes

    assert copied(torch.randn(64, 64)) == pytest.approx(0, abs=1)
    assert copied(torch.randn(63, 64)) == pytest.approx(2 * 63 * 64 * 4), "below 16 KiB"
    assert copied(torch.randn(65, 65)) == pytest.approx(2 * 65 * 65 * 4), "not whole beats"
    assert copied(torch.randn(64, 64), replace(software, windows=None)) == pytest.approx(2 * 64 * 64 * 4)


def test_a_core_that_may_not_follow_windows_has_its_segment_copied(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = programs_of(nn.Softmax(1), torch.randn(512, 1024), partition="cost")
    software = program.graph.target
    slow_copies = replace(software, platform=replace(software.platform, transfer_bytes=4e9))
    assert launches(lower(program.module, slow_copies, Options())) == 1
    monkeypatch.setitem(CORES._cores, "reduce", replace(CORES["reduce"], zero_copy=False))
    assert lower(program.module, slow_copies, Options()).card_tasks == []


@pytest.mark.parametrize("activation, count", [(F.relu, 0), (F.gelu, 0), (F.elu, 0), (torch.tanh, 1)])
def test_an_activation_goes_where_it_is_fast(activation: Any, count: int) -> None:
    (program,) = programs_of(activation, torch.randn(512, 1024), partition="cost")
    assert launches(program) == count


def test_element_wise_ops_go_where_they_read_and_write_least() -> None:
    (alone,) = programs_of(lambda x: x * 2, torch.randn(512, 1024), partition="cost")
    (together,) = programs_of(lambda x: F.relu(x * 2) + x, torch.randn(512, 1024), partition="cost")
    assert (launches(alone), launches(together)) == (0, 1)


def test_work_that_pays_goes_to_the_card(target: Target) -> None:
    model = nn.Sequential(nn.Conv2d(64, 256, 3), nn.ReLU(), nn.Conv2d(256, 256, 3)).eval()
    program = lowered_for(target, model, torch.randn(1, 64, 40, 40), launch_seconds=1e-4, ps_flops=1e10, clock_hz=3e8)
    assert launches(program) == 1 and program.reasons == {}


def test_a_part_that_loses_does_not_take_the_rest_along(target: Target) -> None:
    model = Call(lambda x, w: ON_PS(F.conv2d(x, w)) * 2, w=torch.randn(128, 64, 3, 3)).eval()
    program = lowered_for(
        target, model, torch.randn(1, 64, 40, 40), launch_seconds=1e-4, ps_flops=1e9, clock_hz=3e8, ps_bytes=1e10
    )
    (task,) = program.card_tasks
    assert [covered.nodes[0].target for covered in task.covers] == [torch.ops.aten.convolution.default]
    assert_runnable_in_order(program)


def test_strict_names_every_node_that_would_stay_and_why() -> None:
    compiled = torch.compile(lambda x: torch.atan(x * 2), backend="fpga", options={**GREEDY, "strict": True})
    with pytest.raises(Exception, match="strict=True, but 1 node") as error:
        compiled(torch.randn(5))
    assert isinstance(getattr(error.value, "inner_exception", error.value), fpga_dynamo.NotLoweredError)
    assert "aten.atan.default at test_partition.py" in str(error.value)
    assert "no pattern matches aten.atan" in str(error.value)


def test_strict_is_content_when_everything_is_on_the_card() -> None:
    check(
        Case(nn.Sequential(nn.Conv2d(3, 10, 3), nn.ReLU(), nn.Flatten(), nn.Linear(160, 4)), (1, 3, 6, 6)), strict=True
    )


def test_a_disabled_pattern_leaves_its_nodes_to_eager() -> None:
    case = Case(
        nn.Sequential(nn.Conv2d(3, 10, 3), nn.Sigmoid()), (1, 3, 6, 6), offload=1 / 2, why="convolution disabled"
    )
    check(case, disable=("convolution",))


def test_a_disabled_pattern_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(Exception, match="'disable' names no pattern: convolutoin"):
        programs_of(torch.relu, torch.randn(3), disable=("convolutoin",))


class TwoBranches(nn.Module):
    """Two chains that meet in the end only, each as heavy as `size` makes it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.left = nn.Sequential(nn.Conv2d(3, channels, 3), nn.ReLU(), nn.Conv2d(channels, channels, 3))
        self.right = nn.Sequential(nn.Conv2d(3, channels, 3), nn.ReLU(), nn.Conv2d(channels, channels, 3))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.left(x), self.right(y)


def test_independent_parts_share_a_launch_unless_each_is_worth_one() -> None:
    def lowered(channels: int, size: int, lanes: int) -> Program:
        images = torch.randn(1, 3, size, size), torch.randn(1, 3, size, size)
        (program,) = programs_of(randomise(TwoBranches(channels)), *images)
        card = replace(program.graph.target, lanes=lanes)
        return lower(program.module, card, Options(partition="greedy"), program.graph.static_inputs)

    for of_a_card_or_one_lane in (0, 1):
        assert launches(lowered(8, 8, of_a_card_or_one_lane)) == 1
        heavy = lowered(128, 40, of_a_card_or_one_lane)
        assert launches(heavy) == 2
        assert all(task.dependencies == () for task in heavy.tasks)
    assert launches(lowered(128, 40, lanes=2)) == 1, "units that share the host's cores would have half of them each"


# --- other cards ------------------------------------------------------------------------------------------------------


def recipe(folder: Path, name: str, cores: str) -> str:
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\n[kernel.{name}]\ncores = {cores}\n')
    return str(path)


def test_a_core_that_the_recipe_lacks_leaves_its_nodes_to_eager(tmp_path: Path) -> None:
    case = Case(
        nn.Sequential(nn.Conv2d(3, 10, 3), nn.Sigmoid(), nn.Softmax(1)),
        (1, 3, 6, 6),
        offload=1 / 3,
        why="no kernel of the xclbin has all its opcodes: elementwise lacks (conv2d, depthwise|reduce)$",
    )
    check(case, recipe=recipe(tmp_path, "elementwise", '["pointwise", "move"]'))


def test_convolutions_need_no_matrix_engine(tmp_path: Path) -> None:
    case = Case(nn.Sequential(nn.Conv2d(3, 10, 1), nn.ReLU()), (2, 3, 6, 6), commands={"conv2d": 1})
    check(case, recipe=recipe(tmp_path, "convolver", '["conv2d", "move"]'))


def test_two_kernels_hand_values_to_each_other() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 17, 3), nn.BatchNorm2d(17), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(153, 20),
        nn.ReLU(), nn.Linear(20, 10), nn.Softmax(1),
    )  # fmt: skip
    report = check(Case(model, (2, 3, 8, 8), launches=2), recipe="split")
    (program,) = programs_of(model, torch.randn(2, 3, 8, 8), recipe="split")
    assert_runnable_in_order(program)
    assert [task.kernel for task in program.tasks if isinstance(task, CardTask)] == ["convolver", "matrix"]
    assert "convolver: convolution" in str(report) and "matrix: matmul" in str(report)


def test_a_chain_of_elementwise_ops_stays_on_the_kernel_where_its_input_is() -> None:
    both = Call(lambda x, v, w: torch.tanh(F.conv2d(x, v).exp() * 0.1).flatten(1) @ w + 1,
                v=torch.randn(4, 3, 3, 3), w=torch.randn(64, 5))  # fmt: skip
    (program,) = programs_of(randomise(both), torch.randn(2, 3, 6, 6), recipe="split")
    assert [task.kernel for task in program.card_tasks] == ["convolver", "matrix"]
    check(Case(both, (2, 3, 6, 6), launches=2), recipe="split")
