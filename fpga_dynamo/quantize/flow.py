"""Quantisation in one line: export, prepare, calibrate, convert."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import torch
from rich.progress import track
from torch import nn
from torch.fx import GraphModule
from torchao.quantization.pt2e import allow_exported_model_train_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from fpga_dynamo.errors import OptionError
from fpga_dynamo.quantize.operators import CAPABILITIES
from fpga_dynamo.quantize.quantizer import FPGAQuantizer
from fpga_dynamo.quantize.specs import BiasType, Scales

Inputs = Any
"""What a model is called with: a tensor, a tuple or list of arguments, or a dictionary of keyword arguments."""


def quantize(
    model: nn.Module,
    calibration: Iterable[Inputs],
    scales: Scales = "float",
    *,
    bias: BiasType = "float",
    keep_float: Iterable[str] = (),
    capabilities: Collection[str] = CAPABILITIES,
    dynamic_shapes: Any = None,
    progress: bool = True,
) -> GraphModule:
    """`model`, in eval mode, as a graph in 8 bits, ready for ``torch.compile(..., backend="fpga")``.

    calibration: what the model is called with, some hundred times at best: tensors, tuples of arguments, or
    dictionaries of keyword arguments. Of a loader that gives labels too, pass ``(image for image, label in loader)``.
    scales, bias, keep_float, capabilities: see :class:`FPGAQuantizer`. dynamic_shapes: as of ``torch.export``.
    progress: shows a bar on stderr's terminal while calibrating.

    Raises OptionError where `calibration` is empty, no list of inputs or leads to values that are not finite, and for a
    model that has no float32 parameter but others; what ``torch.export`` cannot export raises its error.
    """
    if isinstance(calibration, (torch.Tensor, dict)) or not isinstance(calibration, Iterable):
        kind = type(calibration).__name__
        raise OptionError(f"calibration is a list of what the model is called with, not a {kind}: give [inputs, ...]")
    _refuse_types(model)
    data = iter(calibration)
    first = next(data, None)
    if first is None:
        raise OptionError("calibration is empty: give the model's inputs, one item for each call")
    quantizer = FPGAQuantizer(scales, bias=bias, keep_float=keep_float, capabilities=capabilities)
    prepared = prepare_pt2e(exported(model, first, dynamic_shapes), quantizer)
    total = len(calibration) if isinstance(calibration, Sequence) else None
    with torch.no_grad():
        bar = track(_chain(first, data), "calibrating", total=total, disable=not progress, transient=True)
        for number, inputs in enumerate(bar):
            try:
                call(prepared, inputs)
            except RuntimeError as error:
                if "not finite" not in str(error):  # of a histogram's range
                    raise
                raise OptionError(
                    f"calibration: item {number} leads to values that are not finite, and have no range"
                ) from error
    converted = convert_pt2e(prepared)
    # Its eval() only switches dropout and batch norm, and returns nothing.
    allow_exported_model_train_eval(converted)
    converted.eval()
    # Rounding has no gradient. A bias that trains is no constant, and a linear layer in bytes adds nothing else.
    return converted.requires_grad_(False)


def _refuse_types(model: nn.Module) -> None:
    types = {parameter.dtype for parameter in model.parameters() if parameter.dtype.is_floating_point}
    if types and torch.float32 not in types:
        given = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in types))
        raise OptionError(f"the model is {given}, and float32 is what can be quantised: give model.float()")


def exported(model: nn.Module, inputs: Inputs, dynamic_shapes: Any = None) -> GraphModule:
    """The graph that torch.export makes of `model` in eval mode."""
    args, kwargs = arguments(inputs)
    was_training = model.training
    # The fast path of nn.TransformerEncoder is one operator that nothing can be annotated in.
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        model.eval()
        return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes).module()
    finally:
        model.train(was_training)
        torch.backends.mha.set_fastpath_enabled(fast)


def arguments(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of one call."""
    if isinstance(inputs, dict):
        return (), inputs
    if isinstance(inputs, torch.Tensor):
        return (inputs,), {}
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), {}
    raise OptionError(f"a call's inputs are a tensor, a tuple or a dictionary, not {type(inputs).__name__}")


def call(model: nn.Module, inputs: Inputs) -> Any:
    args, kwargs = arguments(inputs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*must run observer before calling calculate_qparams.*")
        return model(*args, **kwargs)


def _chain(first: Inputs, rest: Iterator[Inputs]) -> Iterator[Inputs]:
    yield first
    yield from rest
