"""Facts about an ATen graph that several passes need: which nodes are views, constants, random, supported types."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fpga_dynamo.ir.dtypes import FLOATS, INTEGERS
from fpga_dynamo.ir.operators import facts
from fpga_dynamo.ir.sizes.graph import SYMBOLS
from fpga_dynamo.ir.sizes.size import Shape, Size, sizes_in
from fpga_dynamo.ir.sizes.size import value as plain
from fpga_dynamo.ir.sizes.symbols import Symbols
from fpga_dynamo.ir.target import Target
from fpga_dynamo.torch_internals.device import NAME
from fpga_dynamo.torch_internals.dispatch import HigherOrderOperator, OpOverload, schema

aten = torch.ops.aten

_UNSAFE_VIEWS = frozenset({aten._unsafe_view.default, aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default})
"""Views whose schemas do not say so, because nobody writes through them."""

RESHAPE_TARGETS = frozenset({aten.view.default, aten._unsafe_view.default, aten.reshape.default})
"""Those that show the same elements in the same order in another shape."""

IDENTITY_TARGETS = frozenset({aten.clone.default, aten.lift_fresh_copy.default})
"""Targets that copy: free on the card, where values are never changed in place."""

DEVICES = ("cpu", NAME)
"""Types of devices whose tensors a launch can read and write: their memory is mapped into the process."""

STORABLE = frozenset({*FLOATS, *INTEGERS, torch.bool})
"""Types of element that the arena can hold."""

TRACED_STRIDES = "fpga_traced_strides"
"""Key of a node's meta: strides that tracing gave its value, where lowering/tracing/saved.py has chosen others."""

_OWN_OPERATORS = "/fpga_dynamo/frontend/plain_kernels/"
"""The folder of what calls the operator of a plain kernel, in a frame of a stack trace."""

LAYER = "fpga_layer"
"""Key of a node's meta: its module's path, in a graph that comes from the disk cache."""

EXACT_INTEGERS = 1 << 24
"""Up to here float32 holds every whole number."""


def value(node: Node) -> Any:
    """The fake tensor (or tuple of them, or number) that `node` stands for."""
    return node.meta.get("val")


def values(node: Node) -> list[torch.Tensor]:
    """The fake tensors that `node` stands for: one, or those of its tuple."""
    fakes = value(node) if isinstance(value(node), (tuple, list)) else [value(node)]
    return [fake for fake in fakes if isinstance(fake, torch.Tensor)]


def shape(node: Node) -> tuple[int, ...]:
    """The sizes of the value of `node`; a :class:`Size`, which is like an int, where one changes from call to call."""
    sizes: Any = value(node).shape
    return Shape.of(size if isinstance(size, Size) else int(size) for size in sizes)


def hints(numbers: Sequence[Any]) -> tuple[int, ...] | None:
    """Sizes or strides at the call that is traced; None if one of them is known by running alone."""
    found = [n.node.hint if isinstance(n, torch.SymInt) else plain(n) for n in numbers]
    return None if None in found else tuple(found)


def is_view(node: Node) -> bool:
    """Whether `node` computes nothing: a view, an item of a tuple of views, or a copy."""
    if node.op != "call_function":
        return False
    return node.target is operator.getitem or shows_operand(node.target) or node.target in IDENTITY_TARGETS


def shows_operand(target: Any) -> bool:
    """Whether a node's target computes nothing: its result shows (or may show) the memory of an operand."""
    if not isinstance(target, OpOverload) or facts(target).made_by_pattern:
        return False
    return target.is_view or target in _UNSAFE_VIEWS


def computes(node: Node) -> bool:
    """Whether `node` counts for the offload figures: calls that are no views and no getitem."""
    if node.op != "call_function" or is_view(node) or not isinstance(value(node), (torch.Tensor, tuple, list)):
        return False
    return node.target is not aten.empty.memory_format


def is_effectful(node: Node) -> bool:
    """Whether the order of `node` among others like it matters: random numbers, mutation, input and output."""
    if not isinstance(node.target, OpOverload):
        return node.op == "call_function" and isinstance(node.target, HigherOrderOperator)
    signature = schema(node.target)
    return torch.Tag.nondeterministic_seeded in node.target.tags or signature.is_mutable or not signature.returns


def mutates(node: Node) -> bool:
    """Whether `node` changes memory that other nodes may show: they read it before or after, and no edge says so.

    A name that ends in one underscore says so too: the schema of resize_storage_bytes_ does not.
    """
    if not isinstance(node.target, OpOverload):
        return False
    name = node.target.overloadpacket.__name__
    return schema(node.target).is_mutable or (name.endswith("_") and not name.endswith("__"))


def source_line(node: Node) -> str:
    """``file.py:12 in forward`` of the user's code that gave `node`, or an empty string."""
    trace = node.meta.get("stack_trace") or ""
    frames = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    frames = [frame for frame in frames if _OWN_OPERATORS not in frame]
    if not frames:
        return ""
    path, line, where = (*frames[-1].split(", "), "", "")[:3]
    name = path.removeprefix("File ").strip('"').rsplit("/", 1)[-1]
    return f"{name}:{line.removeprefix('line ')} {where}".strip()


def describe(node: Node) -> str:
    """``relu (aten.relu.default at model.py:12 in forward)``"""
    where = source_line(node)
    return f"{node.name} ({node.target}{' at ' + where if where else ''})"


def module_path(node: Node) -> str:
    """``layer1.0.conv1``, the nn.Module that gave `node`, or an empty string if none or the outermost did."""
    if LAYER in node.meta:
        return str(node.meta[LAYER])
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    path = str(next(reversed(list(stack.values())), ("",))[0])
    path = re.sub(r"\._modules\['([^']*)'\]|\[['\"]?(\w+)['\"]?\]", r".\1\2", path)  # as Dynamo spells its sources
    # A graph of torch.export names the model's own parts, without what the model was called where it was compiled.
    return path.removeprefix("L.").partition(".")[2] if path.startswith(("L.", "G.")) else path


@dataclass
class GraphInfo:
    """An ATen graph with what is known of its inputs.

    static_inputs: positions of placeholders that are parameters or buffers.
    claimed: nodes that a pattern has taken so far (see lowering/passes/select/claim.py).
    sizes: the placeholder for the symbols' values of a graph with sizes (sizes/graph.py), else None.
    engine_features: of the hardware engine that it is lowered to, see ``codegen/engine/target.py``.
    """

    module: GraphModule
    target: Target
    static_inputs: Collection[int] = ()
    position: dict[Node, int] = field(init=False, repr=False)
    placeholders: list[Node] = field(init=False)
    claimed: set[Node] = field(default_factory=set)
    engine_features: Collection[str] = ()
    static: set[Node] = field(init=False)
    sizes: Node | None = field(init=False)

    def __post_init__(self) -> None:
        self.position = {node: i for i, node in enumerate(self.module.graph.nodes)}
        self.placeholders = [n for n in self.module.graph.nodes if n.op == "placeholder"]
        self.sizes = next((n for n in self.placeholders if SYMBOLS in n.meta), None)
        parameters = {self.placeholders[i] for i in self.static_inputs if i < len(self.placeholders)}
        self.static = made_of(parameters, self.module)

    @property
    def symbols(self) -> Symbols | None:
        """The symbols that sizes of the graph depend on, or None for a graph without."""
        return None if self.sizes is None else self.sizes.meta[SYMBOLS]

    def constant(self, node: Node) -> torch.Tensor:
        """The tensor that a get_attr node stands for."""
        found: torch.Tensor = operator.attrgetter(str(node.target))(self.module)
        return found

    def is_static(self, node: Node) -> bool:
        """Whether `node` depends on parameters, buffers and constants only, so that it changes only when they do."""
        return node in self.static

    def from_inputs(self, node: Node) -> bool:
        """Whether `node` is a function of graph inputs through views alone or of static values (see pack sources)."""
        while node.op == "call_function" and node not in self.static and is_view(node) and not takes_sizes(node):
            source, *numbers = node.all_input_nodes
            if numbers:
                return False
            node = source
        return node in self.static or node.op == "placeholder"


def made_of(seeds: Collection[Node], module: GraphModule) -> set[Node]:
    """Nodes that are functions of `seeds` and constants alone and may be evaluated when weights are packed."""
    closed = set(seeds)
    for node in module.graph.nodes:
        if node.op == "get_attr" and isinstance(value(node), torch.Tensor):
            closed.add(node)
        elif node.op == "call_function" and not is_effectful(node) and not _symbolic(node):
            inputs = node.all_input_nodes
            if all(arg in closed for arg in inputs) and (inputs or _small(value(node))):
                closed.add(node)
    return closed


def _small(fake: Any) -> bool:
    return isinstance(fake, torch.Tensor) and fake.numel() <= 1 << 20


def takes_sizes(node: Node) -> bool:
    """Whether an argument of `node` is a size that changes from call to call."""
    return any(True for _ in sizes_in((node.args, node.kwargs)))


def _symbolic(node: Node) -> bool:
    fakes = value(node) if isinstance(value(node), (tuple, list)) else [value(node)]
    return takes_sizes(node) or any(
        not isinstance(fake, torch.Tensor) or any(isinstance(size, (torch.SymInt, Size)) for size in fake.shape)
        for fake in fakes
        if fake is not None
    )


def refuse_sizes(node: Node) -> str | None:
    """Why nothing can be decided by the shapes that `node` computes with: only running tells them. None if they are
    known, also as a :class:`Size`."""
    for other in (*node.all_input_nodes, node):
        if any(isinstance(size, torch.SymInt) for fake in values(other) for size in fake.shape):
            what = "result" if other is node else f"operand {other}"
            return f"{what} has a size that is not known before the call"
    return None


def refuse_value(node: Node, what: str = "result") -> str | None:
    """Why the arena cannot hold the value of `node`, or None."""
    fake = value(node)
    if isinstance(fake, (tuple, list)):
        return next((why for item in fake if (why := _refuse_tensor(item, what))), None)
    return _refuse_tensor(fake, what)


def _refuse_tensor(fake: Any, what: str) -> str | None:
    if fake is None:
        return None
    if not isinstance(fake, torch.Tensor):
        return f"{what} is a {type(fake).__name__}, not a tensor"
    if fake.dtype not in STORABLE:
        return f"{what} is {_name(fake.dtype)}; the cores support {_named(STORABLE)}"
    if fake.layout is not torch.strided:
        return f"{what} is {fake.layout}, not a strided tensor"
    if fake.device.type not in DEVICES:
        return f"{what} is on {fake.device}, neither on the host nor on the card"
    if any(isinstance(size, torch.SymInt) for size in fake.shape):
        return f"{what} has a size that is not known before the call"
    if fake.numel() == 0:
        return f"{what} has no elements"
    if fake.numel() >= 1 << 30:
        return f"{what} has 2^30 elements or more"
    return None


def refuse_float(node: Node, what: str) -> str | None:
    """Why `node` is not a tensor of floating-point values that the arena can hold, or None."""
    fake = value(node)
    if isinstance(fake, torch.Tensor) and fake.dtype not in FLOATS:
        return f"{what} is {_name(fake.dtype)}; this core supports {_named(FLOATS)}"
    return refuse_value(node, what)


def refuse_number(node: Node, what: str) -> str | None:
    """Why `node` is neither a tensor of float32 nor one of complex64 that the card can hold, or None."""
    fake = value(node)
    if not isinstance(fake, torch.Tensor):
        return f"{what} is a {type(fake).__name__}, not a tensor"
    if fake.dtype not in (torch.float32, torch.complex64):
        return f"{what} is {_name(fake.dtype)}; the complex cores support complex64 and float32"
    if any(isinstance(size, (torch.SymInt, Size)) for size in fake.shape):
        return f"{what} has a dynamic size; the complex cores support static sizes only"
    if fake.dtype is torch.float32:
        return refuse_float(node, what)
    if fake.layout is not torch.strided or fake.device.type not in DEVICES:
        return f"{what} is on {fake.device} ({fake.layout}), not a strided tensor of the host or the card"
    if not 0 < fake.numel() < 1 << 29:
        return f"{what} has no elements" if fake.numel() == 0 else f"{what} has 2^29 elements or more"
    return None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _named(dtypes: Collection[torch.dtype]) -> str:
    *most, last = sorted(map(_name, dtypes))
    return f"{', '.join(most)} and {last}"


def operand(node: Node, position: int) -> Node:
    """A tensor argument of an ATen call."""
    given = node.args[position]
    assert isinstance(given, Node), f"argument {position} of {node} is not a tensor"
    return given


def arguments(node: Node) -> tuple[Any, ...]:
    """Positional arguments of an ATen call, whose types its schema gives."""
    return node.args


def evaluated(node: Node, known: Mapping[Node, Any]) -> Any:
    """What the operator of `node` returns for the values of its operands in `known`."""
    target: Any = node.target
    args, kwargs = map_arg((node.args, node.kwargs), known.__getitem__)
    return target(*args, **kwargs)


def argument(node: Node, name: str, position: int, default: Any = None) -> Any:
    """Argument of an ATen call by position or keyword."""
    if len(node.args) > position:
        return node.args[position]
    return node.kwargs.get(name, default)


def pair(sizes: Any) -> tuple[int, int]:
    """A (height, width) pair from an ATen argument of one or two numbers."""
    values = [sizes] if isinstance(sizes, int) else list(sizes)
    return (int(values[0]), int(values[-1]))


def normalise_dims(dims: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
    """Dimensions from 0 up, sorted; None or nothing means all. A scalar has none, though 0 and -1 may be asked for."""
    if not rank or dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return tuple(range(rank))
    return tuple(sorted({d % rank for d in ([dims] if isinstance(dims, int) else dims)}))
