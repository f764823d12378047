"""What "the same answer as eager" means.

No float32 evaluation is the truth: summation order alone moves the last bits. So a compiled model is held against
float64. The error of a compiled model may be `factor` times that of eager float32, plus a few ulp of the largest
output. Everything that is not rounding must be equal:

- structure, dtype, shape, strides and integers;
- the places of NaN and infinities. Where eager mode's float32 overflows inside and float64 does not, float64's value
  is right too, finite or infinite. How exactly is unknown without a number of eager mode's: half of float32's digits
  are asked for. The reverse, not finite where eager mode is, is an error.
  Where several operators leave float32's range, a compiled model may be right in one of them and not in another: a
  finite number in the place of eager mode's NaN or infinity is undecided then;
- which outputs share memory with which inputs, and the inputs after the call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from fpga_dynamo.runtime.observe.rounding import FLOAT32_ULP
from fpga_dynamo.torch_internals.pytree import tree_flatten, tree_leaves

FLOOR_ULPS = 4
UNDERFLOW = torch.finfo(torch.float32).tiny
"""Numbers below it lose their bits, or become 0, in any order of evaluation."""


class Mismatch(AssertionError):
    """A compiled answer that is wrong."""


class Undecided(Exception):
    """The right answer depends on rounding (say, an argmax of two nearly equal numbers): nothing can be compared."""


class LayoutMismatch(Mismatch):
    """The numbers are right, but lie in memory in another order than eager mode's."""


@dataclass(frozen=True)
class Errors:
    """Largest absolute errors against float64 over one tensor, and the bound that `compiled` must keep."""

    compiled: float
    eager: float
    bound: float

    @property
    def ratio(self) -> float:
        """How many times eager mode's own error the compiled one is."""
        return self.compiled / self.eager if self.eager else (math.inf if self.compiled else 0.0)


def measure(
    compiled: torch.Tensor,
    eager32: torch.Tensor,
    float64: torch.Tensor,
    factor: float = 4.0,
    noise: float = 0.0,
) -> Errors:
    """Errors of two float32 tensors of one shape against the float64 one, each over the elements where it is finite.

    Where float64's value is beyond the range of eager mode's dtype, a finite result of eager mode stands in for it, as
    the largest number that `nan_to_num` gives does. `noise` is an error that a correct evaluation is known to make (see
    runtime/observe/rounding.py), used where eager mode's own is less.
    """
    candidate, eager, exact = (tensor.detach().to(torch.float64) for tensor in (compiled, eager32, float64))
    exact = torch.where(_in_range(exact, eager32.dtype), exact, eager)
    eager_error = _largest(eager - exact)
    # The ulp of the dtype that was computed in, so that half precision gets a floor of its own.
    ulp = torch.finfo(eager32.dtype).eps if eager32.is_floating_point() else FLOAT32_ULP
    floor = FLOOR_ULPS * ulp * _largest(exact) + UNDERFLOW
    return Errors(_largest(candidate - exact), eager_error, factor * max(eager_error, noise) + floor)


def deviation(disturbed: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> float:
    """The largest absolute difference of two float64 tensors, over the elements that `dtype` can represent."""
    return _largest((disturbed.detach() - exact.detach())[_in_range(exact.detach(), dtype)])


def _in_range(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Where a float64 tensor is finite and stays so when rounded to `dtype`."""
    return torch.isfinite(exact) & torch.isfinite(exact.to(dtype))


def _largest(values: torch.Tensor) -> float:
    """The largest absolute value of the finite elements, 0.0 without one."""
    finite = values[torch.isfinite(values)]
    return finite.abs().max().item() if finite.numel() else 0.0


def strides_that_matter(tensor: torch.Tensor) -> list[int]:
    """Strides of the dimensions along which there is a second element."""
    if not tensor.numel():
        return []
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _first(mask: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in mask.nonzero()[0])


def assert_same_kind(where: str, compiled: torch.Tensor, eager: torch.Tensor, than: str = "in eager") -> None:
    """Raises `Mismatch` if type, shape or `requires_grad` differ; `than` says what the second is."""
    for what, mine, theirs in (
        ("dtype", compiled.dtype, eager.dtype),
        ("shape", tuple(compiled.shape), tuple(eager.shape)),
        ("requires_grad", compiled.requires_grad, eager.requires_grad),
    ):
        if mine != theirs:
            raise Mismatch(f"{where} has {what} {mine}, {than} {theirs}")


_NOT_FINITE = {"NaN": torch.isnan, "inf": torch.isposinf, "-inf": torch.isneginf}


def _class(tensor: torch.Tensor) -> torch.Tensor:
    """0 for finite elements, and a number for each way of not being finite."""
    return sum((i * test(tensor) for i, test in enumerate(_NOT_FINITE.values(), 1)), torch.zeros(tensor.shape))


def _assert_close(
    where: str,
    compiled: torch.Tensor,
    eager: torch.Tensor,
    exact: torch.Tensor,
    factor: float,
    noise: float,
    overflows: int,
) -> Errors:
    assert_same_kind(where, compiled, eager)
    if not eager.is_floating_point():
        different = compiled != eager
        if different.any():
            at = _first(different)
            raise Mismatch(
                f"{where} is {compiled[at].item()} at {at}, in eager {eager[at].item()} "
                f"({int(different.sum())} of {different.numel()} differ)"
            )
        return Errors(0.0, 0.0, 0.0)
    # Eager mode's float32 overflows inside, in a square or a sum, or has NaN for a limit such as gelu(inf).
    better = ~eager.isfinite() & ~exact.isnan()
    right = torch.where(better, exact.to(eager.dtype), eager)
    different = (_class(compiled) != _class(eager)) & (_class(compiled) != _class(right))
    if different.any():
        at = _first(different)
        name, test = next(
            (name, test) for name, test in _NOT_FINITE.items() if bool(test(compiled)[at]) != bool(test(eager)[at])
        )
        raise Mismatch(
            f"{where} is {compiled[at].item()} at {at}, in eager {eager[at].item()}: "
            f"{name} at {int(test(compiled).sum())} places, in eager at {int(test(eager).sum())}"
        )
    errors = measure(compiled, eager, exact, factor, noise)
    if not errors.compiled <= errors.bound:
        mine, theirs, right = (torch.where(better, 0.0, tensor) for tensor in (compiled, eager, exact))
        if better.any() and measure(mine, theirs, right, factor, noise).compiled <= errors.bound:
            if errors.compiled <= torch.finfo(eager.dtype).eps ** 0.5 * _largest(
                exact[better & _in_range(exact, eager.dtype)]
            ):
                return errors
            if overflows > 1:
                raise Undecided(f"{where} is finite where eager mode is not, and {overflows} operators leave the range")
        gap = torch.nan_to_num((compiled.double() - exact.double()).abs(), posinf=0.0)
        at = _first(gap == gap.max())
        raise Mismatch(
            f"{where} is off by {errors.compiled:.3g} (eager by {errors.eager:.3g}, bound {errors.bound:.3g}): "
            f"{compiled[at].item():.9g} at {at}, in eager {eager[at].item():.9g}, exactly {exact[at].item():.17g}"
        )
    return errors


def _assert_same_layout(where: str, compiled: torch.Tensor, eager: torch.Tensor) -> None:
    mine, theirs = strides_that_matter(compiled), strides_that_matter(eager)
    if mine != theirs:
        raise LayoutMismatch(f"{where} has strides {mine}, in eager {theirs}")


def assert_close_to_eager(
    compiled_out: Any,
    eager32_out: Any,
    float64_out: Any,
    factor: float = 4.0,
    noise: list[float] | None = None,
    what: str = "output",
    overflows: int = 0,
) -> list[Errors]:
    """Raises `Mismatch` unless `compiled_out` is as good as `eager32_out`, `LayoutMismatch` if only its strides err.

    The three may be tensors or nested structures of them. Against float64, the compiled error must be at most
    `factor` times eager mode's plus `FLOOR_ULPS` ulp of the largest output; the rest must be equal, see above. `noise`
    gives, leaf by leaf, an error that stands in for eager mode's where that is less; `what` names the leaves in
    messages. Returns the errors of each tensor. `overflows`: how many operators leave float32's range inside; where
    that leaves a number undecided, `Undecided` is raised if nothing else is wrong.
    """
    compiled_leaves, compiled_tree = tree_flatten(compiled_out)
    eager_leaves, eager_tree = tree_flatten(eager32_out)
    exact_leaves, exact_tree = tree_flatten(float64_out)
    if compiled_tree != eager_tree:
        raise Mismatch(f"the {what}s are nested as {compiled_tree}, in eager as {eager_tree}")
    if exact_tree != eager_tree:
        raise ValueError(f"the float64 {what}s are nested as {exact_tree}, the eager ones as {eager_tree}")
    errors = []
    layouts = []
    undecided = None
    for index, (mine, theirs, exact) in enumerate(zip(compiled_leaves, eager_leaves, exact_leaves, strict=True)):
        where = f"{what} {index}" if len(eager_leaves) > 1 else f"the {what}"
        if isinstance(theirs, torch.Tensor):
            if not isinstance(mine, torch.Tensor):
                raise Mismatch(f"{where} is a {type(mine).__name__}, in eager a tensor")
            try:
                allowed = noise[index] if noise else 0.0
                errors.append(_assert_close(where, mine, theirs, exact, factor, allowed, overflows))
            except Undecided as error:
                undecided = error
            layouts.append((where, mine, theirs))
        elif mine != theirs:
            raise Mismatch(f"{where} is {mine!r}, in eager {theirs!r}")
    for layout in layouts:  # last, so that they never hide a wrong number
        _assert_same_layout(*layout)
    if undecided is not None:
        raise undecided
    return errors


def sharing(outputs: Any, inputs: Any) -> list[int | None]:
    """For each output tensor the first tensor, inputs before outputs, whose memory it lies in, or None."""
    owners: dict[int, int] = {}
    shared: list[int | None] = []
    input_leaves = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    for position, tensor in enumerate(input_leaves + [t for t in tree_leaves(outputs) if isinstance(t, torch.Tensor)]):
        address = tensor.untyped_storage().data_ptr()
        owner = owners.setdefault(address, position) if address else position
        if position >= len(input_leaves):
            shared.append(None if owner == position else owner)
    return shared
