"""What a quantised tensor's scale and zero point may be, as torchao's specifications.

Activations are signed bytes with a scale and zero point of their own; weights are symmetric, -127 to 127, with a scale
for each output channel. ``"pow2"`` scales are powers of two, the next one up, so nothing is clipped that was not
before: every product and sum of such a network is exact in float32 (as long as sums stay below 2^24), and so eager, a
card and any other engine give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.fx import Node
from torchao.quantization.pt2e import (
    FakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.observer import UniformQuantizationObserverBase
from torchao.quantization.pt2e.quantizer import DerivedQuantizationSpec, QuantizationSpec

from fpga_dynamo.errors import OptionError
from fpga_dynamo.quantize.biases_of_products import raised

Scales = Literal["float", "pow2"]
BiasType = Literal["float", "int32"]

_RANGE = {"activation": (-128, 127), "weight": (-127, 127)}
_INT32 = torch.iinfo(torch.int32)


class _PowerOfTwo(UniformQuantizationObserverBase):
    """Of an observer: the next power of two above each scale, and the zero point that goes with it."""

    qscheme: torch.qscheme
    quant_min: int
    quant_max: int

    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> tuple[Tensor, Tensor]:
        scale, zero = super()._calculate_qparams(min_val, max_val)
        # frexp is exact where log2 is not: scale = mantissa * 2^exponent, mantissa in [0.5, 1).
        mantissa, exponent = torch.frexp(scale)
        scale = torch.ldexp(torch.ones_like(scale), torch.where(mantissa == 0.5, exponent - 1, exponent))
        if self.qscheme == torch.per_tensor_affine:
            low = torch.clamp(min_val, max=0.0) / scale
            wanted = self.quant_min - torch.round(low)
            zero = wanted.clamp(self.quant_min, self.quant_max).to(zero.dtype).view_as(zero)
        return scale, zero


class _Weights(UniformQuantizationObserverBase):
    """Of an observer of weights: scales that are as large as an int32 bias needs. bias_of: the bias, and the observer
    of the activation that the weights are multiplied by."""

    bias_of: tuple[Tensor, Any] | None = None

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        scale, zero = super().calculate_qparams()
        if self.bias_of is not None:
            bias, data = self.bias_of
            scale = raised(scale, bias, data.calculate_qparams()[0], isinstance(self, _PowerOfTwo))
        return scale, zero


class _Scores(UniformQuantizationObserverBase):
    """Of an observer of what a softmax reads: no lower than what weighs anything in its row.

    Masks are minus infinity, or the least float32, and would take all 8 bits; far below a row's largest all is zero.
    """

    def __init__(self, *args: Any, dim: int = -1, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.dim, self.masked = dim, False

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel() == 0:
            return x_orig
        greatest = x_orig.detach().float().amax(self.dim)
        greatest = greatest[greatest > torch.finfo(torch.float32).min / 2]  # no row of nothing but masks
        if greatest.numel() == 0:
            return x_orig
        floor = float(greatest.min()) - _NOTHING - math.log(x_orig.shape[self.dim])
        self.masked = self.masked or bool((x_orig < floor).any())
        super().forward(x_orig.detach().clamp(min=floor))
        return x_orig

    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> tuple[Tensor, Tensor]:
        # A histogram's search might clip what is masked to where it weighs something.
        low = torch.minimum(min_val, self.min_val) if self.masked else min_val
        return super()._calculate_qparams(low, max_val)


class ActivationHistogramObserver(HistogramObserver):
    """Activations after training: the range of least error, searched for once and not at each call."""

    _found: tuple[tuple[Tensor, ...], tuple[Tensor, Tensor]] | None = None

    def _non_linear_param_search(self) -> tuple[Tensor, Tensor]:
        state = (self.histogram, self.min_val, self.max_val)
        if self._found is None or not all(map(torch.equal, state, self._found[0])):
            self._found = tuple(part.clone() for part in state), super()._non_linear_param_search()
        return self._found[1]


class ScoresHistogramObserver(_Scores, ActivationHistogramObserver):
    """What a softmax reads, after training."""


class ScoresMovingAverageObserver(_Scores, MovingAverageMinMaxObserver):
    """What a softmax reads, in training."""


class PowerOfTwoHistogramObserver(_PowerOfTwo, ActivationHistogramObserver):
    """Activations after training: the range of least error, with a scale that is a power of two."""


class PowerOfTwoScoresHistogramObserver(_Scores, _PowerOfTwo, ActivationHistogramObserver):
    """What a softmax reads, after training, with a scale that is a power of two."""


class PowerOfTwoScoresMovingAverageObserver(_Scores, _PowerOfTwo, MovingAverageMinMaxObserver):
    """What a softmax reads, in training, with a scale that is a power of two."""


class WeightsPerChannelObserver(_Weights, PerChannelMinMaxObserver):
    """Weights after training."""


class WeightsMovingAveragePerChannelObserver(_Weights, MovingAveragePerChannelMinMaxObserver):
    """Weights in training."""


class PowerOfTwoPerChannelObserver(_Weights, _PowerOfTwo, PerChannelMinMaxObserver):
    """Weights after training, with scales that are powers of two."""


class PowerOfTwoMovingAverageObserver(_PowerOfTwo, MovingAverageMinMaxObserver):
    """Activations in training."""


class PowerOfTwoMovingAveragePerChannelObserver(_Weights, _PowerOfTwo, MovingAveragePerChannelMinMaxObserver):
    """Weights in training, with scales that are powers of two."""


@dataclass(frozen=True)
class Specs:
    """The specifications of one quantizer. symmetric: an activation's with the zero point 0. scores_along: of what a
    softmax over that dimension reads. pow2: scales are powers of two."""

    activation: QuantizationSpec
    symmetric: QuantizationSpec
    weight: QuantizationSpec
    transposed_weight: QuantizationSpec
    scores_along: Callable[[int], QuantizationSpec]
    bias: BiasType
    pow2: bool

    def weight_of(self, channel_axis: int) -> QuantizationSpec:
        return self.transposed_weight if channel_axis else self.weight

    def bias_of(self, node: Node, data: Node, weight: Node) -> DerivedQuantizationSpec:
        """int32 in units of the sums: scale of the activation times that of the channel's weights, no zero point."""
        return DerivedQuantizationSpec(
            derived_from=[(data, node), (weight, node)],
            derive_qparams_fn=_scale_of_sums,
            dtype=torch.int32,
            quant_min=_INT32.min,
            quant_max=_INT32.max,
            qscheme=torch.per_channel_symmetric,
            ch_axis=0,
        )

    def mask_of(self, node: Node, scores: Node) -> DerivedQuantizationSpec:
        """The mask of scores: integers for 0, and for a number so low that no masked score has weight."""
        count = max(node.meta["val"].shape[-1], 1)
        return DerivedQuantizationSpec(
            derived_from=[(scores, node)],
            derive_qparams_fn=partial(_scale_of_mask, count=count, pow2=self.pow2),
            dtype=torch.int8,
            quant_min=-128,
            quant_max=127,
            qscheme=torch.per_tensor_affine,
        )


def _scale_of_mask(observers: list[Any], count: int, pow2: bool) -> tuple[Tensor, Tensor]:
    """Its zero point is the greatest integer, and its least number below the scores' range."""
    scale = observers[0].calculate_qparams()[0].float().reshape(1)
    depth = scale * 255 + 2 * _NOTHING + math.log(count)
    mask = depth / 255
    if pow2:
        mask = torch.exp2(torch.log2(mask).ceil())
    return mask, torch.full_like(mask, 127, dtype=torch.int64)


def _scale_of_sums(observers: list[Any]) -> tuple[Tensor, Tensor]:
    data, weight = (observer.calculate_qparams()[0] for observer in observers)
    scale = data.float() * weight.float()
    return scale, torch.zeros_like(scale, dtype=torch.int64)


def specs(scales: Scales, bias: BiasType, training: bool) -> Specs:
    """The specifications for `scales` and `bias`; `training` for quantisation-aware training.

    Raises OptionError for other values.
    """
    if scales not in ("float", "pow2"):
        raise OptionError(f"scales={scales!r}: there are 'float' and 'pow2'")
    if bias not in ("float", "int32"):
        raise OptionError(f"bias={bias!r}: there are 'float' and 'int32'")
    return Specs(
        _spec("activation", _activation_observer(scales, training), torch.per_tensor_affine, None),
        _spec("activation", _activation_observer(scales, training), torch.per_tensor_symmetric, None),
        _spec("weight", _weight_observer(scales, training, 0), torch.per_channel_symmetric, 0),
        _spec("weight", _weight_observer(scales, training, 1), torch.per_channel_symmetric, 1),
        lambda dim: _spec("activation", _scores_observer(scales, training, dim), torch.per_tensor_affine, None),
        bias,
        scales == "pow2",
    )


def _spec(kind: str, observer: Callable[..., Any], scheme: torch.qscheme, axis: int | None) -> QuantizationSpec:
    low, high = _RANGE[kind]
    return QuantizationSpec(
        dtype=torch.int8,
        quant_min=low,
        quant_max=high,
        qscheme=scheme,
        ch_axis=axis,
        observer_or_fake_quant_ctr=observer,
    )


def _activation_observer(scales: Scales, training: bool) -> Callable[..., Any]:
    if training:
        # The fused one computes its scales in one operator, which knows no powers of two.
        if scales == "pow2":
            return FakeQuantize.with_args(observer=PowerOfTwoMovingAverageObserver, eps=_SMALLEST)
        return FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver, eps=_SMALLEST)
    return (PowerOfTwoHistogramObserver if scales == "pow2" else ActivationHistogramObserver).with_args(eps=_SMALLEST)


def _scores_observer(scales: Scales, training: bool, dim: int) -> Callable[..., Any]:
    if training:
        # The fused one looks at the values itself, masks and all.
        observer = PowerOfTwoScoresMovingAverageObserver if scales == "pow2" else ScoresMovingAverageObserver
        return FakeQuantize.with_args(observer=observer, eps=_SMALLEST, dim=dim)
    after = PowerOfTwoScoresHistogramObserver if scales == "pow2" else ScoresHistogramObserver
    return after.with_args(eps=_SMALLEST, dim=dim)


def _weight_observer(scales: Scales, training: bool, axis: int) -> Callable[..., Any]:
    if training:
        # torchao tells the axis only to what is called PerChannel: so neither to a fake quantizer nor to the observer
        # in it. The fused one knows no axis but the first.
        averages = (
            PowerOfTwoMovingAveragePerChannelObserver if scales == "pow2" else WeightsMovingAveragePerChannelObserver
        )
        fake = FusedMovingAvgObsFakeQuantize if scales == "float" and axis == 0 else FakeQuantize
        return fake.with_args(observer=averages, eps=_SMALLEST, ch_axis=axis)
    return (PowerOfTwoPerChannelObserver if scales == "pow2" else WeightsPerChannelObserver).with_args(eps=_SMALLEST)


_NOTHING = 8.0
"""So far below a row's largest, all that it holds weighs exp(-8), a tenth of a step of a softmax's result, together."""

_SMALLEST = 2.0**-40
"""The least scale: that of a tensor that is zero throughout."""
