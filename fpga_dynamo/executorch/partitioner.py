"""The partitioner: which nodes of an edge program run on the card."""

from __future__ import annotations

import json
import logging
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from fpga_dynamo.deployment.document import eager_nodes
from fpga_dynamo.deployment.errors import ExportError
from fpga_dynamo.deployment.export import lowered, parse_options
from fpga_dynamo.executorch.backend import FpgaBackend, xclbin_of
from fpga_dynamo.executorch.edge import captured, edge_node, is_copied_view
from fpga_dynamo.ir.graph import describe
from fpga_dynamo.torch_internals.dispatch import OpOverload
from fpga_dynamo.torch_internals.partitions import CapabilityBasedPartitioner, OperatorSupportBase, Partition

log = logging.getLogger(__name__)


class FpgaPartitioner(Partitioner):
    """Gives the card all nodes that it can compute, in as few parts as their dependencies allow.

    options: as of :func:`fpga_dynamo.export`: the xclbin, platform or recipe, and how parts are lowered. The default of
    ``partition`` is ``greedy``; with ``cost``, nodes that are faster elsewhere stay with executorch.
    device, timeout: the index of the card, and the seconds that a launch may take; the file has them.

    reasons: of each edge node of the latest program that stays with executorch, why, by name.
    Raises OptionError for unknown options, ExportError for those that have no effect here.
    """

    def __init__(self, options: Mapping[str, Any] | None = None, *, device: int = 0, timeout: float = 60.0) -> None:
        given = dict(options or {})
        parse_options(given)
        specs = {"options": given, "device": device, "timeout_ms": max(1, int(timeout * 1000))}
        self.delegation_spec = DelegationSpec(
            FpgaBackend.__name__, [CompileSpec(key, json.dumps(value).encode()) for key, value in specs.items()]
        )
        self._options = given
        self.reasons: dict[str, str] = {}

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[OpOverload], Callable[[Node], bool] | None]:
        """The operators that the card computes wherever the program has them; executorch takes the others apart."""
        reasons = self._reasons(ep)
        nodes = [node for node in ep.graph.nodes if isinstance(node.target, OpOverload)]
        left = {node.target for node in nodes if node.name in reasons or not _has_tensors(node)}
        return [one for one in dict.fromkeys(node.target for node in nodes) if one not in left], None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        self.reasons = self._reasons(exported_program)
        tags = {}
        for part in filter(_computes, _partitions(exported_program.graph_module, self.reasons)):
            tag = f"fpga_{part.id}"
            tags[tag] = self.delegation_spec
            for node in part.nodes:
                node.meta["delegation_tag"] = tag
        tag_constant_data(exported_program)
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)

    def _reasons(self, program: ExportedProgram) -> dict[str, str]:
        """Of each edge node that does not run on the card, why."""
        computing = [node for node in program.graph.nodes if node.op == "call_function"]
        try:
            graph = captured(program, "a program of executorch")
            made, _ = lowered(graph, *xclbin_of(self._options, program))
        except ExportError as error:
            log.warning("no part of the program runs on the card: %s", error)
            return dict.fromkeys((node.name for node in computing), str(error))
        found: dict[str, str] = {}
        for node, reason in eager_nodes(made).items():
            for name in _edge_nodes(node):
                found[name] = f"{describe(node)}: {reason}"
        return found


def _partitions(module: GraphModule, reasons: dict[str, str]) -> list[Partition]:
    """Parts of all nodes without a reason. Adds a reason for nodes that use a size that is needed elsewhere, too.

    A delegate's inputs and results are tensors, so it has to compute the sizes that it uses, and nobody else may.
    """
    while True:
        found = CapabilityBasedPartitioner(
            module, _Supported(reasons), allows_single_node_partition=True
        ).propose_partitions()
        part_of = {node: part for part in found for node in part.nodes}
        shared = [
            (node, user)
            for node in module.graph.nodes
            if node.op == "call_function" and not _has_tensors(node)
            for user in node.users
            if part_of.get(node) is not part_of.get(user)
        ]
        if not shared:
            return found
        for node, user in shared:
            reasons.setdefault(node.name, "a size that several parts use")
            if user in part_of:
                reasons.setdefault(user.name, f"it uses the size '{node.name}', which another part uses, too")


class _Supported(OperatorSupportBase):
    def __init__(self, reasons: Mapping[str, str]) -> None:
        self._reasons = reasons

    def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
        if node.op != "call_function":
            return False
        owner = node.args[0] if node.target is operator.getitem else node
        return isinstance(owner, Node) and owner.op == "call_function" and owner.name not in self._reasons


def _has_tensors(node: Node) -> bool:
    """Whether the value is a tensor or several, and no size."""
    return isinstance(node.meta.get("val"), (torch.Tensor, tuple, list))


def _edge_nodes(node: Node) -> list[str]:
    """The edge nodes behind `node`: its own, or of the nearest ones that it reads, if a rewrite has made it."""
    own = edge_node(node)
    if own is not None:
        return [own]
    return [name for source in node.all_input_nodes for name in _edge_nodes(source)]


def _computes(part: Partition) -> bool:
    """Whether a part has a node that is more than a view of its input."""
    return any(_has_tensors(node) and not _is_view(node) for node in part.nodes)


def _is_view(node: Node) -> bool:
    if node.target is operator.getitem:
        return True
    overload = getattr(node.target, "_op", None)
    return overload is not None and (is_copied_view(overload) or overload.is_view)
