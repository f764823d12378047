"""model.json: a Program as the run-time library reads it (fpga_dynamo/native/rt/document.hpp).

`values` are tensors in the host's memory: first the inputs, then constants and what launches write. `launches` run in
order. Each copies views of values to its arena, runs its commands and copies results back. `copies` put elements of a
value into another order, as a value of its own, `after` so many launches. `outputs` are views of values.
Numbers that depend on the inputs' sizes are "$5", the result of step 5 of `sizes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from fpga_dynamo.codegen.eager import extract
from fpga_dynamo.deployment.capture import ModelGraph
from fpga_dynamo.deployment.errors import ExportError
from fpga_dynamo.deployment.generated import Fill, Sequence, generated
from fpga_dynamo.deployment.packed_weights import Layout, checksum, content, plan
from fpga_dynamo.deployment.views import NotAViewError, ValueView, views_made_by
from fpga_dynamo.deployment.weight_recipe import recipe
from fpga_dynamo.ir.graph import IDENTITY_TARGETS, STORABLE, describe, is_view, value
from fpga_dynamo.ir.launch import Slot
from fpga_dynamo.ir.program import CardTask, HostTask, KernelTask, Program
from fpga_dynamo.ir.sizes.steps import Steps
from fpga_dynamo.ir.target import KernelInfo
from fpga_dynamo.ir.weights import Expression
from fpga_dynamo.runtime.calls.bind import lay_out, patched_words, slot_places

FORMAT, VERSION = "fpga_dynamo model", 2

_ARGUMENTS = ("commands", "count", "arena", "weights")


@dataclass(frozen=True)
class Files:
    """Contents of a model's files. document: without the checksum of its own text. recipe: see weight_recipe.py."""

    document: dict[str, Any]
    commands: bytes
    weights: torch.Tensor
    recipe: dict[str, Any]

    def text(self) -> str:
        """model.json. The checksum comes first, and is that of the text with zeros in its place."""
        weights = self.weights.numpy().data
        files = {
            "commands.bin": {"bytes": len(self.commands), "crc32": checksum(self.commands)},
            "weights.bin": {"bytes": len(weights), "crc32": checksum(weights)},
        }
        return sealed({"crc32": "", **self.document, "files": files})


def sealed(document: Mapping[str, Any]) -> str:
    """The text of a document whose first key is `crc32`, with the right checksum."""
    blank = json.dumps({**document, "crc32": "00000000"}, ensure_ascii=True, allow_nan=False) + "\n"
    return blank.replace("00000000", checksum(blank.encode()), 1)


@dataclass
class _Writer:
    graph: ModelGraph
    program: Program
    steps: Steps
    values: list[dict[str, Any]] = field(default_factory=list)
    views: dict[Node, ValueView] = field(default_factory=dict)
    constants: list[tuple[int, Node, torch.Tensor]] = field(default_factory=list)
    generated: list[dict[str, Any]] = field(default_factory=list)
    copies: list[dict[str, Any]] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)

    def add_value(self, node: Node, dtype: torch.dtype, elements: Any, shape: Any, strides: Any) -> int:
        if dtype not in STORABLE:
            raise ExportError(
                f"the model cannot be exported: {describe(node)} is of {dtype}, which exported models do not support; "
                "convert it in the model"
            )
        self.values.append({"dtype": str(dtype).removeprefix("torch."), "elements": self.steps.number(elements)})
        self.views[node] = ValueView(len(self.values) - 1, dtype, tuple(shape), tuple(strides))
        return len(self.values) - 1

    def add_input(self, node: Node) -> None:
        fake = value(node)
        self.add_value(node, fake.dtype, fake.numel(), fake.shape, fake.stride())

    def add_generated(self, node: Node) -> None:
        fake, how = value(node), generated(node)
        index = self.add_value(node, fake.dtype, fake.numel(), fake.shape, fake.stride())
        if isinstance(how, Sequence):
            numbers = {"first": self.steps.number(how.first), "step": self.steps.number(how.step)}
            self.generated.append({"value": index, **numbers})
        elif isinstance(how, Fill):
            self.generated.append({"value": index, "bits": f"{how.bits:016x}"})

    def add_copy(self, node: Node, source: ValueView) -> None:
        """The value of a node that has the elements of `source` in an order of its own."""
        fake = value(node)
        self.add_value(node, fake.dtype, fake.numel(), fake.shape, fake.stride())
        views = {"from": self.view(source), "to": self.view(self.views[node])}
        self.copies.append({"after": len(self.launches), **views})

    def view_of(self, node: Node) -> ValueView:
        """Where a value of the graph lies; that of a parameter, or made of parameters, becomes a constant."""
        if node not in self.views:
            tensor = Expression(node, "", ()).evaluate(self.tensors())
            dense = tensor.contiguous()
            index = self.add_value(node, dense.dtype, dense.numel(), dense.shape, dense.stride())
            self.constants.append((index, node, dense))
        return self.views[node]

    def tensors(self) -> dict[Node, torch.Tensor]:
        """The contents of parameters and constants."""
        placeholders = self.program.graph.placeholders
        return {placeholders[i]: tensor for i, tensor in self.graph.tensors.items()} | self.program.attributes

    def view(self, view: ValueView) -> dict[str, Any]:
        return {
            "value": view.value,
            "offset": self.steps.number(view.offset),
            "shape": [self.steps.number(n) for n in view.shape],
            "strides": [self.steps.number(n) for n in view.strides],
        }

    def slot(self, slot: Slot, view: ValueView, place: str) -> dict[str, Any]:
        if slot.blocked is not None:
            raise ExportError(
                f"{slot.node} crosses as a blocked feature map of an engine, which is not supported yet: export for a "
                "recipe of cores"
            )
        strides = [self.steps.number(n) for n in slot.strides]
        return {**self.view(view), "slot_strides": strides, "place": self.steps.operand(place)}


def write(graph: ModelGraph, program: Program, inputs: Mapping[str, tuple[int, int]], made_by: str) -> Files:
    """The files of a program all of whose computing nodes run on the card.

    inputs: of each symbol the position of the input and the dimension that it is.
    Raises :class:`ExportError` that names every node that would run in eager mode, with its reason.
    """
    refuse_eager(program)
    writer = _Writer(graph, program, Steps(program.symbols, inputs))
    placeholders = program.graph.placeholders
    ports = placeholders[len(placeholders) - len(graph.inputs) - (program.graph.sizes is not None) :][
        : len(graph.inputs)
    ]
    for node in ports:
        writer.add_input(node)
    given = [{"name": name, **writer.view(writer.views[node])} for name, node in zip(graph.inputs, ports, strict=True)]
    kernels = _launches(writer)
    results = _results(writer)
    outputs = [{"name": name, **writer.view(view)} for name, view in zip(graph.outputs, results, strict=True)]
    layout = plan([w for task in program.card_tasks for w in task.weights], [t for _, _, t in writer.constants])
    _refuse_packed_inputs(writer, layout)
    commands, first = _commands(program, layout)
    for launch, begin in zip(writer.launches, first, strict=True):
        launch["first"] = begin
    document = {
        "format": FORMAT,
        "version": VERSION,
        "made_by": made_by,
        "xclbin": program.graph.target.uuid,
        "command_words": program.graph.target.command_words,
        "packed_bytes": layout.packed_bytes,
        "kernels": kernels,
        "sizes": [],
        "guards": _guards(writer, inputs),
        "values": writer.values,
        "inputs": given,
        "constants": [
            {"value": index, "offset": begin, "bytes": tensor.nbytes}
            for (index, _, tensor), begin in zip(writer.constants, layout.constants, strict=True)
        ],
        "generated": writer.generated,
        "launches": writer.launches,
        "copies": writer.copies,
        "outputs": outputs,
        "python": {
            "call": graph.call,
            "leaves": list(graph.leaves),
            "result": graph.result,
            "constants": [list(one) for one in graph.constants],
        },
    }
    document["sizes"] = writer.steps.steps  # complete only now
    tensors = [tensor for _, _, tensor in writer.constants]
    names = {placeholders[i]: name for i, name in graph.weights.items()}
    made = recipe(layout, names, [(node, tensor) for _, node, tensor in writer.constants])
    return Files(document, commands, content(layout, writer.tensors(), tensors), made)


def refuse_eager(program: Program) -> None:
    """Raises :class:`ExportError` if a node that computes would run in eager mode."""
    reasons = eager_nodes(program)
    if reasons:
        lines = "\n".join(f"  {describe(node)}: {reason}" for node, reason in reasons.items())
        raise ExportError(f"the model cannot be exported: {len(reasons)} node(s) would run in eager mode:\n{lines}")


def eager_nodes(program: Program) -> dict[Node, str]:
    """The nodes that compute and may run in eager mode, each with its reason."""
    found: dict[Node, str] = {}
    for task in program.tasks:
        if isinstance(task, KernelTask):
            found |= dict.fromkeys(task.nodes, "a plain kernel, which an exported model cannot launch yet")
        elif isinstance(task, HostTask):
            left = [node for node in task.nodes if generated(node) is None and node in program.reasons]
            found |= {node: program.reasons[node] for node in left}
        elif isinstance(task, CardTask):
            for covered in task.covers:
                if covered.must_be_finite:
                    found |= dict.fromkeys(covered.nodes, "eager mode runs where values are infinite")
    return found


def _launches(writer: _Writer) -> list[dict[str, Any]]:
    """Adds launches without the places of their words. Returns the kernels that they run on."""
    program = writer.program
    kernels: dict[str, dict[str, Any]] = {}
    for task in program.tasks:
        if not isinstance(task, CardTask):
            _host_views(writer, task)
            continue
        position = list(kernels).index(task.kernel) if task.kernel in kernels else len(kernels)
        kernels.setdefault(task.kernel, _kernel(program, task.kernel))
        writer.launches.append(_launch(writer, task, position))
    return list(kernels.values())


def _launch(writer: _Writer, task: CardTask, kernel: int) -> dict[str, Any]:
    steps = writer.steps
    if task.code.patches is not None:
        begins, ends = lay_out(task, steps)
        patches = [[word, steps.operand(name)] for word, name in patched_words(task, begins, steps)]
        places, beats = slot_places(task, begins), ends[-1]
    else:
        patches, beats = [], str(task.plan.beats)
        places = [str(slot.place) for slot in (*task.inputs, *task.outputs)]
    reads = [
        writer.slot(slot, writer.view_of(slot.node), place)
        for slot, place in zip(task.inputs, places[: len(task.inputs)], strict=True)
    ]
    writes = []
    for slot, place in zip(task.outputs, places[len(task.inputs) :], strict=True):
        writer.add_value(slot.node, slot.dtype, slot.numel, slot.shape, slot.strides)
        writes.append(writer.slot(slot, writer.views[slot.node], place))
    return {
        "name": task.name,
        "kernel": kernel,
        "first": 0,
        "words": len(task.code.words),
        "commands": task.code.count,
        "beats": steps.operand(beats),
        "patches": patches,
        "reads": reads,
        "writes": writes,
    }


def _kernel(program: Program, name: str) -> dict[str, Any]:
    info: KernelInfo = next(kernel for kernel in program.graph.target.kernels if kernel.name == name)
    if info.together:
        raise ExportError(f"the compute units of kernel '{name}' share launches, which an exported model cannot do yet")
    (manifest,) = (kernel for kernel in program.graph.target.manifest["kernels"] if kernel["name"] == name)
    arguments = [*_ARGUMENTS]
    for other, same in sorted(info.same_as.items()):
        arguments += [""] * (other + 1 - len(arguments))
        arguments[other] = _ARGUMENTS[same]
    return {"name": name, "arguments": arguments, "units": [unit["name"] for unit in manifest["compute_units"]]}


def _host_views(writer: _Writer, task: HostTask) -> None:
    """What a host task gives, as views of values and of what sizes alone decide."""
    made_here = [node for node in task.nodes if generated(node) is not None]
    for node in made_here:
        writer.add_generated(node)
    try:
        made = _views(writer, task.writes, {*task.reads, *made_here})
    except NotAViewError as error:
        raise ExportError(f"the model cannot be exported: {task.name} runs on the host ({error})") from error
    writer.views.update(zip(task.writes, made, strict=True))


def _results(writer: _Writer) -> list[ValueView]:
    program = writer.program
    returned: Any = program.graph.module.graph.output_node().args[0]
    try:
        return _views(writer, returned, {*program.result_reads})
    except NotAViewError as error:
        raise ExportError(f"the model cannot be exported: the order of its results needs the host ({error})") from error


def _views(writer: _Writer, wanted: list[Node], given: set[Node]) -> list[ValueView]:
    """Views of values for nodes that only rearrange `given`, inputs and constants.

    Adds a copy where strides cannot describe the new order, and a constant for a node that depends on parameters alone.
    """
    graph = writer.program.graph
    given = {*given, *(node for node in graph.static if _is_computed(node))}
    nodes = extract(graph, wanted, given)[0].nodes
    if (computing := next((node for node in nodes if not is_view(node)), None)) is not None:
        raise NotAViewError(f"{computing.target} computes")

    def seen(nodes: list[Node]) -> list[ValueView]:
        part, reads = extract(graph, nodes, given)
        return views_made_by(part, _reads(writer, reads), [value(node) for node in nodes])

    try:
        return seen(wanted)
    except NotAViewError:
        for node in nodes:
            if node.target in IDENTITY_TARGETS:  # in the order of its copy, which later reshapes depend on
                source: Any = node.args[0]
                writer.add_copy(node, *seen([source]))
                given = {*given, node}
        return seen(wanted)


def _is_computed(node: Node) -> bool:
    """Whether a static node is more than a view of a parameter."""
    if not isinstance(value(node), torch.Tensor):
        return False
    while is_view(node):
        node = node.all_input_nodes[0]
    return node.op != "placeholder"


def _reads(writer: _Writer, nodes: Iterable[Node]) -> list[ValueView | tuple[int, ...]]:
    symbols = writer.program.symbols
    hints = () if symbols is None else tuple(symbols.hints()[name] for name in symbols.names)
    return [hints if node is writer.program.graph.sizes else writer.view_of(node) for node in nodes]


def _refuse_packed_inputs(writer: _Writer, layout: Layout) -> None:
    known = writer.tensors()
    for pack, _ in layout.packs:
        for source in pack.sources:
            if source not in known:
                raise ExportError(
                    f"the model cannot be exported: input '{source}' is used as a weight, which has to be packed in "
                    "each call"
                )


def _commands(program: Program, layout: Layout) -> tuple[bytes, list[int]]:
    """commands.bin, and the first word of each launch."""
    lists = [task.code.bound(layout.places) for task in program.card_tasks]
    first = [sum(map(len, lists[:i])) for i in range(len(lists))]
    return np.concatenate([*lists, np.zeros(0, np.uint32)]).astype("<u4").tobytes(), first


def _guards(writer: _Writer, inputs: Mapping[str, tuple[int, int]]) -> list[dict[str, Any]]:
    symbols = writer.program.symbols
    guards = [] if symbols is None else list(symbols.guards.values())
    sizes = {name: f"{writer.graph.inputs[i]}.shape[{d}]" for name, (i, d) in inputs.items()}
    return [
        {
            "size": writer.steps.number(guard.size),
            "relation": guard.relation,
            "says": re.sub(r"\w+", lambda found: sizes.get(found[0], found[0]), str(guard)),
        }
        for guard in guards
    ]
