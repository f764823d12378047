"""Cycle formulas against what the cores' loops say, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fpga_dynamo.codegen import cost
from fpga_dynamo.codegen.core import CORES
from fpga_dynamo.ir.command import Command, OwnRecord
from fpga_dynamo.ir.target import Target
from tests.lowering.lowering_cases import Call, programs_of, randomise


def commands_of(model: object, *inputs: torch.Tensor) -> dict[str, Command]:
    (program,) = programs_of(model, *inputs)  # type: ignore[arg-type]
    return {command.opcode: command for task in program.card_tasks for command in task.commands}


def test_a_convolution_takes_a_cycle_for_each_step_of_its_mac_array(target: Target) -> None:
    command = commands_of(randomise(nn.Conv2d(10, 58, 3)), torch.randn(2, 10, 9, 20))["conv2d"]
    assert command.cycles == cost.START + -(-2 * 7 * 18 // target.tiles["ROWS"]) * 1 * 9 * 10
    assert command.macs == 2 * 7 * 18 * 58 * 9 * 10
    assert command.bytes == 4 * (2 * 10 * 9 * 20 + 2 * 58 * 7 * 18 + 58 * 10 * 9)


def test_a_matrix_product_takes_a_cycle_for_each_step_of_its_mac_array(target: Target) -> None:
    command = commands_of(randomise(nn.Linear(300, 130)), torch.randn(33, 300))["gemm"]
    panel = 16 * command.fields["vectors"]  # type: ignore[operator]
    assert command.cycles == cost.START + -(-33 // target.tiles["ROWS"]) * -(-130 // panel) * 300
    assert command.macs == 33 * 130 * 300


def test_a_matrix_product_of_a_batch_counts_every_matrix() -> None:
    one = commands_of(torch.bmm, torch.randn(1, 5, 17), torch.randn(1, 17, 20))["gemm"]
    three = commands_of(torch.bmm, torch.randn(3, 5, 17), torch.randn(3, 17, 20))["gemm"]
    assert three.cycles - cost.START == 3 * (one.cycles - cost.START)
    assert three.macs == 3 * one.macs


def test_other_cores_handle_a_vector_a_cycle() -> None:
    x = torch.randn(2, 32, 8, 8).to(memory_format=torch.channels_last)
    assert commands_of(lambda x: F.max_pool2d(x, 2), x)["pool"].cycles == cost.START + 2 * 4 * 4 * 2 * 4
    program = commands_of(lambda x: torch.tanh(x * 2 + 1), x)["pointwise"]
    assert program.cycles == cost.START + 2 * 32 * 64 // 16 * program.fields["instructions"]  # type: ignore[operator]
    assert commands_of(lambda x: x.sum(), x)["reduce"].cycles == cost.START + 2 * 32 * 64 // 16


def test_a_softmax_reads_its_rows_three_times() -> None:
    x = torch.randn(8, 64)
    once, thrice = (
        commands_of(f, x)["reduce"].cycles - cost.START for f in (lambda x: x.sum(1), lambda x: x.softmax(1))
    )
    assert thrice == 3 * once


def test_a_transposing_copy_takes_a_cycle_for_each_element() -> None:
    x = torch.randn(32, 32)
    wide = commands_of(lambda x: torch.stack([x]), x)["move"]
    narrow = commands_of(lambda x: torch.stack([x.t()]), x)["move"]
    assert wide.cycles == cost.START + 32 * 32 / 16
    assert narrow.cycles == cost.START + 32 * 32


def test_an_adaptive_pool_counts_its_windows() -> None:
    command = commands_of(Call(lambda x: F.adaptive_avg_pool2d(x, (2, 2))), torch.randn(1, 16, 8, 6))["pool"]
    assert command.cycles == cost.START + 2 * 2 * 1 * 4 * 3


def test_a_record_of_a_core_without_a_description_is_costed_by_its_size(target: Target) -> None:
    command = Command(OwnRecord("triple", {"dims": (4, 32)}), (), ())
    cost.annotate(command, target)
    assert command.cycles == cost.START + 4 * 32 / 16


def test_seconds_follow_from_the_platform_s_figures(target: Target) -> None:
    platform = replace(
        target.platform, clock_hz=2e8, transfer_bytes=1e9, ps_flops=1e10, ps_bytes=1e9, ps_node_seconds=1e-6
    )
    assert cost.command_seconds(2e8, platform) == pytest.approx(1.0)
    assert cost.transfer_seconds(1_000_000, platform) == pytest.approx(1e-3)
    assert cost.ps_seconds(1e10, 0, platform) == pytest.approx(1 + 1e-6), "arithmetic bound"
    assert cost.ps_seconds(0, 1e9, platform) == pytest.approx(1 + 1e-6), "memory bound"


def test_every_core_of_the_software_card_is_described(target: Target) -> None:
    opcodes = frozenset().union(*(kernel.opcodes for kernel in target.kernels))
    assert {opcode for opcode in opcodes if opcode not in CORES} <= {"streams"}, "that one computes nothing itself"
