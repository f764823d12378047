"""How much of an answer is rounding: Monte Carlo arithmetic over a float64 run.

A single eager float32 run is a poor ruler for a small tensor: eight numbers may all be right to the last bit by luck.
Here the result of every operator of a float64 run is multiplied by 1 + e with a random |e| <= one float32 ulp, or two
for elementary functions. This shows what *any* correct float32 evaluation may give (Parker, "Monte Carlo Arithmetic",
UCLA CSD-970002, 1997). The same runs tell whether a decision of the graph (a comparison, an argmax, a floor, an
overflow) depends on rounding.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch

from fpga_dynamo.torch_internals.decompositions import decomposition_table
from fpga_dynamo.torch_internals.dispatch import TorchDispatchMode
from fpga_dynamo.torch_internals.pytree import tree_leaves, tree_map
from fpga_dynamo.torch_internals.tensors import storage_key

FLOAT32_ULP = 2.0**-23

Outcome = TypeVar("Outcome")

# Operators that copy or select: they round nothing, and noise would break ties that every evaluation agrees on.
_EXACT_NAMES = """
    relu hardtanh clamp clamp_min clamp_max threshold neg abs sign floor ceil round trunc max min amax amin maximum
    minimum max_pool2d_with_indices adaptive_max_pool2d cat stack where masked_fill index index_select gather
    embedding constant_pad_nd reflection_pad2d replication_pad2d upsample_nearest2d flip roll repeat tril triu sort
    topk clone copy _to_copy lift_fresh detach zeros_like ones_like full_like zeros ones full new_zeros new_ones
    new_full scalar_tensor fill zero arange one_hot argmax argmin eq ne lt le gt ge logical_not
"""
_EXACT = frozenset(_EXACT_NAMES.split())
# No library rounds these right: those of hls_kernels/lib/math.hpp err by up to two units, eager mode's by one or more.
_FUNCTION_NAMES = """
    exp exp2 expm1 log log2 log10 log1p pow tanh sigmoid silu erf erfc gelu sin cos tan asin acos atan atan2 sinh cosh
    asinh acosh atanh logaddexp softplus mish
"""
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
_FUNCTION_ULPS = 2
# Their partial sums are rounded, and may be much larger than what they come to.
_SUMS = frozenset(("sum", "mean"))
# So are those of the mean that these give beside their value (item 1), for their backward.
_MEANS = frozenset(("native_layer_norm", "native_group_norm"))
# One operator, but sums and what is made of them: an error of a sum is in all elements alike.
_COMPOSED_NAMES = """
    native_batch_norm_backward native_layer_norm_backward native_group_norm_backward _softmax_backward_data
    _log_softmax_backward_data
"""
_COMPOSED = frozenset(_COMPOSED_NAMES.split())
_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
_ATTENTION_BACKWARD = "_scaled_dot_product_flash_attention_for_cpu_backward"
# What is left of rows of equal numbers after their mean is taken from them: nothing, or the rounding of the mean.
_CENTRED = frozenset(("native_layer_norm", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit"))
_BATCH_NORMS = frozenset(("native_batch_norm", "_native_batch_norm_legit"))
_RESIDUE = 2.0**-40
# What these give is memory as it was left: whoever writes it is seen when he does.
_UNWRITTEN = frozenset(
    ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize")
)
# Results that jump: where two evaluations differ here, the final answers may differ by anything.
_JUMPS = frozenset(("floor", "ceil", "round", "trunc", "sign", "floor_divide", "remainder", "fmod", "heaviside"))
# Float32 meets an equality by chance that noise in float64 never does: which side of it a run is on decides as well.
_EQUALITIES = frozenset(("eq", "ne"))
_TRUTHS = frozenset(("logical_not", "logical_and", "logical_or", "logical_xor", "any", "all", "_to_copy", "copy"))
# What eager makes of a NaN here depends on its place: whole vectors of the CPU compare in another way than the rest.
_NAN_BY_PLACE = frozenset(
    ("hardtanh_backward", "hardswish_backward", "elu_backward", "softshrink_backward", "hardshrink_backward")
)
# So does which zero is the larger one: whole vectors give the second of two, the rest the first.
_ZERO_BY_PLACE = frozenset(("maximum", "minimum", "fmax", "fmin"))
# Sums of products, with the places of the factors among the arguments.
_FACTORS = {
    "mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "mv": (0, 1), "addmv": (1, 2), "dot": (0, 1),
    "convolution": (0, 1), "convolution_backward": (0, 1, 2),
}  # fmt: skip
_BEYOND_FLOAT32 = 1e100  # stands for an infinity: times 0 it is 0
# Their indices serve the backward pass only.
_INDICES_UNSEEN = frozenset(("max_pool2d_with_indices", "adaptive_max_pool2d"))


class OperatorRecorder(TorchDispatchMode):
    """Runs operators as they are, adds rounding noise to their results and records the decisions they make.

    Results are changed by up to `magnitude` of themselves, and those of convolutions, where products are rounded
    before they cancel, by up to `convolution` of the largest of them on top. With `cancel` what a norm leaves of equal
    numbers is nothing, as in an evaluation that does not round there. With `widen` what a model makes of integers and
    truths by a cast to float32 is float64, or all that follows would be rounded and have no noise.
    """

    def __init__(
        self,
        magnitude: float = 0.0,
        seed: int = 0,
        *,
        convolution: float = 0.0,
        cancel: bool = False,
        widen: bool = False,
    ) -> None:
        super().__init__()
        self._widen = widen
        self._magnitude = magnitude
        self._convolution = convolution
        self._cancel = cancel
        self._generator = torch.Generator().manual_seed(seed)
        self.decisions: list[torch.Tensor] = []
        self.overflows: list[torch.Tensor] = []
        self.arbitrary = False
        """Whether an operator had inputs for which eager kernels, or orders of summation, give different results."""
        self.overflowing: list[bool] = []
        """Without `widen`, of each operator whether it gave an infinity or NaN for finite inputs."""
        self.representable: list[bool] = []
        """With `widen`, of each operator whether float32 can represent all that it gave."""
        self.vanishing = 0
        """With `widen` and without noise, how many operators gave numbers below float32's normal ones."""

    def disturb(self, tensor: torch.Tensor, ulps: int = 1) -> None:
        """Multiplies `tensor` in place by 1 + e, |e| <= ulps * magnitude. Zeros and infinities stay what they are, and
        so does the largest number there is, which masks are made of."""
        if self._magnitude and tensor.dtype == torch.float64 and tensor.numel():
            noise = torch.rand(tensor.shape, generator=self._generator, dtype=torch.float64)
            disturbed = tensor * (1 + (2 * noise - 1) * self._magnitude * ulps)
            tensor.copy_(torch.where(disturbed.isinf(), tensor, disturbed))

    def disturb_sums(self, tensor: torch.Tensor) -> None:
        """Adds a random number of at most `convolution` times the largest finite one to each element."""
        if self._convolution and tensor.dtype == torch.float64 and tensor.numel():
            noise = torch.rand(tensor.shape, generator=self._generator, dtype=torch.float64)
            largest = torch.nan_to_num(tensor, nan=0.0, posinf=0.0, neginf=0.0).abs().max()
            tensor.add_((2 * noise - 1) * self._convolution * largest)

    def _disturb_partial_sums(self, func: Any, result: torch.Tensor, args: Any, kwargs: Any) -> None:
        """Adds to a sum or mean a random number of at most `magnitude` times that of the absolute values."""
        if self._magnitude and result.dtype == torch.float64 and result.numel() and "out" not in kwargs:
            noise = torch.rand(result.shape, generator=self._generator, dtype=torch.float64)
            largest = torch.nan_to_num(func(args[0].abs(), *args[1:], **kwargs), nan=0.0, posinf=0.0)
            result.add_((2 * noise - 1) * self._magnitude * largest)

    def _disturb_parts(self, parts_of: Callable[..., Any], result: Any, args: Any, kwargs: Any) -> None:
        """Computes `result` again, operator by operator, each with its noise. What they decide is their own affair."""
        results = tree_leaves(result)
        if not self._magnitude or all(x is None or x.dtype != torch.float64 for x in results):
            return
        decisions, overflows = len(self.decisions), len(self.overflows)
        with self:
            parts = tree_leaves(parts_of(*args, **kwargs))
        del self.decisions[decisions:], self.overflows[overflows:]
        for whole, part in zip(results, parts, strict=True):
            if whole is not None:
                whole.copy_(part)

    def _drop_residues(self, centred: torch.Tensor, original: torch.Tensor) -> None:
        if self._cancel and original.numel():
            centred.masked_fill_(centred.abs() <= _RESIDUE * original.abs().max(), 0.0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.is_view:
            return result
        name = func.overloadpacket.__name__.rstrip("_") or func.overloadpacket.__name__
        if name in _UNWRITTEN:
            return result
        if self._widen and name == "_to_copy" and result.dtype == torch.float32 and not args[0].is_floating_point():
            result = result.double()
        self.arbitrary |= _is_arbitrary(func, name, args, kwargs or {})
        if name in _CENTRED:
            self._drop_residues(result[0], args[0])
        if name in _SUMS:
            self._disturb_partial_sums(func, result, args, kwargs or {})
        if name in _MEANS:
            self._disturb_partial_sums(lambda *given, **named: func(*given, **named)[1], result[1], args, kwargs or {})
        if name in _COMPOSED:
            self._disturb_parts(decomposition_table[func], result, args, kwargs or {})
        if name == _ATTENTION_BACKWARD:
            self._disturb_parts(_attention_gradients, result, args, kwargs or {})
        if self._widen:
            self.representable.append(_finite(result, torch.float32))
            if not self._magnitude:
                self.vanishing += _vanishes(result)
        else:
            self.overflowing.append(not _finite(result) and _finite((args, kwargs)))
        self.decisions.extend(_sides(name, args, result))
        for tensor in tree_leaves(result):
            if not isinstance(tensor, torch.Tensor):
                continue
            if tensor.is_complex():
                tensor = torch.view_as_real(tensor.resolve_conj())
            if tensor.is_floating_point():
                if name not in _EXACT:
                    self.disturb(tensor, _FUNCTION_ULPS if name in _FUNCTIONS else 1)
                if name == "convolution":
                    self.disturb_sums(tensor)
                if name in _JUMPS:
                    self.decisions.append(tensor.detach().to(torch.float64, copy=True))
                self.overflows.append(torch.isfinite(tensor))
            elif name not in _INDICES_UNSEEN:
                self.decisions.append(tensor.detach().clone())
        return result


def _attention_gradients(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, ...]:
    """Gradients of query, key and value (Dao et al., "FlashAttention", 2022, appendix B.2), without dropout.

    The sum of `grad` times `out` has an error that all gradients of a row share, and that cancels nowhere: with one key
    the gradients of query and key are 0, and what float32 gives is this error. Written apart from the lowering's
    decomposition, which is judged by it.
    """
    heads = query.shape[1] // key.shape[1]
    keys, values = (t.repeat_interleave(heads, 1) for t in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ keys.mT * factor
    if is_causal:
        scores = scores + torch.full(scores.shape[-2:], -torch.inf, dtype=scores.dtype).triu(1)
    if attn_mask is not None:
        scores = scores + attn_mask
    weights = (scores - logsumexp.unsqueeze(-1)).exp()
    slopes = weights * (grad @ values.mT - (grad * out).sum(-1, keepdim=True))
    of_keys, of_values = (t.unflatten(1, (-1, heads)).sum(2) for t in (slopes.mT @ query * factor, weights.mT @ grad))
    return slopes @ keys * factor, of_keys, of_values


def _sides(name: str, args: Any, result: Any) -> list[torch.Tensor]:
    """On which side of an equality the numbers are that `result` tells apart, for the operators that ask for one."""
    floating = [x for x in args if isinstance(x, torch.Tensor) and x.is_floating_point()]
    if name in _EQUALITIES and floating and not any(_is_complex(x) for x in args[:2]):
        return [torch.as_tensor(args[0] > args[1])]
    if name == "nonzero" or (name in _TRUTHS and result.dtype == torch.bool):
        return [x > 0 for x in floating]
    return []


def overflow_inside(single: OperatorRecorder, exact: OperatorRecorder) -> int:
    """How many operators leave float32's range, if any overflows on its way to a number that float32 can represent.

    Those whose numbers are too small for float32 count too: what eager mode makes of them, its NaN hides.
    """
    count = sum(left and right for left, right in zip(single.overflowing, exact.representable, strict=False))
    return count and count + exact.vanishing


def _finite(structure: Any, dtype: torch.dtype | None = None) -> bool:
    """Whether all floating-point numbers of a nested structure are finite, rounded to `dtype` if one is given."""
    return all(
        bool(torch.isfinite(x.to(dtype or x.dtype)).all())
        for x in map(torch.as_tensor, (x for x in tree_leaves(structure) if isinstance(x, (torch.Tensor, float))))
        if x.is_floating_point()
    )


def _vanishes(structure: Any) -> bool:
    """Whether a nested structure has a number other than 0 that is smaller than float32's normal ones."""
    return any(
        bool(((x != 0) & (x.abs() < torch.finfo(torch.float32).tiny)).any())
        for x in tree_leaves(structure)
        if isinstance(x, torch.Tensor) and x.is_floating_point()
    )


def _is_complex(operand: Any) -> bool:
    return operand.is_complex() if isinstance(operand, torch.Tensor) else isinstance(operand, complex)


def _is_arbitrary(func: Any, name: str, args: Any, kwargs: Any) -> bool:
    if name in _NAN_BY_PLACE:
        return any(bool(torch.as_tensor(x).isnan().any()) for x in args if isinstance(x, (torch.Tensor, float)))
    if name in _ZERO_BY_PLACE and args[0].is_floating_point():
        one, other = args[:2]
        return bool(((one == 0) & (other == 0) & (one.signbit() != other.signbit())).any())
    if name == "prod" and args[0].is_floating_point():  # the large ones first overflow, the small ones first vanish
        size = args[0].abs()
        large, small = (func(part, *args[1:], **kwargs) for part in (size.clamp_min(1), size.clamp_max(1)))
        return bool(large.isinf().any()) or bool((small < torch.finfo(size.dtype).tiny).any())
    if name in _BATCH_NORMS and args[0].dtype is torch.float32:  # in float32 of contiguous images, else in float64
        squares = args[0].double().transpose(0, 1).flatten(1).square().mean(1)
        return bool((squares > torch.finfo(torch.float32).max).any())
    if name == _ATTENTION and args[0].dtype is torch.float32:  # a row of -inf alone: 0 there, NaN in a softmax
        query, key = (x.double() for x in args[:2])
        sizes = query.square().sum(-1).max() * key.square().sum(-1).max()  # Cauchy and Schwarz
        return bool(sizes.sqrt() > torch.finfo(torch.float32).max)
    return name in _FACTORS and _overflows_by_order(func, _FACTORS[name], args, kwargs)


def _overflows_by_order(func: Any, places: tuple[int, ...], args: Any, kwargs: Any) -> bool:
    """Whether the order of summation, or a fused multiply-add, decides which infinity or number an element becomes.

    Float32 partial sums lie between minus the sum of the negative products and the sum of the positive ones.
    """
    factors = [args[place] for place in places]
    if any(x.dtype not in (torch.float32, torch.bfloat16, torch.float16) or not x.numel() for x in factors):
        return False
    limit = torch.finfo(torch.float32).max
    sizes = [x.abs().max().double().item() for x in factors]
    terms = max(x.numel() for x in factors)
    if all(a * b * terms <= limit for a, b in itertools.combinations(sizes, 2)):
        return False

    def of(*numbers: torch.Tensor) -> list[torch.Tensor]:
        replaced = [x.double().zero_() if isinstance(x, torch.Tensor) else x for x in args]  # addends decide nothing
        for place, x in zip(places, numbers, strict=True):
            replaced[place] = x
        return [x for x in tree_leaves(func(*replaced, **kwargs)) if x is not None]

    wide = [x.detach().double().nan_to_num(0.0, _BEYOND_FLOAT32, -_BEYOND_FLOAT32) for x in factors]
    plus, minus = ([(sign * x).clamp_min(0.0) for x in wide] for sign in (1, -1))
    exact = of(*(x.detach().double() for x in factors))
    positive = [a + b for a, b in zip(of(*plus), of(*minus), strict=True)]
    negative = [a + b for a, b in zip(of(minus[0], *plus[1:]), of(plus[0], *minus[1:]), strict=True)]
    return any(
        bool((~whole.isnan() & (larger > limit) & ((smaller > limit) | (larger - smaller <= limit))).any())
        for whole, above, below in zip(exact, positive, negative, strict=True)
        for larger, smaller in ((above, below), (below, above))
    )


def _same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(
        a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        for a, b in zip(left, right, strict=True)
    )


def agree(runs: Iterable[OperatorRecorder], *, overflows: bool = True) -> bool:
    """True if all runs took the same decisions and, unless told otherwise, overflowed at the same places."""
    first, *others = runs
    return all(
        _same(first.decisions, run.decisions) and (not overflows or _same(first.overflows, run.overflows))
        for run in others
    )


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage of a tensor as a vector: every number once, whatever the strides."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    return torch.as_strided(tensor.detach(), (elements,), (1,), 0)


def in_float64(value: Any) -> Any:
    """`value` with every floating tensor of a nested structure as float64 of the very same strides.

    What shares memory in `value` does so in the result.
    """
    converted: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        # Strides decide which reshapes are views and so what an in-place operator reaches: keep gaps and overlaps.
        key = storage_key(leaf), leaf.dtype
        if key not in converted:
            converted[key] = _memory(leaf).to(torch.float64, copy=True)
        return converted[key].as_strided(leaf.shape, leaf.stride(), leaf.storage_offset())

    return tree_map(convert, value)


def noisy_run(
    model: torch.nn.Module,
    inputs: tuple[Any, ...],
    run: Callable[[torch.nn.Module, tuple[Any, ...]], Outcome],
    *,
    magnitude: float,
    convolution: float = 0.0,
    cancel: bool = False,
    seed: int = 0,
) -> tuple[Outcome, OperatorRecorder]:
    """Calls `run` with a float64 copy of `model`, with noise in its parameters, its inputs and every operator's result.

    `inputs` are in float64 already. `magnitude`, `convolution` and `cancel` say what is changed and how far, see
    :class:`OperatorRecorder`. Returns what `run` does, and the recorder.
    """
    recorder = OperatorRecorder(magnitude, seed, convolution=convolution, cancel=cancel, widen=True)
    twin = copy.deepcopy(model).double()
    with torch.no_grad():
        leaves = (*twin.parameters(), *twin.buffers(), *tree_leaves(inputs))
        tensors = {storage_key(t): t for t in leaves if isinstance(t, torch.Tensor)}
        for tensor in tensors.values():
            recorder.disturb(_memory(tensor))
    with recorder:
        return run(twin, inputs), recorder
