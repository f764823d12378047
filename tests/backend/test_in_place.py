"""Large tensors are read and written where they lie in the host's memory, where the cores can do that."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from fpga_dynamo import Options
from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.runtime.cards.card import open_card
from tests.backend.backend_kit import counting, mlp, on_card

CALLS = 3


def moved(compiled: Callable[..., Any], expected: Callable[..., Any], *inputs: Tensor) -> tuple[int, int]:
    """Bytes to and from the card in the last of some calls, all of which give the right answer in one launch each."""
    device = open_card(Options()).device
    with torch.no_grad():
        wanted = expected(*inputs)
        for _ in range(CALLS):
            for result in tree_leaves(wanted):
                torch.full_like(result, float("nan"))  # what the next one may be allocated from
            before = device.counters()
            with counting() as grown:
                torch.testing.assert_close(compiled(*inputs), wanted, rtol=1e-4, atol=1e-5)
            assert grown["pl_launches"] == 1
    after = device.counters()
    return tuple(after[name] - before[name] for name in ("bytes_to_device", "bytes_from_device"))


def chain(x: Tensor) -> Tensor:
    return torch.tanh(x * 2 + 1).abs() - x


@pytest.mark.parametrize("shape", [(64, 128), (3, 17, 16, 16)])
def test_a_chain_of_element_wise_operators_copies_nothing(shape: tuple[int, ...]) -> None:
    assert moved(on_card(chain), chain, torch.randn(shape)) == (0, 0)


def test_one_tensor_several_times_and_two_results() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * y + x, torch.relu(y) - x

    assert moved(on_card(function), function, torch.randn(64, 128), torch.randn(64, 128)) == (0, 0)


def test_weights_stay_where_they_are() -> None:
    """Their offsets, into a region of their own, are such as the inputs have in the arena."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.shift = nn.Parameter(torch.randn(64, 128)), nn.Parameter(torch.randn(128))

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x * self.scale + self.shift)

    model = Scaled()
    assert moved(on_card(model), model, torch.randn(64, 128)) == (0, 0)


def test_what_is_not_whole_vectors_is_copied() -> None:
    compiled, x, size = on_card(chain), torch.randn(70, 117), 70 * 117 * 4
    assert moved(compiled, chain, x) == (size, size)


def test_an_input_off_the_memory_s_grid_is_copied() -> None:
    compiled, memory = on_card(chain), torch.randn(64 * 128 + 1)
    aligned, shifted = memory[:-1].view(64, 128), memory[1:].view(64, 128)
    assert moved(compiled, chain, aligned) == (0, 0)
    assert moved(compiled, chain, shifted) == (64 * 128 * 4, 0)


def guarded(tensor: Tensor) -> Tensor:
    """A copy that begins at the start of a memory page, ends at the end of one, and has no memory before and behind."""
    assert tensor.nbytes % mmap.PAGESIZE == 0
    memory = mmap.mmap(-1, tensor.nbytes + 2 * mmap.PAGESIZE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (begin, begin + mmap.PAGESIZE + tensor.nbytes):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, 0) == 0
    flat = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=mmap.PAGESIZE)
    return flat.as_strided(tensor.shape, tensor.stride()).copy_(tensor)


def nhwc(*shape: int) -> Tensor:
    return torch.randn(shape).contiguous(memory_format=torch.channels_last)


class Of(nn.Module):
    """A function as a module, with the parameters of another one."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*self.layers, *inputs)


def each_core() -> Iterator[tuple[str, str, nn.Module, tuple[Tensor, ...]]]:
    """Name, opcode, model and inputs; inputs and results are whole memory pages."""
    sequence, square, picture = torch.randn(64, 128), torch.randn(128, 128), torch.randn(2, 3, 64, 64)
    heads = tuple(torch.randn(2, 4, 64, 32) for _ in range(3))
    yield "planar image", "conv2d", nn.Conv2d(3, 32, 3, padding=1), (picture,)
    yield "strided image", "conv2d", nn.Conv2d(3, 32, 7, 2, 3), (picture,)
    yield "wide windows", "conv2d", nn.Conv2d(64, 32, 3, padding=16, dilation=16), (nhwc(1, 64, 32, 32),)
    yield "groups", "conv2d", nn.Conv2d(32, 64, 3, padding=1, groups=2), (nhwc(2, 32, 32, 32),)
    yield "pixels", "gemm", nn.Conv2d(64, 32, 1), (nhwc(1, 64, 32, 32),)
    yield "windows inside", "conv2d", nn.Conv2d(16, 32, 2, 2), (nhwc(1, 16, 64, 64),)
    yield (
        "residual",
        "conv2d",
        Of(lambda c, x, y: F.relu(c(x) + y), nn.Conv2d(32, 32, 3, 2, 1)),
        (
            nhwc(1, 32, 64, 64),
            nhwc(1, 32, 32, 32),
        ),
    )
    yield "3x3", "winograd", nn.Conv2d(64, 64, 3, padding=1), (nhwc(1, 64, 32, 32),)
    yield (
        "3x3 with residual",
        "winograd",
        Of(lambda c, x: c(x) + x, nn.Conv2d(64, 64, 3, padding=1)),
        (nhwc(1, 64, 32, 32),),
    )
    yield "a filter a channel", "depthwise", nn.Conv2d(32, 32, 3, padding=1, groups=32), (nhwc(1, 32, 32, 32),)
    yield "linear", "gemm", nn.Linear(128, 128), (sequence,)
    yield "linear, transposed", "gemm", Of(lambda c, x: c(x.t()), nn.Linear(64, 128)), (torch.randn(64, 128),)
    yield "linear with residual", "gemm", Of(lambda c, x: c(x) + x, nn.Linear(128, 128)), (sequence,)
    yield "product", "gemm", Of(torch.matmul), (sequence, square)
    yield "product, transposed", "gemm", Of(lambda x, y: x @ y.t()), (sequence, square)
    yield "batched product", "gemm", Of(torch.matmul), (torch.randn(4, 64, 96), torch.randn(4, 96, 64))
    yield "maximum pooling", "pool", nn.MaxPool2d(3, 2, 1), (nhwc(1, 64, 32, 32),)
    yield "average pooling", "pool", nn.AvgPool2d(2), (nhwc(1, 64, 32, 32),)
    yield "softmax", "reduce", nn.Softmax(-1), (sequence,)
    yield "softmax of columns", "reduce", nn.Softmax(0), (sequence,)
    yield "layer norm", "reduce", nn.LayerNorm(128), (sequence,)
    yield "sum of rows", "reduce", Of(lambda x: x.sum(1)), (torch.randn(4096, 64),)
    yield "variance and mean", "reduce", Of(lambda x: torch.var_mean(x, 1)), (torch.randn(4096, 64),)
    yield "transposition", "move", Of(lambda x: torch.stack([x.t(), x.t()])), (sequence,)
    yield "flip", "move", Of(lambda x: x.flip(0, 1)), (sequence,)
    yield "concatenation", "move", Of(lambda x, y: torch.cat([x, y], 1)), (sequence, torch.randn(64, 64))
    yield (
        "selection",
        "gather",
        Of(lambda x, i: x.index_select(0, i)),
        (
            torch.randn(1024, 64),
            torch.arange(1023, 511, -1),
        ),
    )
    yield (
        "bilinear",
        "resample",
        Of(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear")),
        (nhwc(1, 32, 16, 32),),
    )
    yield "nearest", "resample", Of(lambda x: F.interpolate(x, scale_factor=2.0)), (nhwc(1, 32, 16, 32),)
    yield "attention", "attention", Of(F.scaled_dot_product_attention), heads
    yield "attention with a mask", "attention", Of(F.scaled_dot_product_attention), (*heads, torch.randn(2, 1, 64, 64))
    yield "half precision", "convert", Of(lambda x: torch.relu(x).sqrt()), (torch.randn(128, 128).bfloat16(),)


with torch.random.fork_rng():
    torch.manual_seed(0)
    CASES = {name: (opcode, model, inputs) for name, opcode, model, inputs in each_core()}


@pytest.mark.parametrize("name", CASES)
def test_no_core_reads_beyond_an_input_or_needs_a_copy(name: str) -> None:
    opcode, model, inputs = CASES[name]
    model.eval()
    converted = sum(4 * x.numel() for x in inputs if x.dtype is torch.int64)
    with collect_programs() as programs:
        assert moved(on_card(model), model, *map(guarded, inputs)) == (converted, 0)
    assert opcode in {command.opcode for p in programs for task in p.card_tasks for command in task.commands}


def test_network_on_an_image() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 64, 1), nn.MaxPool2d(2)
    )
    assert moved(on_card(model.eval()), model, guarded(torch.randn(1, 3, 64, 128))) == (0, 0)


def test_mlp() -> None:
    model = mlp(128, 256, 128).eval()
    assert moved(on_card(model), model, guarded(torch.randn(64, 128))) == (0, 0)
