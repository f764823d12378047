"""int32 biases in units of the sums: what they need of the scales of weights, and which stay in float32.

A unit is the scale of the activation times that of the channel's weights. Where one of the two is tiny, as of a channel
that training has set to zero, a bias has more units than int32 holds. The scale of such a channel's weights is raised
until the bias fits, as onnxruntime does. A sum of K products is below K / 2^16 of such a bias, so what the weights lose
is below a step of the result.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torchao.quantization.pt2e import DerivedObserverOrFakeQuantize

from fpga_dynamo.quantize.parameters import constant

LARGEST = 2.0**30
"""Units of the largest bias: as many again are left for the sum of products."""


def raised(scale: Tensor, bias: Tensor, data_scale: Tensor, power: bool) -> Tensor:
    """Scales of weights with which `bias` has at most LARGEST units; powers of two if `power`."""
    least = bias.detach().double().abs() / (LARGEST * data_scale.double())
    if power:
        mantissa, exponent = torch.frexp(least)
        least = torch.ldexp(torch.ones_like(least), torch.where(mantissa == 0.5, exponent - 1, exponent))
        least = torch.where(mantissa == 0, 0.0, least)
    # No scale beyond float32 is used: UnitsOfSums then finds that the bias does not fit.
    least = torch.where(least <= torch.finfo(scale.dtype).max, least, 0.0)
    return torch.maximum(scale, least.to(scale.dtype))


class UnitsOfSums(DerivedObserverOrFakeQuantize):
    """A bias in units of the sums, which torchao converts to int32; or, where it does not fit, to nothing."""

    def tie(self, name: str, bias: Tensor) -> None:
        self.name = name
        self._bias = (bias,)  # in a tuple, since it is no parameter of this module
        self._warned = False

    @property
    def dtype(self) -> torch.dtype:
        """int32; float32, for which torchao takes the observer out, if the bias does not fit."""
        return torch.int32 if not hasattr(self, "_bias") or self._fits() else torch.float32

    @dtype.setter
    def dtype(self, given: torch.dtype) -> None:
        assert given == torch.int32

    def _fits(self) -> bool:
        (bias,) = self._bias
        units = bias.detach().double().abs() / self.calculate_qparams()[0].double()
        fits = bool((units <= 2 * LARGEST - 1).all())
        if not fits and not self._warned:
            self._warned = True
            warnings.warn(
                f"the bias of {self.name} stays in float32: int32 at the scale of its sums cannot represent "
                f"{float(bias.detach().abs().max()):g}, whatever the weights' scale",
                RuntimeWarning,
                stacklevel=2,
            )
        return fits


def tie_scales(model: GraphModule, observers: dict[Any, Any]) -> None:
    """Makes each int32 bias's observer one of UnitsOfSums, and tells that of the weight of it, in place."""
    for edge, observer in list(observers.items()):
        if type(observer) is not DerivedObserverOrFakeQuantize or not isinstance(edge, tuple):
            continue
        bias, node = edge
        value = constant(model, bias)
        if value is None or observer.dtype is not torch.int32:
            continue
        data, weight = observer.obs_or_fqs
        units = UnitsOfSums(
            observer.dtype, [data, weight], observer.derive_qparams_fn, observer.quant_min, observer.quant_max,
            observer.qscheme, observer.ch_axis,
        )  # fmt: skip
        units.tie(node.name, value)
        _observer(weight).bias_of = (value, data)
        observers[edge] = units


def _observer(given: Any) -> Any:
    """The observer itself, of one or of a fake quantizer."""
    return getattr(given, "activation_post_process", given)
