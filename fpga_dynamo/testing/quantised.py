"""Random quantised networks: whatever stands behind what, a card's integers are eager mode's, bit for bit.

Scales are powers of two, biases multiples of the sums' grid and sums short, so that eager mode's float32 is exact.
Softmax and layer norm are not: their integers may be a step apart. What follows them starts from eager mode's, inputs
of the graph.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from torch import nn

from fpga_dynamo.runtime.observe import counters
from fpga_dynamo.testing.fuzz import Failure, refuse_wrong_options, search
from fpga_dynamo.torch_internals.quantized import decomposed
from xclbin_build import atomic_file

Grid = tuple[float, int, torch.dtype]
"""Scale, zero point and type of integers."""

CHANNELS = 8
HEIGHT, WIDTH = 9, 8
TABLE_ROWS = 5
MOST_PLACES = 8192
"""More pixels than any step may make."""


def limits(dtype: torch.dtype) -> tuple[int, int]:
    found = torch.iinfo(dtype)
    return found.min, found.max


def quantize(x: torch.Tensor, grid: Grid) -> torch.Tensor:
    scale, zero, dtype = grid
    q: torch.Tensor = decomposed.quantize_per_tensor.default(x, scale, zero, *limits(dtype), dtype)
    return q


def dequantize(q: torch.Tensor, grid: Grid) -> torch.Tensor:
    scale, zero, dtype = grid
    x: torch.Tensor = decomposed.dequantize_per_tensor.default(q, scale, zero, *limits(dtype), dtype)
    return x


def rounded(x: torch.Tensor, grid: Grid) -> torch.Tensor:
    """To integers and back."""
    return dequantize(quantize(x, grid), grid)


class RandomWeights(nn.Module):
    """int8 weights with a scale, a power of two, for each output channel."""

    integers: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor

    def __init__(self, *size: int, bias: bool = True, per_tensor: bool = False) -> None:
        super().__init__()
        self.register_buffer("integers", torch.randint(-127, 128, size, dtype=torch.int8))
        self.register_buffer("scales", 2.0 ** torch.randint(-11, -8, (size[0],)).float())
        self.register_buffer("zeros", torch.zeros(size[0], dtype=torch.int64))
        self.bias = nn.Parameter(torch.randint(-64, 64, (size[0],)).float() / 32) if bias else None
        self.per_tensor = per_tensor

    def forward(self) -> torch.Tensor:
        if self.per_tensor:
            return decomposed.dequantize_per_tensor.default(self.integers, 2.0**-9, 0, -127, 127, torch.int8)
        return decomposed.dequantize_per_channel.default(
            self.integers, self.scales, self.zeros, 0, -127, 127, torch.int8
        )


@dataclass(frozen=True)
class RandomLayer:
    """One layer: its kind, the grid that it is rounded to, and what it picks of its kind's choices."""

    kind: str
    grid: Grid
    pick: int
    also: Grid


_KERNELS: dict[str, tuple[int, ...]] = {
    "3x3": (CHANNELS, CHANNELS, 3, 3),
    "stride": (CHANNELS, CHANNELS, 3, 3),
    "1x1": (CHANNELS, CHANNELS, 1, 1),
    "groups": (CHANNELS, CHANNELS // 2, 3, 3),
    "depthwise": (CHANNELS, 1, 3, 3),
    "linear": (CHANNELS, CHANNELS),
    "turned linear": (CHANNELS, CHANNELS),
    "embedding": (TABLE_ROWS, CHANNELS),
}
_CONVOLUTIONS: dict[str, dict[str, int]] = {
    "3x3": {"padding": 1},
    "stride": {"padding": 1, "stride": 2},
    "1x1": {},
    "groups": {"padding": 1, "groups": 2},
    "depthwise": {"padding": 1, "groups": CHANNELS},
}
KINDS = (
    *_KERNELS, "products", "max", "mean of 2x2", "add", "multiply", "scale channels", "cat", "table", "number", "relu",
    "view", "pad", "nearest", "bilinear", "softmax", "layer norm",
)  # fmt: skip

REAL_NUMBERS = ("softmax", "layer norm")
"""Kinds between whose two roundings float32 has errors of its own."""

grids: st.SearchStrategy[Grid] = st.builds(
    lambda scale, zero, is_signed: (
        2.0**scale,
        zero if is_signed else zero + 128,
        torch.int8 if is_signed else torch.uint8,
    ),
    st.integers(-6, -3),
    st.integers(-128, 127),
    st.booleans(),
)
layers = st.builds(RandomLayer, st.sampled_from(KINDS), grids, st.integers(0, 5), grids)
steps = st.lists(layers, min_size=1, max_size=6)


class Network(nn.Module):
    """Steps one after the other; those of two operands take an earlier value of the same size, if there is one."""

    def __init__(self, given: Sequence[RandomLayer], source: Grid) -> None:
        super().__init__()
        self.given, self.source = given, source
        self.weights = nn.ModuleList(RandomWeights(*_KERNELS.get(step.kind, (1, 1, 1, 1))) for step in given)

    def forward(self, x: torch.Tensor, index: torch.Tensor, *resumed: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The integers of each step of REAL_NUMBERS, and the last ones.

        index: rows of tables, one for each of MOST_PLACES. resumed: the former, as the steps behind them are to have
        them; without, as they are.
        """
        q, grid = quantize(x, self.source), self.source
        earlier: list[tuple[torch.Tensor, Grid]] = []
        loose: list[torch.Tensor] = []
        for step, weights in zip(self.given, self.weights, strict=True):
            earlier.append((q, grid))
            real = self._real(step, weights, q, grid, earlier, index)
            q, grid = quantize(real, step.grid), step.grid
            if step.kind in REAL_NUMBERS:
                loose.append(q)
                q = resumed[len(loose) - 1] if resumed else q
        return (*loose, q)

    def _real(
        self,
        step: RandomLayer,
        weights: Any,
        q: torch.Tensor,
        grid: Grid,
        earlier: list[tuple[torch.Tensor, Grid]],
        index: torch.Tensor,
    ) -> Any:
        x = dequantize(q, grid)
        if step.kind in _CONVOLUTIONS:
            y = F.conv2d(x, weights(), weights.bias, **_CONVOLUTIONS[step.kind])
            return torch.relu(y) if step.pick % 2 else y
        same = [(other, scale) for other, scale in earlier if other.shape == q.shape]
        other, scale = same[step.pick % len(same)]
        pixels = x.flatten(2).transpose(1, 2)

        def image(y: torch.Tensor) -> torch.Tensor:
            return y.transpose(1, 2).unflatten(2, x.shape[2:])

        def products() -> torch.Tensor:
            """As in attention: of pixels with pixels, rounded, by pixels."""
            scores = rounded(torch.bmm(pixels, dequantize(other, scale).flatten(2)), step.also)
            return image(torch.bmm(scores * 0.5 if step.pick % 2 else scores, pixels))

        def turned() -> torch.Tensor:
            """A layer of rows that lie in another order, as the first one of nn.MultiheadAttention."""
            repeated = weights().t().expand(pixels.shape[1], CHANNELS, CHANNELS)
            return image((torch.bmm(pixels.transpose(0, 1), repeated) + weights.bias).transpose(0, 1))

        def rows() -> torch.Tensor:
            """Of a table; which ones depends on the place alone."""
            count = pixels.shape[0] * pixels.shape[1]
            return image(F.embedding(index[step.pick : step.pick + count].view(pixels.shape[:2]), weights()))

        functions: dict[str, Callable[[], torch.Tensor]] = {
            "linear": lambda: image(F.linear(pixels, weights(), weights.bias)),
            "turned linear": turned,
            "products": products,
            "max": lambda: F.max_pool2d(x, 2) if x.shape[-1] > 2 else x,
            "mean of 2x2": lambda: F.avg_pool2d(x, 2) if x.shape[-1] > 2 else x,
            "add": lambda: x + dequantize(other, scale),
            "multiply": lambda: x * dequantize(other, scale),
            "scale channels": lambda: x * rounded(x.mean((2, 3), keepdim=True), step.also),
            "cat": lambda: torch.cat([x, rounded(dequantize(other, scale), step.also)], 1)[:, 4 : 4 + CHANNELS],
            "table": lambda: F.hardswish(x),
            "number": lambda: x * 0.25,
            "relu": lambda: F.hardtanh(x, -1.0, 2.5),
            "view": lambda: x.flatten(2).unflatten(2, x.shape[2:]),
            "pad": lambda: F.pad(x, (0, 1, 1, 0)),
            "nearest": lambda: F.interpolate(x, size=(x.shape[2] + step.pick, x.shape[3])),
            "embedding": rows,
            "softmax": lambda: torch.softmax(x, 1 + 2 * (step.pick % 2)),
            "layer norm": lambda: image(F.layer_norm(pixels, (CHANNELS,))),
            "bilinear": lambda: F.interpolate(x, scale_factor=2, mode="bilinear") if x.shape[-1] <= 8 else x,
        }
        return functions[step.kind]()


@dataclass(frozen=True)
class Apart:
    """Of the integers behind REAL_NUMBERS, how many there are, and how many are a step from eager mode's."""

    elements: int
    steps: int


def check(given: Sequence[RandomLayer], source: Grid, seed: int, options: Mapping[str, Any]) -> Apart:
    """Compares a network with eager. Raises AssertionError for other integers, and what compiling raises."""
    torch.manual_seed(seed)
    model, x = Network(given, source), torch.randn(1 + seed % 2, CHANNELS, HEIGHT, WIDTH)
    index = torch.randint(0, TABLE_ROWS, (MOST_PLACES,))
    torch.compiler.reset()
    with torch.no_grad():
        *loose, expected = model(x, index)
        *others, found = torch.compile(model, backend="fpga", options={**options, "strict": True})(x, index, *loose)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    distances = [a.int() - b.int() for a, b in zip(others, loose, strict=True)]
    for other, wanted in zip(others, loose, strict=True):
        torch.testing.assert_close(other.int(), wanted.int(), rtol=0, atol=1)
    return Apart(sum(d.numel() for d in distances), sum(int(d.count_nonzero()) for d in distances))


@dataclass
class QuantisedReport:
    """What `fuzz_quantised` saw. elements, steps: see `Apart`."""

    examples: int = 0
    launches: int = 0
    elements: int = 0
    steps: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        text = (
            f"{self.examples} examples of {sum(self.kinds.values())} quantised layers, {self.launches} launches, "
            f"{len(self.failures)} failures; behind {' and '.join(REAL_NUMBERS)} {self.steps} of {self.elements} "
            "integers a step from eager mode's"
        )
        for failure in self.failures:
            text += f"\n  {failure}"
        return text


def script(given: Sequence[RandomLayer], source: Grid, seed: int, options: Mapping[str, Any], message: str) -> str:
    """A stand-alone program that shows one failure."""
    lines = "\n".join(f"    {step!r}," for step in given)
    return (
        f"# Found by fpga-dynamo fuzz --dtype int8:\n# {message}\nimport torch\n\n"
        f"from fpga_dynamo.testing.quantised import RandomLayer, check\n\n"
        f"steps = [\n{lines}\n]\ncheck(steps, {source!r}, {seed}, {dict(options)!r})\n"
        'print("eager\'s bits")\n'
    )


def fuzz_quantised(
    examples: int,
    seed: int,
    options: Mapping[str, Any] | None = None,
    out_dir: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> QuantisedReport:
    """Compares `examples` random networks with eager, and shrinks the first that differs; the same seed draws the same.

    Raises what a wrong option raises, before any network is drawn.
    With `out_dir` a failure is written there as a script. `progress` is called with the number of examples done.
    """
    report, options = QuantisedReport(), dict(options or {})
    refuse_wrong_options(options)
    smallest: list[tuple[Sequence[RandomLayer], Grid, int, str]] = []
    before = counters.stats()["pl_launches"]

    def one(given_: list[RandomLayer], source: Grid, drawn: int) -> None:
        try:
            apart = check(given_, source, drawn, options)
        except Exception as error:
            smallest[:] = [(given_, source, drawn, (str(error).strip().splitlines() or [repr(error)])[0])]
            raise
        if not smallest:
            report.examples += 1
            report.kinds.update(step.kind for step in given_)
            report.elements += apart.elements
            report.steps += apart.steps
            if progress is not None:
                progress(report.examples)

    body = search(examples)(hypothesis_seed(seed)(given(steps, grids, st.integers(0, 99))(one)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            body()
        except Exception:
            if not smallest:
                raise
    report.launches = int(counters.stats()["pl_launches"] - before)
    for given_, source, drawn, message in smallest:
        path = None
        if out_dir is not None:
            text = script(given_, source, drawn, options, message)
            path = Path(out_dir) / f"fuzz_int8_{hashlib.sha256(text.encode()).hexdigest()[:8]}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_file.write(path, text)
        report.failures.append(Failure(message, path, seed, examples))
    return report
