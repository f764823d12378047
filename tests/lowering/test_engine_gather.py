"""Any order of int8 elements on the hardware engine: one launch, and the bits of eager mode on the engine's sources."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.gather import EngineGather, GatherRun, GatherSource, compact, copied, transposed
from fpga_dynamo.codegen.engine.maps import Map, RefusedError
from fpga_dynamo.codegen.engine.sizes import EngineSizes
from fpga_dynamo.ir.blocked import CHANNEL, CHANNELS, IMAGE, PIXEL
from fpga_dynamo.ir.view import View
from fpga_dynamo.tools.estimate.program import lower_for_engine
from tests.lowering.engine_kit import assert_one_exact_launch, computing, little, lowered
from tests.marks import EXTENDED


class Windows(nn.Module):
    """Windows of 7 x 7 pixels as sequences, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.rows = nn.Conv2d(3, 32, 1), nn.Linear(32, 48)
        self.last = nn.Conv2d(48, 16, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x)).permute(0, 2, 3, 1)
        images, height, width, channels = x.shape
        windows = x.view(images, height // 7, 7, width // 7, 7, channels).permute(0, 1, 3, 2, 4, 5)
        rows = self.rows(windows.reshape(-1, 49, channels))
        back = rows.view(images, height // 7, width // 7, 7, 7, 48).permute(0, 1, 3, 2, 4, 5)
        result: Tensor = self.last(back.reshape(images, height, width, 48).permute(0, 3, 1, 2))
        return result


class Attention(nn.Module):
    """Of several sequences, with heads of any size; `bias` is a parameter that a table of places chooses from."""

    def __init__(self, heads: int, size: int, *, bias: bool = False, over_channels: bool = False) -> None:
        super().__init__()
        self.heads, self.over_channels = heads, over_channels
        self.split, self.project = nn.Linear(heads * size, 3 * heads * size), nn.Linear(heads * size, 24)
        self.table = nn.Parameter(torch.randn(7, heads)) if bias else None
        self.register_buffer("places", torch.randint(0, 7, (100,)))

    def forward(self, x: Tensor) -> Tensor:
        sequences, length, channels = x.shape
        parts = self.split(x).reshape(sequences, length, 3, self.heads, channels // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        if self.over_channels:
            weights = (q.transpose(-2, -1) @ k).softmax(-1)
            mixed = (weights @ v.transpose(-2, -1)).permute(0, 3, 1, 2)
        else:
            scores = q @ k.transpose(-2, -1) * 0.2
            if self.table is not None:
                chosen = self.table[self.get_buffer("places")].view(length, length, -1)
                scores = scores + chosen.permute(2, 0, 1).contiguous().unsqueeze(0)
            mixed = (scores.softmax(-1) @ v).transpose(1, 2)
        result: Tensor = self.project(mixed.reshape(sequences, length, channels))
        return result


class Transposed(nn.Module):
    """Attention over pixels of an image, whose values are the first operand of the last product (EfficientViT)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads, self.split, self.last = heads, nn.Conv2d(3, 96, 1), nn.Conv2d(32, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        images, _, height, width = x.shape
        parts = self.split(x).split(32, 1)
        q, k, v = (part.reshape(images, self.heads, -1, height * width) for part in parts)
        mixed = v @ (q.transpose(-2, -1) @ k * 0.3).softmax(-1).transpose(-2, -1)
        result: Tensor = self.last(torch.relu(mixed.view(images, 32, height, width)))
        return result


class PartsOfWindows(nn.Module):
    """Blocks of channels of windows, concatenated (EfficientViT)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 64, 1), nn.Conv2d(64, 32, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        images, channels, height, width = x.shape
        windows = x.view(images, channels, height // 7, 7, width // 7, 7).permute(0, 2, 4, 1, 3, 5)
        parts = [torch.relu(part) for part in windows.reshape(-1, channels, 7, 7).chunk(4, 1)]
        joined = torch.cat(parts, 1).view(images, height // 7, width // 7, channels, 7, 7).permute(0, 3, 1, 4, 2, 5)
        result: Tensor = self.last(joined.reshape(images, channels, height, width))
        return result


class Masked(nn.Module):
    """Attention over sequences with a bias for each head, and a mask for every other sequence, or a causal one."""

    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.split, self.project = nn.Linear(64, 192), nn.Linear(64, 24)
        self.bias = nn.Parameter(torch.randn(1, 2, 10, 10))
        self.register_buffer("mask", torch.where(torch.rand(2, 10, 10) > 0.4, 0.0, -100.0))

    def forward(self, x: Tensor) -> Tensor:
        sequences, length, channels = x.shape
        q, k, v = self.split(x).view(sequences, length, 3, 2, channels // 2).permute(2, 0, 3, 1, 4).unbind(0)
        if self.causal:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q * 0.3 @ k.transpose(-2, -1) + self.bias
            shifted = scores.view(-1, 2, 2, length, length) + self.get_buffer("mask").unsqueeze(1).unsqueeze(0)
            mixed = shifted.view(-1, 2, length, length).softmax(-1) @ v
        result: Tensor = self.project(mixed.transpose(1, 2).reshape(sequences, length, channels))
        return result


class Tokens(nn.Module):
    """A token in front of each sequence, and a table of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.positions = nn.Parameter(torch.randn(1, 1, 64)), nn.Parameter(torch.randn(1, 11, 64))
        self.before, self.behind = nn.Linear(64, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.cat([self.token.expand(x.shape[0], -1, -1), self.before(x)], 1) + self.positions
        result: Tensor = self.behind(rows)
        return result


class Moved(nn.Module):
    """Rolled, padded, cut and flipped images, channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 32, 1), nn.Conv2d(32, 16, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x)).permute(0, 2, 3, 1)
        x = torch.roll(x, (-2, 3), (1, 2))
        x = nn.functional.pad(x, (0, 0, 1, -2, 0, 3)).flip(1)
        result: Tensor = self.last(x.permute(0, 3, 1, 2))
        return result


class Mixer(nn.Module):
    """A linear layer over tokens, of which the layer before made features."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 48, 2, 2), nn.LayerNorm(48)
        self.up, self.down, self.last = nn.Linear(20, 24), nn.Linear(24, 20), nn.Linear(48, 32)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        mixed = self.down(nn.functional.gelu(self.up(self.norm(x).transpose(1, 2)))).transpose(1, 2)
        result: Tensor = self.last(x + mixed)
        return result


class NormOfRows(nn.Module):
    """A batch norm that is not folded into a layer in front of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(24, 40), nn.BatchNorm1d(40), nn.Linear(40, 16)
        assert self.norm.running_var is not None and self.norm.running_mean is not None
        nn.init.uniform_(self.norm.running_var, 0.5, 1.5)
        nn.init.normal_(self.norm.running_mean)
        nn.init.normal_(self.norm.weight)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.first(x)
        result: Tensor = self.last(torch.relu(self.norm(rows.flatten(0, 1)).reshape_as(rows)))
        return result


class MeanOfPixels(nn.Module):
    """Over height and width, where channels are last."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 32, 3), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(torch.relu(self.first(x)).permute(0, 2, 3, 1).mean((1, 2)))
        return result


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "windows": (Windows, (1, 3, 14, 21)),
    "windows of two images": (Windows, (2, 3, 14, 14)),
    "a sequence": (lambda: Attention(2, 32), (1, 10, 64)),
    "three sequences": (lambda: Attention(2, 32), (3, 10, 64)),
    "heads of 24": (lambda: Attention(3, 24), (2, 10, 72)),
    "heads of 8": (lambda: Attention(4, 8), (1, 9, 32)),
    "a bias": (lambda: Attention(2, 32, bias=True), (1, 10, 64)),
    "a bias of heads of 24": (lambda: Attention(2, 24, bias=True), (2, 10, 48)),
    "a mask": (Masked, (4, 10, 64)),
    "a causal mask": (lambda: Masked(causal=True), (2, 10, 64)),
    "over channels": (lambda: Attention(2, 32, over_channels=True), (2, 10, 64)),
    "values first": (lambda: Transposed(2), (1, 3, 6, 6)),
    "values first, heads of 8": (lambda: Transposed(4), (1, 3, 5, 6)),
    "parts of windows": (PartsOfWindows, (1, 3, 14, 14)),
    "tokens": (Tokens, (1, 10, 64)),
    "tokens of three sequences": (Tokens, (3, 10, 64)),
    "moved": (Moved, (1, 3, 9, 7)),
    "two moved": (Moved, (2, 3, 9, 7)),
    "mixer": (Mixer, (2, 3, 10, 8)),
    "norm of rows": (NormOfRows, (2, 5, 24)),
    "mean of pixels": (MeanOfPixels, (2, 3, 9, 8)),
}
ALWAYS = ("windows", "a mask", "two moved")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in ALWAYS else EXTENDED) for n in CASES])
def test_one_launch_with_the_bits_of_eager(name: str) -> None:
    torch.manual_seed(4)
    make, size = CASES[name]
    program = assert_one_exact_launch(make(), torch.randn(size))
    assert not any(isinstance(e.command, MacCommand) and e.command.weight_zero for e in program.lists.launches[0])


def test_moves_by_nothing_are_no_commands() -> None:
    class Unmoved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 32, 1), nn.Conv2d(32, 16, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            x = nn.functional.pad(torch.relu(self.first(x)), (0, 0, 0, 0))
            result: Tensor = self.last(torch.roll(x, (0, 0), (2, 3)))
            return result

    program, _ = lowered(Unmoved(), torch.randn(1, 3, 9, 7))
    (launch,) = program.lists.launches
    assert [type(emitted.command).__name__ for emitted in computing(launch)] == ["MacCommand"] * 2


def test_an_engine_that_does_not_gather_leaves_it_to_the_host() -> None:
    from fpga_dynamo.frontend.capture import capture
    from fpga_dynamo.quantize import quantize

    x = torch.randn(1, 3, 14, 21)
    quantised = quantize(Windows().eval(), [(x,)], scales="pow2", bias="int32", progress=False)
    captured = capture(quantised, (x,))
    engine = little()
    without = dataclasses.replace(engine, sizes=dataclasses.replace(engine.sizes, gather=False))
    program = lower_for_engine(captured.module, without, captured.static)
    assert any("does not reorder elements" in why for why in program.left.values())


# --- the plan of a copy -----------------------------------------------------------------------------------------------

SIZES = EngineSizes(pixels=4, out_channels=32, gather=True)


def random_map(draw: random.Random, name: str, least: int = 1) -> Map:
    count = draw.choice([1, 16, 20, 48])
    return Map(draw.randint(1, 3), draw.randint(least, 40), count, SIZES, name)


def random_view(draw: random.Random, of: Map) -> View:
    """Some pixels, in steps, of some images, in any order of dimensions."""
    step = draw.randint(1, min(3, of.pixels))
    rows = draw.randint(1, of.pixels // step)
    columns = draw.randint(1, step)
    strides = [IMAGE, step * PIXEL, PIXEL, CHANNEL]
    shape = [draw.randint(1, of.images), rows, columns, of.channels]
    order = draw.sample(range(4), 4)
    shape, strides = [shape[d] for d in order], [strides[d] for d in order]
    return View(of, tuple(shape), tuple(strides), draw.randint(0, of.pixels - rows * step) * PIXEL)


def element(view: View, index: tuple[int, ...]) -> tuple[int, int, int]:
    """Image, pixel and channel."""
    at = view.offset + sum(i * stride for i, stride in zip(index, view.strides, strict=True))
    image, rest = divmod(at, IMAGE)
    return (image, *divmod(rest, PIXEL))


def word(of: Map, place: tuple[int, int, int]) -> int:
    image, pixel, channel = place
    return (image * of.image_lines + channel // CHANNELS * of.plane) * SIZES.beat + pixel


def gathered(commands: Iterable[EngineGather]) -> dict[int, tuple[int | None, int]]:
    """Of each word of the target the one that is gathered for it, and where its plane begins."""
    words: dict[int, tuple[int | None, int]] = {}
    for command in commands:
        for h0, h1 in itertools.product(*map(range, command.heads)):
            at = plane = (command.output + h0 * command.output_head[0] + h1 * command.output_head[1]) * SIZES.beat
            begin = command.input + h0 * command.input_head[0] + h1 * command.input_head[1]
            left = command.pixels
            for run in command.runs:
                for n in range(min(run.words, left)):
                    assert at not in words
                    words[at] = None if run.source is GatherSource.FILL else begin + run.first + n, plane
                    at += 1
                left -= run.words
            assert sum(run.words for run in command.runs) == -(-command.pixels // SIZES.beat) * SIZES.beat
    return words


@pytest.mark.parametrize("seed", range(60))
def test_a_copy_puts_every_element_to_its_place(seed: int) -> None:
    draw = random.Random(seed)
    source = random_view(draw, random_map(draw, "source"))
    target = compact(source, SIZES)
    index: dict[int, tuple[int | None, ...]] = {}
    for d, (size, stride) in enumerate(zip(source.shape, source.strides, strict=True)):
        if stride != CHANNEL and draw.random() < 0.3:
            index[d] = tuple(draw.choice([None, draw.randrange(size)]) for _ in range(draw.randint(1, 5)))
    if index:
        shape = tuple(len(index[d]) if d in index else n for d, n in enumerate(source.shape))
        target = compact(source, SIZES, shape)
    s, t = source.buffer, target.buffer
    assert isinstance(s, Map) and isinstance(t, Map)
    words = gathered(copied(source, target, SIZES, "it", index))
    for place in itertools.product(*map(range, target.shape)):
        of = tuple(index[d][i] if d in index else i for d, i in enumerate(place))
        found, _ = words[word(t, element(target, place))]
        if None in of:
            assert found is None
        else:
            wanted = element(source, tuple(i for i in of if i is not None))
            assert found == word(s, wanted)


@pytest.mark.parametrize("seed", range(40))
def test_a_transpose_puts_every_element_to_its_place(seed: int) -> None:
    """Of 16 words that are gathered, channel k of word l becomes channel l of word k."""
    draw = random.Random(seed)
    source = random_view(draw, Map(draw.randint(1, 3), draw.randint(1, 40), draw.choice([16, 48]), SIZES, "source"))
    of = source.strides.index(CHANNEL)
    to, *others = draw.sample([d for d in range(4) if d != of], 3)
    strides, step = [0] * 4, 1
    for d in others:
        strides[d], step = step * IMAGE, step * source.shape[d]
    strides[of], strides[to] = PIXEL, CHANNEL
    s, t = source.buffer, Map(step, source.shape[of], source.shape[to], SIZES, "target")
    target = View(t, source.shape, tuple(strides))
    assert isinstance(s, Map)
    commands = transposed(source, target, of, to, SIZES, "it")
    assert all(command.transposes and command.pixels % CHANNELS == 0 for command in commands)
    words = gathered(commands)
    for place in itertools.product(*map(range, target.shape)):
        wanted, mine = element(source, place), element(target, place)
        at = word(t, mine)
        number = (at - words[at][1]) % CHANNELS
        found, _ = words[at - number + mine[2] % CHANNELS]
        assert found == word(s, wanted) and wanted[2] % CHANNELS == number


def test_channels_that_would_leave_their_block_are_refused() -> None:
    of = Map(1, 6, 40, SIZES, "source")
    turned = View(of, (40, 6), (CHANNEL, PIXEL))
    with pytest.raises(RefusedError, match="another order of channels"):
        copied(turned, View(Map(1, 40, 6, SIZES, "target"), (40, 6), (PIXEL, CHANNEL)), SIZES, "it")
    with pytest.raises(RefusedError, match="ends within a block"):
        target = View(Map(1, 6, 24, SIZES, "target"), (6, 24), (PIXEL, CHANNEL))
        copied(View(of, (6, 24), (PIXEL, CHANNEL)), target, SIZES, "it")


def test_neighbouring_words_are_one_run() -> None:
    source = View(Map(1, 30, 16, SIZES, "source"), (3, 4, 16), (10 * PIXEL, PIXEL, CHANNEL), 2 * PIXEL)
    (command,) = copied(source, compact(source, SIZES), SIZES, "it")
    assert command.input == 2
    assert command.runs == tuple(GatherRun(GatherSource.INPUT, first, 4) for first in (0, 10, 20))
