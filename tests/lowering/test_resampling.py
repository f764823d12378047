"""Images made larger and smaller: nearest and bilinear, by size and by factor."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.lowering.lowering_cases import Case, check


def resize(*shape: int, **kwargs: Any) -> Case:
    return Case(lambda x: F.interpolate(x, **kwargs), shape, commands={"resample": 1})


CASES = {
    **{f"nearest, {c} channels": resize(2, c, 4, 5, scale_factor=2) for c in (1, 3, 10, 17)},
    "nearest to a size": resize(1, 17, 5, 7, size=(8, 3)),
    "nearest by odd factors": resize(1, 3, 5, 7, scale_factor=(1.7, 0.6)),
    "nearest by a factor that is thrown away": resize(1, 3, 5, 7, scale_factor=1.7, recompute_scale_factor=True),
    "bilinear": resize(3, 17, 4, 5, scale_factor=2, mode="bilinear"),
    "bilinear, corners aligned": resize(2, 10, 4, 5, scale_factor=2, mode="bilinear", align_corners=True),
    "bilinear to a size": resize(1, 58, 5, 7, size=(9, 4), mode="bilinear"),
    "bilinear by odd factors": resize(1, 3, 5, 7, scale_factor=(1.7, 0.6), mode="bilinear"),
    "bilinear to one pixel": resize(1, 3, 5, 7, size=1, mode="bilinear", align_corners=True),
    "bilinear from one pixel": resize(1, 3, 1, 1, size=(3, 4), mode="bilinear"),
    "of a channels-last image": Case(
        lambda x: F.interpolate(x, scale_factor=2), torch.randn(1, 10, 3, 3).to(memory_format=torch.channels_last)
    ),
    "of a slice": Case(lambda x: F.interpolate(x[:, 3:, 1:], scale_factor=2, mode="bilinear"), (1, 20, 4, 3)),
    "between convolutions": Case(
        nn.Sequential(nn.Conv2d(3, 17, 3), nn.Upsample(scale_factor=2), nn.Conv2d(17, 4, 3)), (2, 3, 6, 6)
    ),
    "antialiasing stays on the PS": Case(
        lambda x: F.interpolate(x, size=3, mode="bilinear", antialias=True),
        (1, 3, 7, 7),
        offload=0.0,
        launches=0,
        why="no pattern matches aten._upsample_bilinear2d_aa",
    ),
    "float64 stays on the PS": Case(
        lambda x: F.interpolate(x, scale_factor=2),
        torch.randn(1, 3, 4, 4, dtype=torch.float64),
        offload=0.0,
        launches=0,
        why="float64",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_image_is_resized_as_in_eager(case: Case) -> None:
    check(case)


MODES = {"nearest": 2, "linear": 1, "bilinear": 2, "trilinear": 3}
"""Modes, and the spatial dimensions of what they resize."""


@pytest.mark.parametrize("factor", [1.1, 1.3, 2.2, 3.3])
@pytest.mark.parametrize("mode", MODES)
def test_a_factor_that_is_not_the_quotient_of_the_sizes(mode: str, factor: float) -> None:
    """Eager mode's kernels copy where the size stays, and nearest ones repeat where it doubles, whatever the factor."""
    resize = torch.compile(lambda x: F.interpolate(x, scale_factor=factor, mode=mode), backend="fpga", dynamic=False)
    for size in (1, 3, 4):
        x = torch.randn((2, 3) + (size,) * MODES[mode])
        torch.testing.assert_close(resize(x), F.interpolate(x, scale_factor=factor, mode=mode))


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "nearest"])
def test_infinities_and_the_largest_numbers_are_mixed_as_in_eager(mode: str, corners: bool) -> None:
    """A share of 0 of an infinity is NaN; the difference of two large numbers, which overflows, is not needed."""
    sizes = MODES[mode]
    x = torch.randn((1, 2) + (4,) * sizes)
    x[:, 0] = 2e38 * torch.randn(x[:, 0].shape).sign()
    x.view(-1)[-4:] = torch.tensor([torch.inf, 1.0, torch.nan, -torch.inf])
    for size in (4, 7, 2):
        settings: dict[str, Any] = {"size": (size,) * sizes, "mode": mode, "align_corners": corners}
        mine = torch.compile(F.interpolate, backend="fpga", dynamic=False)(x, **settings)
        theirs = F.interpolate(x, **settings)
        torch.testing.assert_close(mine[:, 1], theirs[:, 1], equal_nan=True)
        assert mine[:, 0].isfinite().all()
        assert (mine[:, 0] - theirs[:, 0]).abs().max() < 1e32


@pytest.mark.parametrize(("mode", "shape"), [("linear", (1, 2, 3)), ("trilinear", (1, 2, 3, 3, 3))])
def test_a_size_of_0_is_refused_as_in_eager(mode: str, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    for resize in (F.interpolate, torch.compile(F.interpolate, backend="fpga")):
        for corners in (False, True):
            with pytest.raises(RuntimeError, match=r"should be greater than 0|division by zero"):
                resize(x, size=0, mode=mode, align_corners=corners)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_gradients_of_images_whose_sizes_change(mode: str, memory_format: torch.memory_format) -> None:
    def check_sizes(*shape: int) -> None:
        x = torch.randn(shape).to(memory_format=memory_format).requires_grad_()
        mine = torch.autograd.grad(compiled(x).sum(), x)[0]
        theirs = torch.autograd.grad(upscale(x).sum(), x)[0]
        torch.testing.assert_close(mine, theirs)
        assert mine.stride() == theirs.stride()

    def upscale(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x * 2, scale_factor=2, mode=mode).square()

    compiled = torch.compile(upscale, backend="fpga", dynamic=True)
    check_sizes(2, 3, 4, 5)
    check_sizes(3, 3, 6, 2)


@pytest.mark.parametrize("image", [(0, 3, 2, 5), (2, 3, 0, 5), (0, 0, 2, 5)])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_images_without_elements_are_resized_or_refused_as_in_eager(mode: str, image: tuple[int, ...]) -> None:
    def resized(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=2, mode=mode)

    x = torch.randn(image)
    torch.compiler.reset()
    compiled = torch.compile(resized, backend="fpga", options={"partition": "greedy"})
    assert torch.equal(compiled(torch.ones(2, 3, 2, 2)), resized(torch.ones(2, 3, 2, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            expected = resized(x)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                compiled(x)
        else:
            assert compiled(x).shape == expected.shape
            leaf = x.requires_grad_()
            compiled(leaf).sum().backward()
            assert leaf.grad is not None and leaf.grad.shape == x.shape
