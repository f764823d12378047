"""ATen graphs as plain data: what keys are made of, and what a graph is rebuilt from when tracing is skipped.

A node is [op, name, target, args, kwargs, value]; `value` says what the node's tensor is like, which tensors share its
memory, and for a constant also what is in it. Where a node came from in the user's code is no part of it.
"""

from __future__ import annotations

import hashlib
import operator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from fpga_dynamo.cache.plain import CorruptError, UnstorableError, from_plain, to_plain
from fpga_dynamo.ir.graph import DEVICES
from fpga_dynamo.ir.plain_kernels import plain_kernel
from fpga_dynamo.torch_internals.dispatch import OpOverload, without_modes
from fpga_dynamo.torch_internals.tensors import storage_key
from fpga_dynamo.torch_internals.tracing import FakeTensor, FakeTensorMode

PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, FakeTensor)
REBUILDABLE = ("aten", "prims")
"""Namespaces whose operators a graph may be rebuilt with: those that come with PyTorch."""


def graph_to_plain(module: GraphModule) -> list[Any]:
    """Every node of the graph, in order. Raises :class:`UnstorableError` if it has what the cache cannot write."""
    numbers: dict[Node, int] = {}
    storages: dict[int, int] = {}
    plain = []
    for node in module.graph.nodes:
        numbers[node] = len(numbers)
        plain.append(
            [
                node.op,
                node.name,
                _target_name(node),
                to_plain(node.args, numbers.__getitem__),
                to_plain(node.kwargs, numbers.__getitem__),
                _constant(module, node) if node.op == "get_attr" else describe(node.meta.get("val"), storages),
            ]
        )
    return plain


def _target_name(node: Node) -> str:
    if node.op in ("placeholder", "output"):
        return ""
    if node.op == "get_attr":
        return str(node.target)
    if plain_kernel(node) is not None:  # whether it is a launch depends on a source file that no key knows
        raise UnstorableError(f"a call of the plain kernel {node.target}")
    if node.op == "call_function" and isinstance(node.target, OpOverload):
        return str(node.target)
    if node.target is operator.getitem:
        return "getitem"
    raise UnstorableError(f"a call of {node.target}")


def describe(value: Any, storages: dict[int, int] | None = None) -> Any:
    """What is known of a tensor (or a tuple of them) without looking into it.

    `storages` numbers the memories that have been seen, by their addresses. Raises :class:`UnstorableError` for
    symbolic sizes and for tensors that are more than memory with strides.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, (tuple, list)):
        return [describe(item, storages) for item in value]
    if type(value) not in PLAIN_TENSORS or value.layout is not torch.strided:
        raise UnstorableError(f"a value of type {type(value).__name__}")
    sizes, strides, offset = list(value.shape), list(value.stride()), value.storage_offset()
    if not all(type(number) is int for number in (*sizes, *strides, offset)):
        raise UnstorableError("a size that is not known before the call")
    flags = [value.requires_grad, value.is_conj(), value.is_neg()]
    memory = None if storages is None else storages.setdefault(storage_key(value), len(storages))
    return {"dtype": str(value.dtype), "device": str(value.device), "is": [sizes, strides, offset, flags, memory]}


def _constant(module: GraphModule, node: Node) -> Any:
    tensor = operator.attrgetter(str(node.target))(module)
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type not in DEVICES:
        raise UnstorableError(f"an attribute of type {type(tensor).__name__}")
    with without_modes():
        content = tensor.detach().resolve_conj().resolve_neg().contiguous().flatten().view(torch.uint8).cpu()
        return [describe(tensor), hashlib.sha256(content.numpy().data).hexdigest()]


def graph_from_plain(plain: Any) -> GraphModule:
    """The graph that was written, on fake tensors, if it has no constants and no operators but PyTorch's.

    Raises :class:`CorruptError` for anything else.
    """
    graph = Graph()
    nodes: list[Node] = []
    fakes = _Fakes()
    try:
        for op, name, target, args, kwargs, value in plain:
            node = graph.create_node(
                op, _target(op, name, target), from_plain(args, nodes), from_plain(kwargs, nodes), name
            )
            if node.name != name:
                raise CorruptError(f"two nodes are called {name!r}")
            node.meta["val"] = fakes.make(value)
            nodes.append(node)
        if not nodes or nodes[-1].op != "output":
            raise CorruptError("a graph without an output")
        return GraphModule(torch.nn.Module(), graph)
    except CorruptError:
        raise
    except Exception as error:  # any exception type: FX compiles the source text that it reads
        raise CorruptError(f"not a graph: {error}") from error


def is_rebuildable(plain: list[Any]) -> bool:
    """Whether :func:`graph_from_plain` takes it."""
    ours = tuple(f"{namespace}." for namespace in REBUILDABLE)
    return all(
        op in ("placeholder", "output") or (op == "call_function" and (target == "getitem" or target.startswith(ours)))
        for op, _, target, *_ in plain
    )


def _target(op: str, name: str, target: str) -> Any:
    if op in ("placeholder", "output"):
        return name
    if op != "call_function":
        raise CorruptError(f"a node of kind {op!r:.40}")
    if target == "getitem":
        return operator.getitem
    namespace, _, rest = target.partition(".")
    packet, _, overload = rest.partition(".")
    if namespace not in REBUILDABLE:
        raise CorruptError(f"an operator {target!r:.80}")
    found = getattr(getattr(getattr(torch.ops, namespace), packet, None), overload, None)
    if not isinstance(found, OpOverload) or str(found) != target:
        raise CorruptError(f"no operator {target!r:.80}")
    return found


class _Fakes:
    """Tensors without data that are what :func:`describe` saw, of one graph.

    They are on the device that they were on: passes make nodes whose result goes there.
    """

    def __init__(self) -> None:
        self._mode = FakeTensorMode()
        self._storages: dict[int, torch.Tensor] = {}

    def make(self, value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(self.make, value))
        if not isinstance(value, dict):
            return value
        sizes, strides, offset, _, memory = value["is"]
        dtype = from_plain(["dtype", value["dtype"].removeprefix("torch.")], ())
        first = self._storages.get(memory)
        if first is None:
            made = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
            self._storages[memory] = made
            if offset:
                made = made.as_strided(sizes, strides, offset)
        else:
            made = torch.empty(0, dtype=dtype, device="meta").set_(first.untyped_storage(), offset, sizes, strides)
        return FakeTensor(self._mode, made, torch.device(value["device"]))
