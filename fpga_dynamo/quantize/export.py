"""A model as a graph of its own: what torch.export makes of it, with nothing of the model's that a run could change."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torchao.quantization.pt2e import FakeQuantizeBase, ObserverBase

from fpga_dynamo.errors import OptionError
from fpga_dynamo.quantize.capture import is_code

Inputs = Any
"""What a model is called with: a tensor, a tuple or list of arguments, or a dictionary of keyword arguments."""

Model = nn.Module | ExportedProgram
"""What can be quantised: a module, a graph that ``torch.export.export(...).module()`` returned, or its program."""


def exported(model: Model, inputs: Inputs, dynamic_shapes: Any = None) -> GraphModule:
    """A graph of `model` in eval mode, with buffers of its own; an exported graph or program is copied as it is.

    Raises OptionError for a model that is quantised already, and for what is no module.
    """
    args, kwargs = arguments(inputs)
    graph: Any
    if isinstance(model, ExportedProgram):
        graph = model.module()
    elif not isinstance(model, nn.Module):
        raise OptionError(f"unsupported model: expected a module or an ExportedProgram, got {type(model).__name__}")
    elif is_exported(model):
        graph = copy.deepcopy(model)
    else:
        with _eval_mode(model):
            graph = torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes).module()
    assert isinstance(graph, GraphModule)
    _refuse_quantised(graph)
    _copy_buffers(graph)
    own_parameters(graph)
    return graph


def is_exported(model: object) -> bool:
    """Whether a module is a graph of torch.export, which has one mode only."""
    return isinstance(model, GraphModule) and all(
        "val" in node.meta for node in model.graph.nodes if node.op == "placeholder"
    )


def arguments(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of one call."""
    if isinstance(inputs, dict):
        return (), inputs
    if isinstance(inputs, torch.Tensor):
        return (inputs,), {}
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), {}
    raise OptionError(f"a call's inputs must be a tensor, a tuple or a dictionary, got {type(inputs).__name__}")


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """`model` in eval mode; every module of it has its own mode back afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    # The fast path of nn.TransformerEncoder is one operator that nothing can be annotated in.
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        model.eval()
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        torch.backends.mha.set_fastpath_enabled(fast)


def _refuse_quantised(graph: GraphModule) -> None:
    if any(is_code(node) for node in graph.graph.nodes):
        raise OptionError("the model is already quantized: pass the original float model")
    if any(isinstance(module, (ObserverBase, FakeQuantizeBase)) for module in graph.modules()):
        raise OptionError("the model is already prepared for quantization: convert it, or pass the float model")


def own_parameters(graph: GraphModule, copied: bool = False) -> None:
    """Gives a graph parameters of its own, in place: of the same memory, or copies."""
    own: dict[int, nn.Parameter] = {}
    for module in graph.modules():
        for name, given in module._parameters.items():
            if given is not None:
                data = given.detach().clone() if copied and id(given) not in own else given.detach()
                own.setdefault(id(given), nn.Parameter(data, requires_grad=given.requires_grad))
                module._parameters[name] = own[id(given)]


def _copy_buffers(graph: GraphModule) -> None:
    """Gives a graph buffers of its own, since a run may write to them and the model has to keep its state."""
    copies: dict[int, torch.Tensor] = {}
    for module in graph.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = copies.setdefault(id(buffer), buffer.detach().clone())
