"""Calls of a model, eager and compiled, and whether they leave the same behind: outputs, inputs, gradients, buffers."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fpga_dynamo.runtime.internal_errors import raising
from fpga_dynamo.runtime.observe.rounding import OperatorRecorder, agree, in_float64, noisy_run, overflow_inside
from fpga_dynamo.testing.reference import (
    LayoutMismatch,
    Mismatch,
    Undecided,
    assert_close_to_eager,
    assert_same_kind,
    deviation,
    sharing,
    strides_that_matter,
)
from fpga_dynamo.torch_internals.pytree import tree_flatten, tree_leaves

_NOISY_RUNS = 3
_MANY_NOISY_RUNS = 24  # before an answer is called wrong: three may miss how far rounding moves what cancels
_COARSE = 16  # how many ulps a decision must withstand to count as one that every evaluation shares

WINOGRAD_NOISE = 2.0**-18
"""What Winograd's method may change a convolution's result by, as a share of its largest number: 32 ulp of float32."""


@dataclass(frozen=True)
class Outcome:
    """All that a call leaves behind; `gradients` are those of inputs and parameters, `buffers` the model's."""

    outputs: Any
    inputs: tuple[Any, ...]
    gradients: list[torch.Tensor | None]
    buffers: list[torch.Tensor]

    @property
    def parts(self) -> tuple[tuple[str, Any], ...]:
        """Each with the name of its leaves, `outputs` first."""
        return (
            ("output", self.outputs),
            ("input after the call", self.inputs),
            ("gradient", self.gradients),
            ("buffer after the call", self.buffers),
        )


def _cotangent(output: torch.Tensor) -> torch.Tensor:
    """A gradient for `output`, the same numbers in every precision."""
    values = torch.linspace(-0.5, 1.5, output.numel(), dtype=torch.float32)
    return values.to(output.dtype).reshape(output.shape)


def call_once(
    call: Callable[..., Any],
    model: torch.nn.Module,
    inputs: tuple[Any, ...],
    *,
    grad: bool,
    backward: bool,
    fixed_inputs: bool = False,
) -> Outcome:
    """Calls `call`, which is `model` or compiled from it, from a fixed seed.

    `backward` takes gradients too, of the parameters alone with `fixed_inputs`.
    """
    wanted = inputs if backward and not fixed_inputs else ()
    leaves = [x for x in wanted if isinstance(x, torch.Tensor) and x.is_floating_point()]
    for leaf in leaves:
        leaf.requires_grad_()
    model.zero_grad(set_to_none=True)
    torch.default_generator.manual_seed(0)  # torch.manual_seed keeps a traceback for each kind of device, at every call
    with torch.set_grad_enabled(grad or backward):
        outputs = call(*inputs)
    gradients: list[torch.Tensor | None] = []
    if backward:
        ends = [t for t in tree_leaves(outputs) if isinstance(t, torch.Tensor) and t.requires_grad]
        if ends:
            torch.autograd.backward(ends, [_cotangent(end) for end in ends])
        gradients = [leaf.grad for leaf in (*leaves, *model.parameters())]
    return Outcome(outputs, inputs, gradients, [buffer.clone() for buffer in model.buffers()])


@dataclass(frozen=True)
class Reference:
    """Eager results for one set of inputs, in float32 and float64, and the rounding error allowed for each leaf.

    overflows: operators whose float32 overflows on the way to a number that float32 can represent.
    """

    outcome: Outcome
    exact: Outcome
    noise: list[list[float]]
    shared: list[int | None]
    overflows: int


def reference(
    model: torch.nn.Module,
    make_inputs: Callable[[], tuple[Any, ...]],
    *,
    grad: bool = False,
    backward: bool = False,
    fixed_inputs: bool = False,
    winograd: bool = False,
    dtype: torch.dtype = torch.float32,
    noisy_runs: int = _NOISY_RUNS,
) -> Reference:
    """Runs a copy of `model` in eager. `make_inputs` gives the same inputs, freshly made, at every call.

    `backward` takes gradients, of the parameters alone with `fixed_inputs`. `noisy_runs` in float64 show how far
    rounding moves the model's results. With `winograd` convolutions may round as coarsely as Winograd's method does.
    `dtype` is what the model computes in, as far as its rounding is concerned.
    Raises `Undecided` where a decision of the model depends on rounding, and for Winograd's method where there are NaN
    or infinities, which it propagates to whole tiles.
    """
    convolution = WINOGRAD_NOISE if winograd else 0.0
    ulp = torch.finfo(dtype).eps

    def in_double(seed: int = 0, **noise: Any) -> tuple[Outcome, OperatorRecorder]:
        def run(twin: torch.nn.Module, inputs: tuple[Any, ...]) -> Outcome:
            return call_once(twin, twin, inputs, grad=False, backward=backward, fixed_inputs=fixed_inputs)

        return noisy_run(model, in_float64(make_inputs()), run, seed=seed, **noise)

    def in_single(watcher: contextlib.AbstractContextManager[Any]) -> Outcome:
        twin, inputs = copy.deepcopy(model), make_inputs()
        with watcher:
            return call_once(twin, twin, inputs, grad=grad, backward=backward, fixed_inputs=fixed_inputs)

    # To who watches, eager shows an operator's parts, which may answer in other strides than the whole.
    outcome = in_single(contextlib.nullcontext())
    single = OperatorRecorder()
    in_single(single)
    exact, exact_run = in_double(magnitude=0.0)
    noise = [[0.0] * len(tree_leaves(part)) for _, part in exact.parts]
    runs = [exact_run]
    for seed in range(noisy_runs):
        noisy, run = in_double(seed, magnitude=ulp, convolution=convolution)
        runs.append(run)
        for errors, *parts in zip(noise, noisy.parts, exact.parts, outcome.parts, strict=True):
            leaves = zip(*(tree_leaves(part) for _, part in parts), strict=True)
            for index, (disturbed, leaf, eager) in enumerate(leaves):
                if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
                    errors[index] = max(errors[index], deviation(disturbed, leaf, eager.dtype))
    runs.append(in_double(magnitude=_COARSE * ulp, convolution=2 * convolution)[1])
    runs.append(in_double(magnitude=0.0, cancel=True)[1])  # without noise, which no residue would be small beside
    if single.arbitrary:
        raise Undecided(
            "what eager mode's kernels make of a NaN, an infinity, two zeros or a long product here depends on how "
            "they go about"
        )
    if winograd and not all(bool(finite.all()) for finite in single.overflows):
        raise Undecided("Winograd's method propagates the NaN and infinities of this model to more elements")
    # Float32 overflows earlier than float64, which is no matter of rounding.
    if not agree(runs) or not agree((exact_run, single), overflows=False):
        raise Undecided("a comparison, an index or an overflow of this model depends on rounding")
    shared = sharing(outcome.outputs, outcome.inputs)
    return Reference(outcome, exact, noise, shared, overflow_inside(single, exact_run))


def check_against_eager(
    model: torch.nn.Module,
    make_inputs: Callable[[int], tuple[Any, ...]],
    *,
    backend: str | Callable[..., Any] = "fpga",
    options: Mapping[str, Any] | None = None,
    calls: int = 2,
    grad: bool = False,
    backward: bool = False,
    fixed_inputs: bool = False,
    winograd: bool = False,
    warm: bool = False,
    dynamic: bool | None = None,
    dtype: torch.dtype = torch.float32,
    factor: float = 4.0,
) -> None:
    """Compiles `model` and holds the answers of `calls` calls against eager; raises `Mismatch` or `Undecided`.

    `make_inputs(seed)` gives fresh inputs, the same for the same seed; shapes may depend on the seed. Each call begins
    with the model's state as it was given. `grad` runs with gradients on, `backward` also compares those of inputs and
    parameters, of parameters alone with `fixed_inputs`. `winograd` allows convolutions the rounding of Winograd's
    method. `warm` compiles once more, with what the first time left in the disk cache, and holds the answers against
    the first time's, bit by bit. `dynamic` is that of `torch.compile`. `dtype` is what the model computes in: eager
    mode's answer is that of the model as it is, and rounding is one of `dtype`. Internal errors of the compiler are
    raised.
    """
    twin = copy.deepcopy(model)
    compiled = functools.partial(
        torch.compile, twin, backend=backend, options=dict(options) if options else None, dynamic=dynamic
    )
    gradients = {"grad": grad, "backward": backward, "fixed_inputs": fixed_inputs}
    outcomes: list[Outcome] = []
    misplaced: LayoutMismatch | None = None
    for call, outcome in enumerate(_compiled_calls(compiled(), model, twin, make_inputs, calls, gradients)):
        outcomes.append(outcome)
        inputs = functools.partial(make_inputs, call)
        expect = functools.partial(reference, model, inputs, winograd=winograd, dtype=dtype, **gradients)
        try:
            misplaced = _hold(outcome, expect, factor) or misplaced
        except Mismatch as error:
            raise Mismatch(f"call {call}: {error}") from None
    if misplaced is not None:
        raise misplaced
    if warm:
        torch.compiler.reset()
        again = _compiled_calls(compiled(), model, twin, make_inputs, calls, gradients)
        for call, (cold, outcome) in enumerate(zip(outcomes, again, strict=True)):
            _assert_same_bits(f"call {call}, compiled again", outcome, cold)


def _compiled_calls(
    compiled: Callable[..., Any],
    model: torch.nn.Module,
    twin: torch.nn.Module,
    make_inputs: Callable[[int], tuple[Any, ...]],
    calls: int,
    gradients: Mapping[str, bool],
) -> Iterator[Outcome]:
    """What calls of `compiled` give; before each, `twin`, of which it is made, gets the state of `model`."""
    for call in range(calls):
        if twin.training:
            twin.load_state_dict(model.state_dict())
        inputs = make_inputs(call)
        with raising():  # an internal error is a failure, though eager mode would answer in its place
            outcome = call_once(compiled, twin, inputs, **gradients)
        yield outcome


def _hold(outcome: Outcome, expect: Callable[..., Reference], factor: float) -> LayoutMismatch | None:
    """`_compare`; what errs is held against more runs before it is called wrong."""
    try:
        return _compare(outcome, expect(), factor)
    except Mismatch:
        return _compare(outcome, expect(noisy_runs=_MANY_NOISY_RUNS), factor)


def _compare(outcome: Outcome, expected: Reference, factor: float) -> LayoutMismatch | None:
    """Raises `Mismatch` where numbers err; strides that do are only returned, so that they never hide a number."""
    misplaced, undecided = None, None
    parts = zip(outcome.parts, expected.outcome.parts, expected.exact.parts, expected.noise, strict=True)
    for (what, mine), (_, theirs), (_, exact), noise in parts:
        try:
            assert_close_to_eager(mine, theirs, exact, factor, noise, what=what, overflows=expected.overflows)
        except LayoutMismatch as error:
            misplaced = misplaced or error
        except Undecided as error:
            undecided = error
    shared = sharing(outcome.outputs, outcome.inputs)
    if shared != expected.shared:
        raise Mismatch(f"outputs lie in the memory of tensors {shared}, in eager of {expected.shared} (inputs first)")
    if undecided is not None:
        raise undecided
    return misplaced


def _assert_same_bits(when: str, again: Outcome, first: Outcome) -> None:
    for (what, mine), (_, theirs) in zip(again.parts, first.parts, strict=True):
        leaves, tree = tree_flatten(mine)
        others, other_tree = tree_flatten(theirs)
        if tree != other_tree:
            raise Mismatch(f"{when}: the {what}s are nested as {tree}, at first as {other_tree}")
        for index, (leaf, other) in enumerate(zip(leaves, others, strict=True)):
            where = f"{when}: {what} {index}"
            if not isinstance(leaf, torch.Tensor) or not isinstance(other, torch.Tensor):
                if leaf != other:
                    raise Mismatch(f"{where} is {leaf!r}, at first {other!r}")
                continue
            assert_same_kind(where, leaf, other, than="at first")
            if not torch.equal(_bits(leaf), _bits(other)):
                raise Mismatch(f"{where} has other bits than at first: {_first_difference(leaf, other)}")
            if strides_that_matter(leaf) != strides_that_matter(other):
                raise LayoutMismatch(f"{where} has strides {leaf.stride()}, at first {other.stride()}")
    if sharing(again.outputs, again.inputs) != sharing(first.outputs, first.inputs):
        raise Mismatch(f"{when}: outputs share other memory than at first")


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of the elements in order; a NaN equals itself, and 0.0 is not -0.0."""
    return tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)


def _first_difference(mine: torch.Tensor, theirs: torch.Tensor) -> str:
    width = mine.element_size()
    position = int((_bits(mine) != _bits(theirs)).nonzero()[0]) // width
    values = (tensor.detach().reshape(-1)[position].item() for tensor in (mine, theirs))
    return "{!r} and {!r} at element {}".format(*values, position)
