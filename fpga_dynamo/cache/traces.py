"""AOTAutograd skipped: the ATen graph that it made of one of Dynamo's graphs, from disk.

That is sound where AOTAutograd's part at run time is to do nothing: no gradient, no mutated input, no output that is an
alias, no tensor subclass, no autocast, no modes. Other graphs are traced each time, and their programs still cached.
"""

from __future__ import annotations

import logging
import operator
import sys
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.cache import artifacts, cached, seal, store
from fpga_dynamo.cache.graphs import describe, graph_from_plain, graph_to_plain, is_rebuildable
from fpga_dynamo.cache.keys import program_key, trace_key
from fpga_dynamo.cache.plain import CorruptError, UnstorableError, to_plain
from fpga_dynamo.ir.graph import LAYER, module_path
from fpga_dynamo.ir.program import Program
from fpga_dynamo.ir.target import Target
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.observe import counters
from fpga_dynamo.torch_internals.aot import GraphFacts, compiles_whole_graph, graph_facts, settings_hash
from fpga_dynamo.torch_internals.dispatch import autocast_active, transforms_active
from fpga_dynamo.torch_internals.dynamo import FUNCTION_MODULES, METHODS
from fpga_dynamo.torch_internals.tensors import mkldnn_enabled, nnpack_enabled

log = logging.getLogger(__name__)


class Trace:
    """The entry for one of Dynamo's graphs: first :meth:`load` it, else trace, :meth:`capture` and :meth:`store`."""

    def __init__(self, gm: GraphModule, inputs: Sequence[Any], target: Target, options: Options) -> None:
        self._target = target
        self._options = options
        self._graphs: list[tuple[list[Any], list[int], list[str]]] = []
        self._sound = True
        self._inputs = len(inputs)
        try:
            usable = cached.is_on(options) and _is_plain_inference(gm, inputs)
            self._key = trace_key(_dynamo_graph(gm), _state(), target, options) if usable else None
        except UnstorableError as error:
            log.debug("tracing is not cached: %s", error)
            self._key = None

    def load(self) -> Program | None:
        """The program of the graph, if both it and the trace are in the cache."""
        found = None if self._key is None else store.read(self._key)
        if self._key is None or found is None:
            return None
        entry, content = found
        try:
            seal.check(entry.header, entry.raw)
            graph, static = entry.header["graph"], entry.header["static"]
            if not all(type(i) is int for i in static):
                raise CorruptError("a static input that is not a number")
            module = graph_from_plain(graph)
            _set_layers(module, entry.header["layers"])
        except (CorruptError, KeyError, TypeError) as error:
            store.report_unusable(self._key, error)
            return None
        key = program_key(graph, self._target, self._options, static)
        program = cached.load(key, module, self._target, static)
        if program is not None:
            artifacts.record(self._key, content)
            counters.add(traces_loaded=1)
        return program

    def capture(self, module: GraphModule, static: Collection[int]) -> None:
        """Takes note of an inference graph as AOTAutograd made it, before lowering changes it."""
        if self._key is None:
            return
        facts = graph_facts()
        try:
            self._sound &= facts is not None and _is_all_there_is(facts, module, self._inputs)
            layers = [module_path(node) for node in module.graph.nodes]
            self._graphs.append((graph_to_plain(module), sorted(static), layers))
        except UnstorableError as error:
            log.debug("tracing is not cached: %s", error)
            self._sound = False

    def store(self) -> None:
        """Keeps what was captured, if that is all that the frame needs."""
        if self._key is None or not self._sound or len(self._graphs) != 1:
            return
        graph, static, layers = self._graphs[0]
        if is_rebuildable(graph):
            content = seal.serialise(self._key, {"graph": graph, "static": static, "layers": layers})
            store.write(self._key, content)
            artifacts.record(self._key, content)


def _set_layers(module: GraphModule, layers: Any) -> None:
    """Has nodes know the modules that they come from."""
    nodes = list(module.graph.nodes)
    if not isinstance(layers, list) or len(layers) != len(nodes) or not all(isinstance(path, str) for path in layers):
        raise CorruptError("not a module for each node")
    for node, path in zip(nodes, layers, strict=True):
        node.meta[LAYER] = path


# --- is it sound? -----------------------------------------------------------------------------------------------------


def _is_plain_inference(gm: GraphModule, inputs: Sequence[Any]) -> bool:
    grad = torch.is_grad_enabled()
    return (
        compiles_whole_graph()
        and "dynamo_compile_id" in gm.meta
        and not any(True for _ in (*gm.parameters(), *gm.buffers()))
        and next(gm.children(), None) is None
        and all(type(x) in (torch.Tensor, torch.nn.Parameter) for x in inputs)
        and not (grad and any(x.requires_grad for x in inputs))
        and not autocast_active()
        and not transforms_active()
    )


def _is_all_there_is(facts: GraphFacts, module: GraphModule, inputs: int) -> bool:
    """Whether a call of AOTAutograd's result is a call of the graph and nothing else."""
    nodes = list(module.graph.nodes)
    results = nodes[-1].args[0]
    return (
        facts.plain
        and facts.inputs == inputs
        and sum(node.op == "placeholder" for node in nodes) == inputs
        and len(results) == facts.outputs
        and all(isinstance(result, Node) and result.op == "call_function" for result in results)
    )


# --- the key ----------------------------------------------------------------------------------------------------------


def _state() -> list[Any]:
    """What tracing depends on besides the graph."""
    cuda = torch.backends.cuda
    return [
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        str(torch.get_default_dtype()),
        str(torch.get_default_device()),
        torch.are_deterministic_algorithms_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        torch.get_float32_matmul_precision(),
        [cuda.flash_sdp_enabled(), cuda.math_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.cudnn_sdp_enabled()],
        [torch.backends.mkldnn.is_available(), mkldnn_enabled(), nnpack_enabled()],
        settings_hash(),
    ]


def _dynamo_graph(gm: GraphModule) -> list[Any]:
    """Dynamo's graph as plain data, as far as tracing depends on it."""
    numbers: dict[Node, int] = {}
    plain = []
    for node in gm.graph.nodes:
        numbers[node] = len(numbers)
        args, kwargs = (to_plain(given, numbers.__getitem__) for given in (node.args, node.kwargs))
        plain.append([node.op, _callee(node), args, kwargs, _input(node) if node.op == "placeholder" else None])
    return plain


def _input(node: Node) -> Any:
    static = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    if not isinstance(static, (str, type(None))):
        raise UnstorableError(f"a static input of kind {static!r}")
    return [describe(node.meta["example_value"]), static]


def _callee(node: Node) -> str:
    """The name of what `node` calls. Raises :class:`UnstorableError` for what the user or a library may redefine."""
    if node.op in ("placeholder", "output"):
        return ""
    target: Any = node.target
    if node.op == "call_method":
        on = node.args[0].meta.get("example_value") if isinstance(node.args[0], Node) else None
        if isinstance(on, torch.Tensor) and isinstance(getattr(torch.Tensor, target, None), METHODS):
            return f"Tensor.{target}"
    elif node.op == "call_function":
        module, name = getattr(target, "__module__", ""), getattr(target, "__name__", "_")
        public = module in FUNCTION_MODULES and not name.startswith("_")
        if public and getattr(sys.modules[module], name, None) is target:
            return f"{module}.{name}"
        if target is operator.getitem:
            return "getitem"
    raise UnstorableError(f"a {node.op} of {target}")
