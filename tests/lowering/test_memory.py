"""Places in the arena: what is live at one time never overlaps, and memory is used again."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fpga_dynamo.ir.command import Command
from fpga_dynamo.ir.launch import MemoryPlan
from fpga_dynamo.ir.records import Move
from fpga_dynamo.ir.view import VEC, Buffer, Role
from fpga_dynamo.lowering.passes.cores.memory import STATUS_BEATS, plan_memory
from tests.lowering.lowering_cases import programs_of, randomise


def command(reads: list[Buffer], writes: list[Buffer]) -> Command:
    return Command(Move(), tuple(reads), tuple(writes))


@st.composite
def command_lists(draw: Any) -> tuple[list[Command], list[Buffer], list[Buffer]]:
    """Commands that read what has been written, and write new buffers or more of an old one."""
    size = st.integers(1, 100)
    inputs = [Buffer(draw(size), Role.INPUT) for _ in range(draw(st.integers(1, 3)))]
    written = list(inputs)
    commands = []
    for _ in range(draw(st.integers(1, 15))):
        reads = draw(st.lists(st.sampled_from(written), max_size=3, unique=True))
        targets = [b for b in written if b.role is not Role.INPUT and b not in reads]
        again = targets and draw(st.booleans())
        role = draw(st.sampled_from([Role.TEMPORARY, Role.TEMPORARY, Role.OUTPUT]))
        out = draw(st.sampled_from(targets)) if again else Buffer(draw(size), role)
        if out not in written:
            written.append(out)
        commands.append(command(reads, [out]))
    return commands, inputs, [b for b in written if b.role is Role.OUTPUT]


def lives(commands: list[Command], inputs: list[Buffer], outputs: list[Buffer]) -> dict[Buffer, tuple[int, int]]:
    """First and last command at which each buffer's content matters; inputs from before, outputs to the end."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for i, each in enumerate(commands):
        for buffer in each.uses:
            spans[buffer] = (spans.get(buffer, (i, i))[0], i)
    everything = (-1, len(commands))
    return {**spans, **dict.fromkeys([*inputs, *outputs], everything)}


def assert_disjoint(plan: MemoryPlan, spans: dict[Buffer, tuple[int, int]]) -> None:
    buffers = sorted(spans, key=lambda b: plan.places[b])
    for i, a in enumerate(buffers):
        for b in buffers[i + 1 :]:
            together = spans[a][0] <= spans[b][1] and spans[b][0] <= spans[a][1]
            assert not together or plan.places[a] + a.beats <= plan.places[b], "two live buffers overlap"


@given(command_lists())
@settings(max_examples=300, deadline=None)
def test_buffers_that_are_live_together_do_not_overlap(given_: Any) -> None:
    commands, inputs, outputs = given_
    plan = plan_memory(commands, inputs, outputs)
    spans = lives(commands, inputs, outputs)
    assert_disjoint(plan, spans)
    for buffer in spans:
        assert plan.places[buffer] >= STATUS_BEATS and plan.places[buffer] + buffer.beats <= plan.beats


@given(command_lists())
@settings(max_examples=100, deadline=None)
def test_outputs_and_inputs_lie_where_one_transfer_each_reaches_them(given_: Any) -> None:
    commands, inputs, outputs = given_
    plan = plan_memory(commands, inputs, outputs)
    assert all(plan.places[b] + b.beats <= plan.output_end for b in outputs)
    assert all(plan.input_begin <= plan.places[b] < plan.input_end for b in inputs)
    assert STATUS_BEATS <= plan.output_end <= plan.input_begin <= plan.input_end <= plan.beats


@given(command_lists())
@settings(max_examples=100, deadline=None)
def test_the_plan_knows_the_least_size_possible(given_: Any) -> None:
    commands, inputs, outputs = given_
    plan = plan_memory(commands, inputs, outputs)
    spans = lives(commands, inputs, outputs)
    live = [sum(b.beats for b, (first, last) in spans.items() if first <= i <= last) for i in range(len(commands))]
    assert plan.live == STATUS_BEATS + max(live)
    assert plan.live <= plan.beats


def test_a_chain_needs_two_buffers_however_long_it_is() -> None:
    buffers = [Buffer(64) for _ in range(20)]
    commands = [command([a], [b]) for a, b in itertools.pairwise(buffers)]
    first = command([], [buffers[0]])
    plan = plan_memory([first, *commands], [], [])
    assert plan.beats == STATUS_BEATS + 2 * 4


def test_the_best_fit_is_taken() -> None:
    large, small, keep, wanted = Buffer(128), Buffer(32), Buffer(16), Buffer(32)
    between = [Buffer(16), Buffer(16)]
    commands = [
        command([], [large]), command([], [between[0]]), command([], [small]), command([], [between[1]]),
        command([large, small], [keep]), command(between, [wanted]),
    ]  # fmt: skip
    plan = plan_memory(commands, [], [])
    assert plan.places[wanted] == plan.places[small]


def test_an_output_is_never_in_the_place_of_an_input() -> None:
    model = randomise(nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)))
    (program,) = programs_of(model, torch.randn(1, 16, 6, 6))
    for task in program.card_tasks:
        spans = lives(task.commands, [], [])
        for each in task.commands:
            for read in each.reads:
                for write in each.writes:
                    if read in spans and read in task.plan.places and read is not write:
                        begin, end = task.plan.places[read], task.plan.places[write]
                        assert begin + read.beats <= end or end + write.beats <= begin


def test_a_deep_network_uses_its_memory_again() -> None:
    layers = [nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()) for _ in range(12)]
    (program,) = programs_of(randomise(nn.Sequential(*layers)), torch.randn(1, 16, 16, 16))
    (task,) = program.card_tasks
    activation = 16 * 16 * 16 // 16
    assert task.plan.beats <= 5 * activation
    assert task.plan.beats <= 1.1 * task.plan.live


def test_largest_first_where_best_fit_leaves_gaps() -> None:
    a, b, c, d = (Buffer(size * VEC) for size in (2, 2, 3, 1))
    commands = [command([], [a]), command([a], [b]), command([b], [c]), command([c], [d])]
    plan = plan_memory(commands, [], [])
    assert_disjoint(plan, lives(commands, [], []))
    assert plan.beats == plan.live == STATUS_BEATS + 5, "the third does not fit into the first's place"
