"""Quantisation in one line: export, prepare, calibrate, convert."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from types import MethodType
from typing import Any

import torch
from rich.progress import track
from torch import nn
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer

from fpga_dynamo.errors import OptionError
from fpga_dynamo.quantize.export import Inputs, Model, arguments, exported, own_parameters
from fpga_dynamo.quantize.norms import fold_norms
from fpga_dynamo.quantize.operators import CAPABILITIES
from fpga_dynamo.quantize.quantizer import FPGAQuantizer
from fpga_dynamo.quantize.ranges import flat_inputs, has_cats, separate_cats
from fpga_dynamo.quantize.specs import BiasType, Scales

RANGES = 32
"""Calls whose ranges decide which parts of a cat share a scale."""


def quantize(
    model: Model,
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

    model: a module; or what ``torch.export.export`` makes of one, its program or ``program.module()``, in whatever mode
    it was exported. The model itself, its buffers and the modes of its modules stay as they are.

    calibration: what the model is called with, some hundred times at best: tensors, tuples of arguments, or
    dictionaries of keyword arguments. Of a loader that gives labels too, pass ``(image for image, label in loader)``.
    scales, bias, keep_float, capabilities: see :class:`FPGAQuantizer`. dynamic_shapes: as of ``torch.export``.
    progress: shows a bar on stderr's terminal while calibrating.

    Warns of products that stay in float32 though no option says so, with their share of the multiplications.

    Raises OptionError where `calibration` is empty, no list of inputs or leads to values that are not finite, and for a
    model that has no float32 parameter but others; what ``torch.export`` cannot export raises its error.
    """
    if isinstance(calibration, (torch.Tensor, dict)) or not isinstance(calibration, Iterable):
        kind = type(calibration).__name__
        raise OptionError(f"calibration must be a list of model inputs, got a {kind}: pass [inputs, ...]")
    _refuse_types(model)
    data = iter(calibration)
    first = next(data, None)
    if first is None:
        raise OptionError("calibration is empty: pass the model's inputs, one item for each call")
    graph = exported(model, first, dynamic_shapes)
    separate: list[str] = []
    if "cat" in capabilities and has_cats(graph):
        early = [first, *itertools.islice(data, RANGES - 1)]
        first, data = early[0], itertools.chain(early[1:], data)
        separate = separate_cats(graph, (flat_inputs(graph, *arguments(inputs)) for inputs in early))
    quantizer = FPGAQuantizer(
        scales, bias=bias, keep_float=keep_float, capabilities=capabilities, separate_cats=separate
    )
    prepared = prepare(graph, quantizer)
    if quantizer.multiplications is not None and (left := quantizer.multiplications.warning()):
        warnings.warn(left, RuntimeWarning, stacklevel=2)
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
                    f"calibration: item {number} produces non-finite values, which have no range"
                ) from error
    converted = convert_pt2e(prepared)
    _fix_mode(converted)
    own_parameters(converted, copied=True)
    # Rounding has no gradient. A bias that trains is no constant, and a linear layer in bytes adds nothing else.
    return converted.requires_grad_(False)


def prepare(graph: GraphModule, quantizer: Quantizer) -> GraphModule:
    """torchao's ``prepare_pt2e``, but batch norms are folded only where nothing else changes; changes `graph`."""
    fold_norms(graph)
    return prepare_pt2e(graph, quantizer)


def _fix_mode(graph: GraphModule) -> None:
    """Leaves norms and dropouts as the model has them, whatever mode is asked for: a quantised graph has only one."""
    for module in graph.modules():
        module.training = False
    vars(graph).update(train=MethodType(_train, graph), eval=MethodType(_eval, graph))


def _train(graph: GraphModule, mode: bool = True) -> GraphModule:
    if mode:
        raise OptionError(
            "a quantized graph has no training mode: train the float model or a graph of prepare_qat_pt2e"
        )
    return graph


def _eval(graph: GraphModule) -> GraphModule:
    return graph


def _refuse_types(model: Model) -> None:
    if not isinstance(model, (nn.Module, ExportedProgram)):
        raise OptionError(f"unsupported model: expected a module or an ExportedProgram, got {type(model).__name__}")
    types = {parameter.dtype for parameter in model.parameters() if parameter.dtype.is_floating_point}
    if types and torch.float32 not in types:
        given = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in types))
        raise OptionError(f"the model is {given}; quantization supports float32: pass model.float()")


def call(model: nn.Module, inputs: Inputs) -> Any:
    args, kwargs = arguments(inputs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*must run observer before calling calculate_qparams.*")
        return model(*args, **kwargs)


def _chain(first: Inputs, rest: Iterator[Inputs]) -> Iterator[Inputs]:
    yield first
    yield from rest
