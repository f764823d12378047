"""Inputs of random graphs, as text: sizes, types, layouts, magnitudes, and inputs that share memory."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fpga_dynamo.testing import operators
from fpga_dynamo.testing.builder import Draw

BATCHES = ((2,), (2, 3, 5), (3, 1, 4), (4, 2), (1,), (3,), (2,), (2,), (2, 0, 1), (3, 0))
"""Values of the batch size `n` in the calls of a graph. A graph is drawn with the first one, which is not 0."""

SAME_MEMORY = (
    *("{}", "{}", "{}"),
    "{}.unsqueeze(0)",
    "{}.squeeze()",
    "{0}.view_as({0})",
    "{}.reshape(-1)",
    "{}.reshape(-1)[1:]",
    "{}.reshape(-1)[:-1]",
    "{}.reshape(-1)[::2]",
    "{0}.expand(2, *{0}.shape)",
    "{0}.permute(tuple(range({0}.dim()))[::-1])",
)
"""One more input, in the memory of another one: the same tensor, a part, an overlapping part, an expanded one."""

_CHANNELS = (3, 1, 2, 4, 8, 16, 17, 32, 40)

_LAYOUTS = ("", "", "", "channels_last", "transposed", "strided", "rows", "reversed", "expanded", "windows", "special")

_NARROW = (
    "torch.randint(0, 256, {}, dtype=torch.uint8)",
    "torch.randint(-128, 128, {}, dtype=torch.int8)",
    "torch.randint(-300, 300, {}, dtype=torch.int16)",
    "torch.randint(-9, 9, {}, dtype=torch.int32)",
    "torch.randint(0, 2, {}, dtype=torch.bool)",
)
"""Makers of integers and truth values that are narrower than int64."""

_MAGNITUDES = ("", "", "", "", "", "", " * 1e30", " * 1e-30", " * 3e-39", " * 1e4")
"""Float16 overflows, or underflows, with most of them; float32 has its smallest numbers with 3e-39."""


def _sizes(*sizes: int | str) -> str:
    """As Python's text, where the batch size may be a name."""
    return f"[{', '.join(map(str, sizes))}]"


@st.composite
def input_sources(draw: Draw) -> str:
    """An expression that makes one input: images, sequences, matrices, token numbers; laid out in various ways."""
    rank = draw(st.sampled_from((4, 3, 2, 4, 4, 1, 0, 5)))
    batch = draw(st.sampled_from(("n", "n", "n", 1, 2)))
    shape: list[Any]
    # As the batch size, the length of a sequence or the height of an image may change from call to call.
    length = draw(st.one_of(st.integers(1, 10), st.integers(1, 10), st.sampled_from(("n", "n + 2", "2 * n"))))
    if rank == 4:
        shape = [batch, draw(st.sampled_from(_CHANNELS)), length, draw(st.integers(1, 10))]
    elif rank == 3:
        shape = [batch, length, draw(st.sampled_from(_CHANNELS))]
    else:
        shape = [draw(st.integers(1, 6)) for _ in range(rank)]
    if rank in (2, 3) and draw(st.integers(0, 5)) == 5:
        return f"torch.randint(0, {operators.VOCABULARY}, {_sizes(*shape)})"
    maker = "torch.randn({})" + draw(st.sampled_from(_MAGNITUDES))
    if draw(st.integers(0, 5)) == 5:
        maker = draw(st.sampled_from(_NARROW))
    return _laid_out(draw, maker, shape)


def _laid_out(draw: Draw, maker: str, shape: list[Any]) -> str:
    """What `maker` makes of `shape`, in one of several layouts."""
    rank, layout = len(shape), draw(st.sampled_from(_LAYOUTS))

    def made(*sizes: int | str) -> str:
        return f"({maker.format(_sizes(*sizes))})"

    if layout == "channels_last" and rank == 4:
        return f"{made(*shape)}.to(memory_format=torch.channels_last)"
    if layout == "transposed" and rank >= 2:
        return f"{made(*shape[:-2], shape[-1], shape[-2])}.transpose(-1, -2)"
    if layout == "reversed" and rank >= 3:
        return f"{made(*shape[::-1])}.permute({tuple(range(rank))[::-1]})"
    if layout == "strided" and rank:
        return f"{made(*shape[:-1], 2 * shape[-1] + 1)}[..., 1::2]"
    if layout == "rows" and rank:
        return f"{made(*shape[:-1], shape[-1] + 3)}[..., 1:-2]"
    if layout == "expanded" and rank:
        return f"{made(*shape[:-1], 1)}.expand({_sizes(*shape)})"
    if layout == "windows" and rank >= 2:
        return f"{made(*shape[:-2], f'{shape[-2]} + {shape[-1] - 1}')}.unfold(-1, {shape[-1]}, 1)"
    if layout == "special" and rank and "randn" in maker:
        value = draw(st.sampled_from(("nan", "inf", "-inf")))
        return f"{made(*shape)}.index_fill_(-1, torch.tensor([0]), float('{value}'))"
    return made(*shape)


@st.composite
def input_lists(draw: Draw, *, winograd: bool = False) -> tuple[str, ...]:
    """One to three inputs, the first an image for `winograd` if wanted; at times one more in the memory of another."""
    first = [draw(_wide_images())] if winograd else []
    inputs = (*first, *draw(st.lists(input_sources(), min_size=1 - len(first), max_size=3 - len(first))))
    if draw(st.integers(0, 3)) == 3:
        inputs += (draw(st.sampled_from(SAME_MEMORY)).format(f"x{draw(st.integers(0, len(inputs) - 1))}"),)
    return inputs


@st.composite
def _wide_images(draw: Draw) -> str:
    """An expression that makes an image that Winograd's method takes."""
    return f"torch.randn([n, {draw(st.sampled_from((16, 17, 32, 48)))}, {draw(_SIDES)}, {draw(_SIDES)}])"


_SIDES = st.integers(1, 10)
