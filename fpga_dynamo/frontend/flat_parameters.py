"""An exported model's parameters as one tensor for each dtype: Dynamo then has few of them to look at before each call.

Dynamo's guards look at every parameter, and its code hands each one over. A quantised ResNet-50 has 216 of them
(weights, their scales and zero points, biases), and of the modules that they are found by little is in a CPU's caches
after a network has run. In the joined model each is a view of one tensor, which compiled code has no work with.
"""

from __future__ import annotations

import copy
import operator
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.graph import aten
from fpga_dynamo.torch_internals.dispatch import OpOverload, schema

JOINED = "joined_"
"""What the buffers' names begin with; then the dtype's name."""
_ALIGNMENT = 64
"""Bytes: vector loads of any host."""


def join_parameters(module: torch.nn.Module) -> GraphModule:
    """A copy of an exported model, for inference, whose parameters and buffers are views of one buffer for each dtype.

    module: of ``torch.export.export(model, inputs).module()`` or ``fpga_dynamo.quantize.quantize``. Its results are the
    same, to the bit. What the graph writes to, and what is not a dense, contiguous tensor, stays as it is. The joined
    numbers are copies, without gradients. ``state_dict`` and ``load_state_dict`` have the names of the model given.

    Raises :class:`FpgaError` for a module that is no graph.
    """
    if not isinstance(module, GraphModule):
        raise FpgaError(
            "join_parameters expects the graph of an exported model, torch.export.export(model, inputs).module(), not "
            f"{type(module).__name__}"
        )
    joined = copy.deepcopy(module)
    groups: dict[torch.dtype, dict[int, _Member]] = defaultdict(dict)
    for node in joined.graph.find_nodes(op="get_attr"):
        tensor = _tensor(joined, node.target)
        if tensor is not None:
            groups[tensor.dtype].setdefault(id(tensor), _Member(tensor)).nodes.append(node)
    for dtype, members in groups.items():
        ours = [member for member in members.values() if not member.is_written]
        if len(ours) > 1:
            _join(joined, dtype, ours)
    joined.delete_all_unused_submodules()
    joined.recompile()
    return joined


@dataclass(frozen=True)
class _Place:
    """Where a tensor lies in a joined one."""

    begin: int
    shape: torch.Size

    def of(self, whole: Tensor) -> Tensor:
        return whole[self.begin : self.begin + self.shape.numel()].view(self.shape)


class _Apart:
    """A hook behind `state_dict`: the joined tensor's parts by their names."""

    def __init__(self, joined: str, places: dict[str, _Place]) -> None:
        self._joined, self._places = joined, places

    def __call__(self, module: torch.nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        whole = state.pop(f"{prefix}{self._joined}", None)
        if whole is not None:
            state.update({f"{prefix}{name}": place.of(whole) for name, place in self._places.items()})


class _Together:
    """A hook in front of `load_state_dict`: the joined tensor, of the parts that there are; of others it keeps what it
    has, and they are reported as missing."""

    def __init__(self, joined: str, places: dict[str, _Place], like: Tensor) -> None:
        self._joined, self._places, self._size, self._dtype = joined, places, like.numel(), like.dtype

    def __call__(
        self, module: torch.nn.Module, state: dict[str, Any], prefix: str, metadata: Any, strict: bool,
        missing: list[str], unexpected: list[str], errors: list[str],
    ) -> None:  # fmt: skip
        if f"{prefix}{self._joined}" in state:
            return
        mine = getattr(module, self._joined, None)
        whole = torch.zeros(self._size, dtype=self._dtype) if mine is None else mine.detach().clone()
        for name, place in self._places.items():
            part = state.pop(f"{prefix}{name}", None)
            if part is None:
                missing.append(f"{prefix}{name}")
            elif part.shape != place.shape:
                errors.append(f"size mismatch for {prefix}{name}: got {part.shape}, the model has {place.shape}.")
            else:
                place.of(whole).copy_(part)
        state[f"{prefix}{self._joined}"] = whole


@dataclass
class _Member:
    """A tensor, perhaps of several names, and the nodes that read it."""

    tensor: Tensor
    nodes: list[Node] = field(default_factory=list)

    @property
    def is_written(self) -> bool:
        return any(map(_is_written, self.nodes))


def _is_written(node: Node) -> bool:
    """Whether an operator writes to a value, or to a view of it; what is no operator of PyTorch's might."""
    for user in node.users:
        if user.target is operator.getitem:
            written = _is_written(user)
        elif not isinstance(user.target, OpOverload):
            written = True
        else:
            of = schema(user.target)
            written = of.is_mutable or (any(result.alias_info for result in of.returns) and _is_written(user))
        if written:
            return True
    return False


def _tensor(module: GraphModule, name: Any) -> Tensor | None:
    """The parameter or buffer of that name, if it can be part of another tensor."""
    path, _, last = name.rpartition(".")
    found = getattr(module.get_submodule(path), last, None)
    if not isinstance(found, Tensor) or type(found) not in (Tensor, torch.nn.Parameter):
        return None
    dense = found.layout is torch.strided and found.is_contiguous() and found.device.type == "cpu"
    return found if dense else None


def _join(module: GraphModule, dtype: torch.dtype, members: list[_Member]) -> None:
    step = max(1, _ALIGNMENT // dtype.itemsize)
    begins = list(accumulate((-(-member.tensor.numel() // step) * step for member in members), initial=0))
    whole = torch.zeros(begins[-1], dtype=dtype)
    name = JOINED + str(dtype).removeprefix("torch.")
    while hasattr(module, name):
        name += "_"
    module.register_buffer(name, whole)
    places: dict[str, _Place] = {}
    first = next(node for node in module.graph.nodes if node.op != "placeholder")
    with module.graph.inserting_before(first):
        source = module.graph.get_attr(name)
        for begin, member in zip(begins, members, strict=False):
            tensor = member.tensor
            end = begin + tensor.numel()
            places |= {str(node.target): _Place(begin, tensor.shape) for node in member.nodes}
            whole[begin:end] = tensor.detach().flatten()
            part = module.graph.call_function(aten.slice.Tensor, (source, 0, begin, end))
            view = module.graph.call_function(aten.view.default, (part, list(tensor.shape)))
            for node in member.nodes:
                node.replace_all_uses_with(view)
    for node in (node for member in members for node in member.nodes):
        path, _, last = str(node.target).rpartition(".")
        module.graph.erase_node(node)
        delattr(module.get_submodule(path), last)
    module.register_state_dict_post_hook(_Apart(name, places))
    module.register_load_state_dict_pre_hook(_Together(name, places, whole))
