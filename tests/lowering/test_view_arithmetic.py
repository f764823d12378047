"""View's shape and stride arithmetic against PyTorch's own: the same elements, in the same order, without a copy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fpga_dynamo.ir.view import Buffer, View, align, dense, extent, row_pitch

SIZES = st.lists(st.integers(1, 4), min_size=0, max_size=5)


def as_tensor(view: View) -> torch.Tensor:
    """The positions in the buffer that `view` shows, in its shape."""
    memory = torch.arange(view.buffer.length)
    return memory.as_strided(view.shape, view.strides, view.offset)


def row_major(shape: tuple[int, ...]) -> View:
    return View(Buffer(max(1, extent(shape, dense(shape)))), shape, dense(shape))


@st.composite
def views(draw: Any, min_dims: int = 0) -> View:
    """A row-major tensor after some permutations, narrowings, expansions and new dimensions."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=min_dims, max_size=4)))
    view = row_major(sizes)
    for _ in range(draw(st.integers(0, 3))):
        rank = len(view.shape)
        kind = draw(st.sampled_from(("permute", "narrow", "expand", "unsqueeze")))
        if kind == "permute":
            view = view.permute(draw(st.permutations(range(rank))))
        elif kind == "narrow" and rank:
            view = view.narrow(*draw(narrowings(view)))
        elif kind == "expand":
            view = view.expand((draw(st.integers(1, 3)), *view.shape))
        elif kind == "unsqueeze":
            view = view.unsqueeze(draw(st.integers(-rank - 1, rank)))
    return view


@st.composite
def narrowings(draw: Any, view: View) -> tuple[int, int, int, int]:
    dim = draw(st.integers(0, len(view.shape) - 1))
    start = draw(st.integers(0, view.shape[dim] - 1))
    step = draw(st.integers(1, 3))
    most = (view.shape[dim] - start + step - 1) // step
    return dim, start, draw(st.integers(1, most)), step


@st.composite
def factorisations(draw: Any, count: int) -> tuple[int, ...]:
    """A shape of `count` elements."""
    sizes: list[int] = []
    while count > 1 and len(sizes) < 4:
        size = draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0]))
        sizes.append(size)
        count //= size
    sizes += [count] * (count > 1)
    return tuple(draw(st.permutations([*sizes, *[1] * draw(st.integers(0, 2))])))


@given(st.data(), views())
@settings(max_examples=300, deadline=None)
def test_reshape_is_torch_s_view_or_refuses_with_it(data: Any, view: View) -> None:
    wanted = data.draw(factorisations(view.numel))
    ours = view.reshape(wanted)
    tensor = as_tensor(view)
    try:
        theirs = tensor.view(wanted)
    except RuntimeError:
        theirs = None
    if ours is not None:
        assert torch.equal(as_tensor(ours), tensor.reshape(wanted)), "the same elements, whatever torch says"
    assert (ours is None) == (theirs is None)


@given(st.data(), views())
@settings(max_examples=100, deadline=None)
def test_permute_is_torch_s_permute(data: Any, view: View) -> None:
    rank = len(view.shape)
    dims = [d - rank * data.draw(st.booleans()) for d in data.draw(st.permutations(range(rank)))]
    assert torch.equal(as_tensor(view.permute(dims)), as_tensor(view).permute(dims))


@given(st.data(), views(min_dims=1))
@settings(max_examples=100, deadline=None)
def test_narrow_is_a_slice_with_a_step(data: Any, view: View) -> None:
    dim, start, length, step = data.draw(narrowings(view))
    index = [slice(None)] * len(view.shape)
    index[dim] = slice(start, start + (length - 1) * step + 1, step)
    assert torch.equal(as_tensor(view.narrow(dim, start, length, step)), as_tensor(view)[tuple(index)])


@given(st.data(), views(min_dims=1))
@settings(max_examples=100, deadline=None)
def test_select_is_torch_s_select(data: Any, view: View) -> None:
    rank = len(view.shape)
    dim = data.draw(st.integers(-rank, rank - 1))
    index = data.draw(st.integers(-view.shape[dim], view.shape[dim] - 1))
    assert torch.equal(as_tensor(view.select(dim, index)), as_tensor(view).select(dim, index))


@given(st.data(), views())
@settings(max_examples=100, deadline=None)
def test_unsqueeze_and_expand_are_torch_s(data: Any, view: View) -> None:
    rank = len(view.shape)
    dim = data.draw(st.integers(-rank - 1, rank))
    longer = view.unsqueeze(dim)
    assert torch.equal(as_tensor(longer), as_tensor(view).unsqueeze(dim))
    sizes = [data.draw(st.sampled_from([-1, n] if n > 1 else [-1, 1, 3])) for n in longer.shape]
    lead = data.draw(st.lists(st.integers(1, 3), max_size=2))
    assert torch.equal(as_tensor(longer.expand([*lead, *sizes])), as_tensor(longer).expand([*lead, *sizes]))


@given(st.data(), SIZES)
@settings(max_examples=100, deadline=None)
def test_dense_strides_are_those_of_a_permuted_contiguous_tensor(data: Any, sizes: list[int]) -> None:
    order = data.draw(st.permutations(range(len(sizes))))
    expected = torch.empty([sizes[d] for d in order]).permute([list(order).index(d) for d in range(len(sizes))])
    assert dense(sizes, order) == expected.stride()
    assert extent(sizes, dense(sizes, order)) == max(1, expected.numel())


@given(st.data(), st.lists(st.integers(2, 4), min_size=1, max_size=4))
def test_order_undoes_any_permutation(data: Any, sizes: list[int]) -> None:
    order = tuple(data.draw(st.permutations(range(len(sizes)))))
    assert View(Buffer(4**4), tuple(sizes), dense(sizes, order)).order() == order


@given(views())
@settings(max_examples=100, deadline=None)
def test_order_runs_from_the_outermost_dimension_to_the_innermost(view: View) -> None:
    order = view.order()
    assert sorted(order) == list(range(len(view.shape)))
    strides = [view.strides[d] for d in order if view.shape[d] != 1]
    assert strides == sorted(strides, reverse=True)


ROWS, IMAGE = (0, 1, 2, 3), (0, 2, 3, 1)
SIZES_OF_1 = {
    "one channel, dense": ((2, 1, 4, 5), (20, 20, 5, 1), ROWS),
    "one channel in pixels of 16": ((2, 1, 4, 5), (320, 1, 80, 16), IMAGE),
    "one pixel with contiguous channels": ((2, 17, 1, 1), (32, 1, 32, 32), IMAGE),
    "one row of a channels-last image": ((1, 17, 1, 5), (160, 1, 160, 32), IMAGE),
    "one image of rows": ((1, 3, 4, 5), (60, 20, 5, 1), ROWS),
}


@pytest.mark.parametrize("shape, strides, order", SIZES_OF_1.values(), ids=SIZES_OF_1)
def test_sizes_of_1_go_where_an_image_stays_an_image_and_rows_stay_rows(
    shape: tuple[int, ...], strides: tuple[int, ...], order: tuple[int, ...]
) -> None:
    assert View(Buffer(extent(shape, strides)), shape, strides).order() == order


def test_short_rows_lie_dense_and_long_ones_at_whole_vectors() -> None:
    assert [row_pitch(n) for n in (1, 15, 16, 17, 32)] == [1, 15, 16, 32, 32]
    assert [align(n) for n in (0, 1, 16, 17)] == [0, 16, 16, 32]
