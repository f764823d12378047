"""A model as one ATen graph for export: by torch.export, and AOTAutograd with the decompositions of torch.compile."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.fx import Graph, GraphModule

from fpga_dynamo.deployment.errors import ExportError
from fpga_dynamo.lowering.tracing.decompose import DECOMPOSITIONS, kept_whole
from fpga_dynamo.lowering.tracing.strides import settle_strides
from fpga_dynamo.torch_internals.aot import GraphFacts, aot_autograd, graph_facts, mark_boxed
from fpga_dynamo.torch_internals.pytree import tree_map, treespec_dumps
from fpga_dynamo.torch_internals.tracing import tracing_with

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
"""What `dtype` of an export may be, by name."""


@dataclass(frozen=True)
class ModelGraph:
    """An ATen graph whose placeholders are parameters, buffers, constants and then the model's inputs.

    tensors: of each placeholder that is no input its content, by position.
    weights: of those the names in the state_dict.
    inputs: names of the inputs, in order; their placeholders are the last ones.
    outputs: names of the results that are tensors, in order.
    constants: of all results of the model, in order, those that are no tensors: (position, value).
    leaves: of each leaf of the arguments, whether it is an input; the others have no effect.
    call, result: the nesting of arguments and results, as PyTorch serialises it.
    """

    name: str
    module: GraphModule
    tensors: Mapping[int, torch.Tensor]
    weights: Mapping[int, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[tuple[int, Any], ...]
    leaves: tuple[bool, ...]
    call: str
    result: str


def exported_program(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any, dtype: Any
) -> ExportedProgram:
    """What torch.export makes of `model`: a module, a path of a .pt2 file, or a program that is returned as it is.

    Raises :class:`ExportError` for anything else, and for a model that torch.export cannot trace.
    """
    if isinstance(model, (str, Path)):
        try:
            model = torch.export.load(model)
        except Exception as error:
            raise ExportError(
                f"'{model}' cannot be loaded as a program of torch.export: {_first_line(error)}"
            ) from error
    if isinstance(model, ExportedProgram):
        if dtype is not None or dynamic_shapes is not None:
            raise ExportError("dtype and dynamic_shapes have no effect on a program of torch.export; leave them out")
        return model
    if not isinstance(model, torch.nn.Module):
        raise ExportError(
            f"unsupported model {type(model).__name__}: expected a module, a program of torch.export or a .pt2 file"
        )
    if model.training and not isinstance(model, GraphModule):  # a graph of torch.export has one mode only
        raise ExportError("the model is in training mode: call model.eval() before the export")
    given: tuple[Any, ...] = tuple(args)
    named = dict(kwargs or {})
    if dtype is not None:
        wanted = _dtype(dtype)
        model = deepcopy(model).to(wanted)
        given, named = _converted(given, wanted), _converted(named, wanted)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.export.export(model, given, named, dynamic_shapes=dynamic_shapes, strict=False)
    except Exception as error:  # of whatever kind: torch.export has many
        raise ExportError(f"torch.export cannot export the model: {_first_line(error)}") from error


def capture_program(
    program: ExportedProgram, name: str, *, part: bool = False, prepare: Callable[[Graph], None] | None = None
) -> ModelGraph:
    """The graph of a program.

    part: somebody else runs the program, so new contents of buffers and inputs are results like others. prepare:
    changes a copy of the program's graph before it is traced.
    Raises :class:`ExportError` for one that changes its parameters, or has other inputs than tensors.
    """
    module, positions, names, outputs, constants = _tensors_alone(program, part)
    if prepare is not None:
        prepare(module.graph)
        module.recompile()
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    graph, facts = _traced(module, [node.meta["val"] for node in placeholders])
    _refuse_changes(facts, names)
    traced = [node for node in graph.graph.nodes if node.op == "placeholder"]
    if len(traced) != len(placeholders):
        raise ExportError("the model cannot be exported: two of its parameters or inputs share memory")
    returned: Any = graph.graph.output_node().args[0]
    graph.graph.output_node().args = (tuple(returned)[: len(outputs)],)  # behind them are bases of views
    graph.recompile()
    settle_strides(graph)
    return ModelGraph(
        name=name,
        module=graph,
        tensors={i: tensor for i, (tensor, _) in enumerate(positions) if tensor is not None},
        weights={i: target for i, (_, target) in enumerate(positions) if target is not None},
        inputs=tuple(names[len(names) - sum(tensor is None for tensor, _ in positions) :]),
        outputs=outputs,
        constants=constants,
        leaves=tuple(
            isinstance(spec.arg, TensorArgument)
            for spec in program.graph_signature.input_specs
            if spec.kind is InputKind.USER_INPUT
        ),
        call=treespec_dumps(program.call_spec.in_spec),
        result=treespec_dumps(program.call_spec.out_spec),
    )


def _tensors_alone(
    program: ExportedProgram, part: bool
) -> tuple[
    GraphModule,
    list[tuple[torch.Tensor | None, str | None]],
    list[str],
    tuple[str, ...],
    tuple[tuple[int, Any], ...],
]:
    """The program's graph with tensors as its only inputs and results.

    Of each placeholder its tensor (None of an input) and name in the state_dict, and its own name; names of results;
    results that are no tensors.
    """
    module = GraphModule(program.graph_module, deepcopy(program.graph_module.graph))
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]  # whose copies may have new names
    held: list[tuple[torch.Tensor | None, str | None]] = []
    names = []
    for spec, node in zip(program.graph_signature.input_specs, placeholders, strict=True):
        if isinstance(spec.arg, TensorArgument) and spec.kind is InputKind.USER_INPUT:
            held.append((None, None))
        elif isinstance(spec.arg, TensorArgument):
            held.append(_content(program, spec))
        elif isinstance(spec.arg, ConstantArgument) and not node.users:
            module.graph.erase_node(node)
            continue
        else:
            raise ExportError(f"input '{spec.arg.name}' is no tensor; make it a constant of the model")
        names.append(spec.arg.name)
    outputs, constants = [], []
    output = module.graph.output_node()
    returned: Any = output.args[0]
    kept = []
    results = program.graph_signature.output_specs
    if not part and any(spec.kind is not OutputKind.USER_OUTPUT for spec in results):
        raise ExportError("the model changes buffers or inputs in each call, which an exported model cannot do")
    for i, (spec, node) in enumerate(zip(results, returned, strict=True)):
        if isinstance(spec.arg, TensorArgument):
            outputs.append(spec.arg.name)
            kept.append(node)
        elif isinstance(spec.arg, ConstantArgument):
            constants.append((i, spec.arg.value))
        else:
            raise ExportError(f"result {i} is a size, and an exported model returns tensors; return it as a tensor")
    output.args = (tuple(kept),)
    module.recompile()
    return module, held, names, _distinct(outputs), tuple(constants)


def _content(program: ExportedProgram, spec: Any) -> tuple[torch.Tensor, str | None]:
    if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and spec.target in program.state_dict:
        return program.state_dict[spec.target].detach(), spec.target
    return program.constants[spec.target].detach(), None


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names, a second one of a kind with a number: a value may be returned twice."""
    found: dict[str, int] = {}
    result = []
    for name in names:
        found[name] = found.get(name, 0) + 1
        result.append(name if found[name] == 1 else f"{name}_{found[name]}")
    return tuple(result)


def _traced(module: GraphModule, fakes: Sequence[Any]) -> tuple[GraphModule, GraphFacts]:
    found: list[tuple[GraphModule, GraphFacts | None]] = []

    def compiler(graph: GraphModule, _: Sequence[Any]) -> Callable[[list[Any]], Any]:
        found.append((graph, graph_facts()))

        def run(arguments: list[Any]) -> Any:
            raise AssertionError("the graph is captured, not called")

        mark_boxed(run)
        return run

    trace = aot_autograd(
        fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler, decompositions=DECOMPOSITIONS
    )
    try:
        with kept_whole(), torch.no_grad(), tracing_with(fakes):
            trace(module, list(fakes))
    except (AssertionError, RuntimeError) as error:
        raise ExportError(f"AOTAutograd cannot trace the model: {_first_line(error)}") from error
    ((graph, facts),) = found
    assert facts is not None, "AOTAutograd has looked at the graph"
    return graph, facts


def _refuse_changes(facts: GraphFacts, names: Sequence[str]) -> None:
    changed = [name for name, does in zip(names, facts.changed, strict=False) if does]
    if changed or facts.updates:
        raise ExportError(
            f"the model changes {', '.join(changed) or 'an input'} in each call, which an exported model cannot do: "
            "return the new value as a result instead"
        )


def _dtype(dtype: Any) -> torch.dtype:
    known = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if not isinstance(known, torch.dtype) or known not in DTYPES.values():
        raise ExportError(
            f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}; for int8, quantize the model first "
            "(fpga_dynamo.quantize)"
        )
    return known


def _converted(structure: Any, dtype: torch.dtype) -> Any:
    """Floating-point tensors in `structure` in this type."""
    return tree_map(lambda x: x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x, structure)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
