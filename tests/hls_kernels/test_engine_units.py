"""Several compute units that share a network: the bits of a single one, and no unit reads what is not there yet."""

from __future__ import annotations

import dataclasses
import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.engine import networks
from benchmarks.engine.build import Builder, Built
from benchmarks.engine.measure import Outcome, measure
from benchmarks.engine.networks import exported
from benchmarks.engine.run import Engine
from benchmarks.engine.walk import network
from fpga_dynamo.codegen.engine.choose import DoesNotFitError
from fpga_dynamo.codegen.engine.command import IdleCommand, MacCommand, Operation, Peers, WeightKind
from fpga_dynamo.codegen.engine.cycles import MemoryTiming
from fpga_dynamo.codegen.engine.owners import Owners
from fpga_dynamo.codegen.engine.shared import CROSSING, WEIGHT_BURSTS, BankLoad, crossing
from fpga_dynamo.codegen.engine.sizes import CHANNELS, EngineSizes
from fpga_dynamo.codegen.engine.split import shares
from fpga_dynamo.ir.view import ceil_div
from hls_kernels import ROOT
from tests.hls_kernels.engine_models import Attention, Everything
from tests.marks import EXTENDED

SMALL = EngineSizes(
    pixels=2,
    out_channels=16,
    lanes=16,
    window_rows=1024,
    weight_steps=128,
    set_tiles=32,
    vector_depth=1024,
    vector_blocks=8,
)
MEMORY = MemoryTiming(0.93, 70, 70)
MODELS = {"everything": (Everything, (1, 3, 45, 51)), "attention": (Attention, (1, 41, 96))}
LIMITS = {
    "resnet18": 0.9,
    "resnet50": 2.0,
    "inception_v3": 3.2,
    "darknet53": 3.4,
    "mobilenet_v2": 1.0,
    "bert_base_128": 5.0,
}
"""Milliseconds on four units of a U250."""
SUM_WITHIN = 0.05
"""Of the counted cycles of a network on four units."""
SAME_BANK_WITHIN = 0.07
"""The same of DarkNet-53: planes of its maps are multiples of four pages, so that all units ask one bank at once."""
COMMANDS_WITHIN = 0.1
"""Of the same, what the cost model is off by in all of its commands together."""


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, model in MODELS.items():
        monkeypatch.setitem(networks.NETWORKS, name, model)


def built_for(name: str, units: int) -> Built:
    layers = network(name, exported(name).graph)
    return Builder(layers, SMALL, MEMORY, units=units).build()


@functools.cache
def engine(units: int, banks: int) -> Engine:
    return Engine(SMALL, "u250", 300.0, units, banks)


def wrong(built: Built, units: int, banks: int) -> int:
    """Elements of all maps that are not what they have to be; memory is full of 0xA5 before."""
    _, maps = engine(units, banks).run(built)
    return sum(int((built.stored(maps, i) != built.values[i]).sum()) for i in built.places if i)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("units", "banks"), [pytest.param(*case, marks=EXTENDED) for case in ((2, 1), (4, 4))])
def test_units_together_give_the_bits_of_one(name: str, units: int, banks: int) -> None:
    built, alone = built_for(name, units), built_for(name, 1)
    assert all(torch.equal(built.values[i], alone.values[i]) for i in alone.values)
    assert wrong(built, units, banks) == 0
    assert len({len(commands) for commands in built.lists}) == 1
    assert all(any(not isinstance(c, IdleCommand) for c in commands) for commands in built.lists)


def test_some_unit_is_idle_and_some_waits_for_its_peers() -> None:
    commands = [c for own in built_for("everything", 4).lists for c in own]
    assert any(isinstance(c, IdleCommand) for c in commands)
    waiting = [c for c in commands if not isinstance(c, IdleCommand) and c.peers]
    assert 0 < len(waiting) < len(commands)


@pytest.mark.slow
@pytest.mark.extended
def test_without_waiting_for_peers_results_are_wrong() -> None:
    built = built_for("everything", 4)
    for commands in built.lists:
        commands[:] = [c if isinstance(c, IdleCommand) else dataclasses.replace(c, peers=Peers.NONE) for c in commands]
    assert wrong(built, 4, 4) > 0


@st.composite
def commands(draw: st.DrawFn) -> MacCommand:
    kernel, stride = draw(st.sampled_from([1, 3, 5])), draw(st.sampled_from([1, 2]))
    height, width = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    blocks, results = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    one_to_one = draw(st.booleans())
    out = results if not one_to_one else blocks
    return MacCommand(
        operation=Operation.MULTIPLY,
        weight_kind=WeightKind.DIAGONAL if one_to_one else WeightKind.PACKED,
        input=4096,
        output=1 << 16,
        residual=draw(st.sampled_from([1 << 17, MacCommand().residual])),
        in_blocks=blocks,
        in_height=height,
        in_width=width,
        out_blocks=out,
        out_height=(height - 1) // stride + 1,
        out_width=(width - 1) // stride + 1,
        kernel=(kernel, kernel),
        stride=(stride, stride),
        padding=(kernel // 2, kernel // 2),
        group_in=blocks * CHANNELS,
        group_out=out * CHANNELS,
    )


@settings(max_examples=60, deadline=None)
@given(commands(), st.integers(1, 5))
def test_shares_make_each_line_of_the_output_once(command: MacCommand, units: int) -> None:
    try:
        found = shares(command, units, SMALL, MEMORY)
    except DoesNotFitError:
        return
    assert len(found) == units
    plane = ceil_div(command.out_height * command.out_width, SMALL.beat)
    written: list[int] = []
    for share in filter(None, found):
        for of in share.parts:
            part = of.command
            assert 0 <= share.first + of.block < command.out_blocks
            if part.raw:
                continue
            rows = ceil_div(part.out_height * part.out_width, SMALL.beat)
            for b in range(part.out_blocks):
                first = part.output - command.output + b * (part.out_plane or rows)
                written += range(first, first + rows)
            if command.has_residual:
                assert part.residual - command.residual == part.output - command.output
    assert sorted(written) == list(range(plane * command.out_blocks))


def test_owners_know_whose_lines_a_command_reads() -> None:
    owners = Owners(SMALL)
    top = MacCommand(output=0, out_height=4, out_width=8, out_plane=16)  # half of a map of 8 x 8 pixels
    owners.wrote(top, 0)
    owners.wrote(dataclasses.replace(top, output=8), 1)
    rows = MacCommand(input=0, in_height=8, in_width=8, out_height=4, out_width=8)
    assert owners.peers(rows, 0) == Peers.NONE
    assert owners.peers(rows, 1) == Peers.INPUT
    halo = dataclasses.replace(rows, kernel=(3, 3), padding=(1, 1))
    assert owners.peers(halo, 0) == Peers.INPUT
    assert owners.peers(dataclasses.replace(rows, input=1000, residual=8), 0) == Peers.RESIDUAL


def assert_model_agrees(found: Outcome, within: float = SUM_WITHIN) -> None:
    assert abs(found.model_milliseconds / found.milliseconds - 1) <= within
    off = sum(abs(command.model - command.cycles) for command in found.commands)
    assert off <= COMMANDS_WITHIN * found.cycles


@pytest.mark.slow
@pytest.mark.extended
def test_the_model_knows_what_four_units_cost_each_other() -> None:
    found = measure("resnet18", "u250", units=4, check=False)
    assert_model_agrees(found)
    assert found.milliseconds <= LIMITS["resnet18"]


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_four_units_of_a_u250(name: str) -> None:
    found = measure(name, "u250", units=4)
    assert found.wrong == 0
    assert found.milliseconds <= LIMITS[name]
    assert_model_agrees(found, SAME_BANK_WITHIN if name == "darknet53" else SUM_WITHIN)


@pytest.mark.parametrize(
    ("header", "name", "value"),
    [("peer_card.hpp", "CROSSING", CROSSING), ("peer_ports.hpp", "WEIGHT_BURSTS", WEIGHT_BURSTS)],
)
def test_the_model_has_the_figures_of_the_ports(header: str, name: str, value: int) -> None:
    assert f" {name} = {value};" in (ROOT / "engine" / header).read_text()


def test_a_bank_is_further_away_and_busy_with_others() -> None:
    assert crossing(1) == 0
    assert crossing(4) == CROSSING * 20 / 16
    assert BankLoad(0.0, 0.0, 64.0).wait == 0
    assert BankLoad(0.5, 0.0, 64.0).wait == WEIGHT_BURSTS * 64 / 4
    assert BankLoad(0.5, 0.25, 16.0).wait == BankLoad(0.5, 0.0, 16.0).wait + 2
