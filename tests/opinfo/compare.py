"""One case under one backend, held against eager: values, dtypes, strides, aliasing, what became of the inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from fpga_dynamo.runtime.observe.rounding import OperatorRecorder, in_float64
from fpga_dynamo.testing.reference import LayoutMismatch, Mismatch, assert_close_to_eager, deviation, sharing
from tests.opinfo.cases import SEED, Case

Call = Callable[[nn.Module | None, tuple[Any, ...], dict[str, Any]], Any]

_NOISY_RUNS = 4


@dataclass(frozen=True)
class Answer:
    """Everything that a run shows: results and gradients; inputs, parameters and buffers afterwards; shared memory."""

    results: Any
    after: Any
    shared: list[int | None]


def run(
    call: Call,
    case: Case,
    *,
    backward: bool,
    noise: OperatorRecorder | None = None,
    place: Callable[[Any], Any] | None = None,
) -> Answer:
    """Runs a copy of `case`, in float64 with the rounding of `noise` if that is given, and where `place` moves it."""
    module, args, kwargs = copy.deepcopy((case.module, case.args, case.kwargs))
    if place is not None:
        module, args, kwargs = place((module, args, kwargs))
    if noise is not None:
        module, args, kwargs = _widened((module, args, kwargs), noise)
    given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    state = [] if module is None else [*module.parameters(), *module.buffers()]
    torch.manual_seed(SEED)
    with torch.set_grad_enabled(backward):
        if noise is None:
            outputs = call(module, args, kwargs)
        else:
            with noise:
                outputs = call(module, args, kwargs)
    wanted = [tensor for tensor in (*given, *state) if tensor.requires_grad and tensor.is_leaf]
    results = (outputs, _gradients(outputs, wanted)) if backward else outputs
    # Gradients are compared as results; what a tensor requires is of the outputs only.
    after = [tensor.detach() for tensor in (*given, *state)]
    dense = [_plain(leaf) for leaf in (outputs, after)]
    return Answer(tree_map(_leaf, results), tree_map(_leaf, after), sharing(*dense))


def check(call: Call, compiled: Call, case: Case, *, backward: bool, defined: bool, calls: int = 2) -> None:
    """Raises :class:`Mismatch` where `compiled` and `call` differ. A call that eager refuses is no case."""
    expected = run(call, case, backward=backward)
    for _ in range(calls):
        answer = run(compiled, case, backward=backward)
        assert_results(call, case, answer, expected, backward, defined)
        if answer.shared != expected.shared:
            raise Mismatch(f"outputs lie in the memory of {answer.shared}, in eager of {expected.shared}")


def assert_results(call: Call, case: Case, answer: Answer, expected: Answer, backward: bool, defined: bool) -> None:
    """Raises :class:`Mismatch` where an answer is not as good as that of `call`; `defined`: its values count, too."""
    if defined:
        _assert_right(answer, expected, lambda: _exactly(call, case, backward))
    else:
        _assert_same_kind(answer.results, expected.results)


def _assert_right(answer: Answer, expected: Answer, exactly: Callable[[], list[Any]]) -> None:
    mine, theirs = (answer.results, answer.after), (expected.results, expected.after)
    try:
        assert_close_to_eager(mine, theirs, theirs)
    except LayoutMismatch:
        raise
    except Mismatch:
        exact, *noisy = exactly()
        if tree_flatten(exact)[1] != tree_flatten(theirs)[1]:
            raise
        leaves = list(zip(tree_leaves(exact), tree_leaves(theirs), strict=True))
        noise = [0.0] * len(leaves)
        for other in noisy:
            for i, ((leaf, eager), moved) in enumerate(zip(leaves, tree_leaves(other), strict=True)):
                if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.shape == moved.shape:
                    noise[i] = max(noise[i], deviation(moved, leaf, eager.dtype))
        assert_close_to_eager(mine, theirs, exact, noise=noise)


def _exactly(call: Call, case: Case, backward: bool) -> list[Any]:
    """What float64 gives, and what it gives with a float32's rounding after every op."""
    recorders = [OperatorRecorder(0.0), *(OperatorRecorder(2.0**-23, seed) for seed in range(_NOISY_RUNS))]
    found = []
    for recorder in recorders:
        try:
            answer = run(call, case, backward=backward, noise=recorder)
        except Exception:  # no kernel for float64: eager itself is the ruler
            answer = run(call, case, backward=backward)
        found.append((answer.results, answer.after))
    return found


def _assert_same_kind(mine: Any, theirs: Any) -> None:
    """All but values."""
    blank = [tree_map(lambda x: torch.zeros_like(x) if isinstance(x, torch.Tensor) else x, t) for t in (mine, theirs)]
    assert_close_to_eager(blank[0], blank[1], blank[1])


def _gradients(outputs: Any, wanted: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """Of a weighted sum of all outputs, the weights being the same in every run."""
    generator = torch.Generator().manual_seed(SEED)
    roots, weights = [], []
    for leaf in tree_leaves(outputs):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.layout is torch.strided:
            roots.append(leaf)
            noise = torch.randn(leaf.shape, generator=generator, dtype=torch.float64)
            weights.append(noise.to(leaf.device, leaf.dtype))
    if not roots or not wanted:
        return []
    return list(torch.autograd.grad(roots, wanted, weights, allow_unused=True))


def _widened(values: tuple[Any, ...], noise: OperatorRecorder) -> tuple[Any, ...]:
    module, *rest = values

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.is_complex():
            return leaf.detach().to(torch.complex128).requires_grad_(leaf.requires_grad)
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point() or leaf.layout is not torch.strided:
            return leaf
        wide = in_float64(leaf)
        if wide.dim() or wide.numel():
            noise.disturb(wide.as_strided((wide.untyped_storage().nbytes() // 8,), (1,), 0))
        return wide.requires_grad_(leaf.requires_grad)

    if module is not None:
        module = module.double()
        with torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                noise.disturb(tensor)
    return (module, *tree_map(widen, tuple(rest)))


def _plain(tree: Any) -> Any:
    """Only what has memory of its own kind: strided tensors."""
    return [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor) and t.layout is torch.strided]


def _leaf(leaf: Any) -> Any:
    """A leaf as `assert_close_to_eager` takes it: complex numbers as pairs, sparse tensors as dense ones."""
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf) if isinstance(leaf, float) else leaf
    if leaf.layout is not torch.strided:
        leaf = leaf.to_dense()
    if leaf.is_complex():
        leaf = torch.view_as_real(leaf.resolve_conj().resolve_neg())
    return leaf
