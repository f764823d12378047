"""weights.json: how weights.bin follows from a state_dict, so that new parameters need no new export.

Each pack is a packing function with settings, applied to expressions: steps of ATen operators over entries of the
state_dict. Only a process with PyTorch reads the file; the run-time library gets the packed weights.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import Graph, Node

import fpga_dynamo.lowering.order  # noqa: F401  (imports the packing functions)
from fpga_dynamo.cache.plain import CorruptError, UnstorableError, from_plain, to_plain
from fpga_dynamo.cache.programs import packing_function
from fpga_dynamo.deployment.errors import ModelFileError
from fpga_dynamo.deployment.packed_weights import Layout, write_pack
from fpga_dynamo.ir.elements import ELEMENTS
from fpga_dynamo.ir.weights import Expression, Pack

FILE = "weights.json"

_NAMESPACES = ("aten", "prims", "quantized_decomposed")
"""Of operators that an expression may use."""


def recipe(layout: Layout, names: Mapping[Node, str], constants: Sequence[tuple[Node, torch.Tensor]]) -> dict[str, Any]:
    """The recipe as JSON. names: of each parameter and buffer its name in the state_dict.

    A pack of anything else stays as it was exported.
    """
    sources = list(dict.fromkeys(names.values()))
    steps: list[list[Any]] = []
    places = {node: sources.index(name) for node, name in names.items()}

    def place(node: Node) -> int:
        if node not in places:
            if node.op != "call_function":
                raise UnstorableError(f"{node}, which is no entry of the state_dict")
            for needed in node.all_input_nodes:
                place(needed)
            arguments = to_plain(tuple(node.args), place), to_plain(dict(node.kwargs), place)
            target = "getitem" if node.target is operator.getitem else str(node.target)
            steps.append([target, *arguments])
            places[node] = len(sources) + len(steps) - 1
        return places[node]

    packs = []
    for pack, begin in layout.packs:
        known = len(steps)
        try:
            function = f"{pack.layout.__module__}.{pack.layout.__qualname__}"
            operands = [None if e is None else place(e.node) for e in pack.operands]
            packs.append([function, to_plain(pack.params, place), operands, pack.count, pack.element.name, begin])
        except UnstorableError:
            del steps[known:]
            places = {node: at for node, at in places.items() if at < len(sources) + known}
    held = [[names[node], begin] for (node, _), begin in zip(constants, layout.constants, strict=True) if node in names]
    shapes = {name: list(tensor) for name, tensor in _shapes(names).items()}
    return {"sources": [[name, shapes[name]] for name in sources], "steps": steps, "packs": packs, "constants": held}


def _shapes(names: Mapping[Node, str]) -> dict[str, torch.Size]:
    return {name: node.meta["val"].shape for node, name in names.items()}


def packed(directory: Path, state: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The content of weights.bin for other parameters of the same model.

    Raises ValueError for a state_dict without an entry of the model, or with one of another shape, and
    :class:`ModelFileError` for a directory whose recipe cannot be read.
    """
    try:
        about = json.loads((directory / FILE).read_text(encoding="utf-8"))
        made = torch.frombuffer(bytearray((directory / "weights.bin").read_bytes()), dtype=torch.uint8)
        sources, packs, constants = about["sources"], about["packs"], about["constants"]
        graph, nodes = _graph(sources, about["steps"])
    except OSError as error:
        raise ModelFileError(f"'{error.filename}' cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, AttributeError, CorruptError) as error:
        raise ModelFileError(f"'{directory / FILE}' is damaged: {error}") from error
    given = {node: _entry(state, name, shape) for node, (name, shape) in zip(nodes, sources, strict=False)}
    for function, params, operands, count, element, begin in packs:
        expressions = tuple(None if at is None else Expression(nodes[at], "", tuple(given)) for at in operands)
        settings = from_plain(params, nodes)
        write_pack(
            made, Pack(packing_function(function), settings, expressions, count, ELEMENTS[element]), begin, given
        )
    for name, begin in constants:
        dense = state[name].detach().contiguous().flatten().view(torch.uint8)
        made[begin : begin + dense.numel()] = dense
    del graph  # which the nodes need as long as they are evaluated
    return made


def _graph(sources: Sequence[Any], steps: Sequence[Any]) -> tuple[Graph, list[Node]]:
    graph = Graph()
    nodes = [graph.placeholder(f"source{i}") for i in range(len(sources))]
    for target, args, kwargs in steps:
        nodes.append(graph.call_function(_operator(target), from_plain(args, nodes), from_plain(kwargs, nodes)))
    return graph, nodes


def _operator(name: str) -> Any:
    if name == "getitem":
        return operator.getitem
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    if namespace not in _NAMESPACES:
        raise CorruptError(f"operator {name:.80}")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def _entry(state: Mapping[str, torch.Tensor], name: str, shape: Sequence[int]) -> torch.Tensor:
    if name not in state:
        raise ValueError(f"the state_dict has no entry '{name}', which the model needs")
    if list(state[name].shape) != list(shape):
        raise ValueError(f"entry '{name}' must have shape {tuple(shape)}, not {tuple(state[name].shape)}")
    return state[name].detach()
