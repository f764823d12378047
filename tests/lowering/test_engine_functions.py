"""Functions of bfloat16 results on the hardware engine: tables and laws with eager mode's bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import Node

import fpga_dynamo
import xclbin_build
from fpga_dynamo.codegen.engine import sizes
from fpga_dynamo.codegen.engine.command import Flags, MacCommand
from fpga_dynamo.codegen.engine.cycles import moved_lines
from fpga_dynamo.codegen.engine.launch import moved_bytes
from fpga_dynamo.codegen.engine.target import sizes_of
from fpga_dynamo.frontend.capture import capture
from fpga_dynamo.lowering.ops.engine.floats import functions
from fpga_dynamo.tools.estimate import hardware
from fpga_dynamo.tools.estimate.accuracy import errors
from fpga_dynamo.tools.estimate.program import lower_for_engine
from fpga_dynamo.tools.estimate.simulation import EngineRun
from tests.lowering.test_engine_floats import card, lowered, recipe
from xclbin_build.build import load_design

TAKEN: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": nn.functional.silu,
    "gelu": nn.functional.gelu,
    "gelu tanh": nn.GELU("tanh"),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": nn.functional.hardswish,
    "hardsigmoid": nn.functional.hardsigmoid,
    "elu": nn.functional.elu,
    "leaky": nn.LeakyReLU(0.2),
    "exp": torch.exp,
    "factor": lambda x: x * 0.3,
    "two steps": lambda x: torch.tanh(x) * 0.5,
}
REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "mish": (nn.functional.mish, "nonlinear over 18 powers of two; the engine's table covers 16"),
    "root": (torch.sqrt, "nonlinear over 240 powers of two; the engine's table covers 16"),
    "reciprocal root": (lambda x: x**-0.5, "the function is not finite at 0, which padded channels hold"),
}


class Of(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def nodes_of(function: Callable[[Tensor], Tensor]) -> list[Node]:
    captured = capture(Of(function), (torch.randn(4, 16).bfloat16(),))
    return [node for node in captured.module.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("name", TAKEN)
def test_a_table_and_its_laws_have_eagers_bits(name: str) -> None:
    nodes = nodes_of(TAKEN[name])
    assert all(functions.is_unary_function(node, torch.bfloat16) for node in nodes)
    found = functions.function_of(nodes)
    assert not found.refusal and len(found.words) == 16 + 2048
    x = functions.numbers().flatten()
    size = x.float().abs()
    of_size = ((size >= 2.0**-120) & (size < 2.0**120)) | ~torch.isfinite(size)
    made, wanted = functions.applied(found, x), functions.bits_of(TAKEN[name](x))
    torch.testing.assert_close(made[of_size], wanted[of_size], rtol=0, atol=0)
    assert int(functions.applied(found, torch.zeros(1).bfloat16())) & 0x7FFF == int(wanted[0]) & 0x7FFF
    # What lies beyond is no NaN and as near as can be: eager mode's own result is 0, infinite, or the law's.
    other = torch.isfinite(size) & ~of_size
    laws = made[other].to(torch.int16).view(torch.bfloat16).float()
    eagers = TAKEN[name](x)[other].float()
    near = torch.isclose(laws, eagers, rtol=0, atol=2.0**-119)
    assert (near | eagers.isinf()).all() and not laws.isnan().any()


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_table_is_said(name: str) -> None:
    function, why = REFUSED[name]
    nodes = nodes_of(function)
    assert functions.function_of(nodes).refusal == why
    program, _ = lowered(Of(function), "bf16", 2, 16)
    assert list(program.left.values()) == [why]


@pytest.mark.parametrize("name", ["silu", "hardswish", "sigmoid"])
def test_the_card_gives_eagers_bits_of_all_numbers(name: str) -> None:
    numbers = functions.numbers().flatten()
    size = numbers.float().abs()
    numbers = numbers.where((size >= 2.0**-120) & (size < 2.0**120), 1.0).view(1, 16, 64, 64)
    captured = capture(Of(TAKEN[name]), (numbers,))
    program, _ = lowered(Of(TAKEN[name]), "bf16", 1, 16, 64, 64)
    assert not program.left
    run = EngineRun(program, card("bf16"), {n: numbers for n in program.graph.placeholders})
    torch.testing.assert_close(run.results()[0], captured.results[0], rtol=0, atol=0)


@pytest.mark.parametrize("target", ["emu", "cycles"])
def test_a_compiled_function_has_eagers_bits_on_both_cards(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_known", {})  # it is fitted while the graph is traced
    numbers = functions.numbers().flatten()
    size = numbers.float().abs()
    numbers = numbers.where((size >= 2.0**-120) & (size < 2.0**120), 0.5).view(1, 16, 64, 64)
    built = xclbin_build.cached(recipe("bf16"), target, platform="u250")
    options: dict[str, Any] = {"xclbin": str(built)}
    torch._dynamo.reset()
    compiled = torch.compile(Of(torch.sigmoid), backend="fpga", options=options)
    with fpga_dynamo.trace() as recorder, torch.no_grad():
        made = compiled(numbers)
    torch.testing.assert_close(made, torch.sigmoid(numbers), rtol=0, atol=0)
    assert [task.pe for task in recorder.tasks if task.pe == "engine_1"] == ["engine_1"]


def test_an_xclbin_that_says_nothing_of_functions_has_none() -> None:
    table = asdict(load_design(recipe("bf16"), platform="u250").kernels[0].engine)  # type: ignore[arg-type]
    assert sizes_of(table).has_functions
    del table["activations"]
    assert not sizes_of(table).has_functions


def test_a_functions_sizes_are_the_kernels() -> None:
    """hls_kernels/engine has them in config.hpp and processes/epilogue.hpp, and what is packed has as many words."""
    engine = Path(functions.__file__).parents[5] / "hls_kernels/engine"
    found: dict[str, int] = {}
    for name in ("config.hpp", "processes/epilogue.hpp"):
        for line in re.findall(r"^constexpr int (\w+ = [^;?]+);", (engine / name).read_text(encoding="utf-8"), re.M):
            key, _, value = line.partition(" = ")
            if key.startswith("FUNCTION_") or key == "ENTRIES_A_WORD":
                found[key] = eval(value, {}, found)
    assert found["FUNCTION_EXPONENTS"] == sizes.FUNCTION_EXPONENTS
    assert found["FUNCTION_ENTRIES"] == sizes.FUNCTION_ENTRIES
    assert found["FUNCTION_ENTRIES"] // found["ENTRIES_A_WORD"] == sizes.FUNCTION_WORDS
    assert len(functions.function_of(nodes_of(torch.sigmoid)).words) * 4 == sizes.FUNCTION_LINES * sizes.LINE_BYTES


def test_a_function_is_traffic_where_it_is_read() -> None:
    program, _ = lowered(Activated(), "bf16", 1, 3, 17, 17)
    (launch,) = program.lists.launches
    engine = program.engine
    moved = moved_bytes(launch, engine.sizes)
    plain = [moved_lines(e.command, engine.sizes) for e in launch if isinstance(e.command, MacCommand)]
    read = [size // sizes.LINE_BYTES - lines for size, lines in zip(moved, plain, strict=True)]
    of = sizes.FUNCTION_LINES
    assert read == [of, 0, 0, of, 0, of, of]  # the second layer has the first one's


class Activated(nn.Module):
    """Two functions, one of them of two layers in turn, one behind a sum, and one that nothing stands before."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32)
        self.second, self.third = nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 24, 1)
        self.beside, self.classes = nn.Conv2d(32, 24, 1), nn.Linear(24, 40)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.silu(self.norm(self.first(x)))
        x = nn.functional.silu(self.second(x))
        x = torch.sigmoid(self.third(x) + self.beside(x))
        rows = nn.functional.avg_pool2d(x, (9, 9)).flatten(1)
        result: Tensor = nn.functional.gelu(self.classes(torch.tanh(rows)))
        return result


def test_functions_are_parts_of_commands() -> None:
    program, _ = lowered(Activated(), "bf16", 1, 3, 17, 17)
    (launch,) = program.lists.launches
    assert not program.left
    assert [e.pattern for e in launch] == [*["convolution"] * 4, "average", "function", "matmul"]
    commands = [e.command for e in launch]
    assert all(isinstance(c, MacCommand) for c in commands)
    tables = [c.table if isinstance(c, MacCommand) and c.flags is Flags.TABLE else None for c in commands]
    assert tables[0] == tables[1] and [t is None for t in tables] == [False, False, True, False, True, False, False]
    assert len({t for t in tables if t is not None}) == 4


def test_an_engine_without_functions_leaves_them_to_the_host(tmp_path: Path) -> None:
    path = tmp_path / "plain.toml"
    path.write_text(
        'name = "plain"\nplatform = "u250"\n[kernel.engine]\nengine = "2x32x4"\nelement = "bfloat16"\n'
        "window = 1024\nweights = 512\nactivations = false\n"
    )
    captured = capture(Activated().eval().bfloat16(), (torch.randn(1, 3, 17, 17).bfloat16(),))
    engine = hardware.card("u250", str(path), "bf16").engine
    program = lower_for_engine(captured.module, engine, captured.static)
    assert [node.name for node in program.left] == ["silu", "silu_1", "sigmoid", "tanh", "gelu"]
    assert program.left[next(iter(program.left))] == "aten.silu.default has no engine command"


def test_activations_have_errors_of_the_size_of_eagers() -> None:
    program, captured = lowered(Activated(), "bf16", 1, 3, 17, 17)
    run = EngineRun(program, card("bf16"), captured.tensors())
    found = errors(program, run.value, captured.tensors())
    for node, error in found.items():
        assert error.card <= 2 * max(error.eager, torch.finfo(torch.bfloat16).eps / 4), (node, error)
