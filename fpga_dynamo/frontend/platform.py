"""The option `platform`: a model compiled as for a board, with the recipe that is the board's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule

from fpga_dynamo.errors import OptionError
from fpga_dynamo.options import Options
from fpga_dynamo.torch_internals.device import NAME
from xclbin_build import BuildError
from xclbin_build import platform as platforms
from xclbin_build import recipe as recipes


def with_recipe(options: Options, gm: GraphModule, inputs: Sequence[Any]) -> Options:
    """Options that name the recipe of their platform whose engine computes in the graph's element type.

    A platform without an engine of that type has its first recipe. A recipe in the options stays.
    Raises :class:`OptionError` for an unknown platform, and one without a recipe.
    """
    if options.platform is None or options.recipe is not None:
        return options
    try:
        name = platforms.load(options.platform).name
        return replace(options, recipe=recipes.own(name, element_of(gm, inputs)))
    except BuildError as error:
        raise OptionError(f"option 'platform': {error}") from error


def with_card(options: Options, given: Mapping[str, Any] | None, inputs: Sequence[Any]) -> Options:
    """Options that name the card on which the graph's device tensors lie, unless the user's options name one."""
    if given is not None and "device" in given:
        return options
    tensors = (value for value in inputs if isinstance(value, torch.Tensor))
    index = next((tensor.device.index for tensor in tensors if tensor.device.type == NAME), None)
    return options if index is None else replace(options, device=index)


def element_of(gm: GraphModule, inputs: Sequence[Any]) -> str:
    """The element type, as recipes name it, that a graph of Dynamo computes in: int8, bfloat16 or float32."""
    targets = {node.target for node in gm.graph.nodes if node.op == "call_function"}
    if any(getattr(target, "namespace", "") == "quantized_decomposed" for target in targets):
        return "int8"
    tensors = [*gm.parameters(), *gm.buffers(), *(given for given in inputs if isinstance(given, torch.Tensor))]
    return "bfloat16" if any(tensor.dtype is torch.bfloat16 for tensor in tensors) else "float32"
