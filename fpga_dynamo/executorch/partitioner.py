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
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase

from fpga_dynamo.deployment.document import eager_nodes
from fpga_dynamo.deployment.errors import ExportError
from fpga_dynamo.deployment.export import lowered
from fpga_dynamo.executorch.backend import FpgaBackend, options_of, xclbin_of
from fpga_dynamo.executorch.edge import captured, edge_node
from fpga_dynamo.ir.graph import describe

log = logging.getLogger(__name__)


class FpgaPartitioner(Partitioner):
    """Gives the card all nodes that it can compute, in as few parts as their dependencies allow.

    options: as of :func:`fpga_dynamo.export`: the xclbin, platform or recipe, and how parts are lowered. The default of
    ``partition`` is ``greedy``; with ``cost``, nodes that are faster elsewhere stay with executorch.
    device, timeout: the index of the card, and the seconds that a launch may take; the file has them.

    reasons: of each edge node of the latest program that stays with executorch, why, by name.
    Raises OptionError for unknown options, XclbinError for an xclbin that cannot be read or built.
    """

    def __init__(
        self, options: Mapping[str, Any] | None = None, *, device: int = 0, timeout: float = 60.0
    ) -> None:
        given = {"partition": "greedy", **(options or {})}
        options_of(given)
        specs = {"options": given, "device": device, "timeout_ms": max(1, int(timeout * 1000))}
        self.delegation_spec = DelegationSpec(
            FpgaBackend.__name__, [CompileSpec(key, json.dumps(value).encode()) for key, value in specs.items()]
        )
        self._options = given
        self.reasons: dict[str, str] = {}

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]:
        """All operators of the program: the compiler takes apart what it has no pattern for."""
        found = {node.target for node in ep.graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
        return [one for one in found if one.namespace == "aten" and not one._schema.is_mutable], None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        self.reasons = self._reasons(exported_program)
        module = exported_program.graph_module
        proposed = CapabilityBasedPartitioner(
            module, _Supported(self.reasons), allows_single_node_partition=True
        ).propose_partitions()
        tags = {}
        for part in filter(_computes, proposed):
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
            graph = captured(program, "a program of executorch", updates=True)
            made, _ = lowered(graph, *xclbin_of(self._options, program))
        except ExportError as error:
            log.warning("no part of the program runs on the card: %s", error)
            return dict.fromkeys((node.name for node in computing), str(error))
        found: dict[str, str] = {}
        for node, reason in eager_nodes(made).items():
            for name in _edge_nodes(node):
                found[name] = f"{describe(node)}: {reason}"
        return found


class _Supported(OperatorSupportBase):
    def __init__(self, reasons: Mapping[str, str]) -> None:
        self._reasons = reasons

    def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
        if node.op != "call_function" or not isinstance(node.meta.get("val"), (torch.Tensor, tuple, list)):
            return False
        owner = node.args[0] if node.target is operator.getitem else node
        return isinstance(owner, Node) and owner.op == "call_function" and owner.name not in self._reasons


def _edge_nodes(node: Node) -> list[str]:
    """The edge nodes behind `node`: its own, or of the nearest ones that it reads, if a rewrite has made it."""
    own = edge_node(node)
    if own is not None:
        return [own]
    return [name for source in node.all_input_nodes for name in _edge_nodes(source)]


def _computes(part: Partition) -> bool:
    """Whether a part has a node that is more than a view of its input."""
    return any(not _is_view(node) for node in part.nodes)


def _is_view(node: Node) -> bool:
    if node.target is operator.getitem:
        return True
    overload = getattr(node.target, "_op", None)
    return overload is not None and (overload._schema.name.endswith("_copy") or overload.is_view)
