"""Random model graphs: a hypothesis strategy whose values are small and print as a Python module that one can read.

A graph is a list of instructions in text. While one is drawn, every instruction is run at once on sample inputs, so
the strategy knows the shapes and never draws an invalid program. The text is the only definition of the model: the
fuzzer compiles it, and a repro script contains it.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import reject
from hypothesis import strategies as st

from fpga_dynamo.testing import operators
from fpga_dynamo.testing.builder import Builder, Draw, Instruction, NotApplicable
from fpga_dynamo.testing.calls import call_once
from fpga_dynamo.testing.inputs import BATCHES, input_lists


@dataclass(frozen=True)
class Graph:
    """One random model: how its inputs are made, what it computes, what it returns.

    grad: gradients are on; backward: they are taken, too; train: batch norm and dropout are in training mode.
    fixed_inputs: the inputs need no gradient; frozen: every second parameter needs none.
    batches: batch sizes of the inputs' `n`, one after the other in as many calls.
    dynamic: all sizes are symbols from the first call on, not those alone that are seen to change.
    dtype: what parameters and floating inputs are of, a name of torch's.
    """

    inputs: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    result: str
    grad: bool = False
    backward: bool = False
    train: bool = False
    fixed_inputs: bool = False
    frozen: bool = False
    batches: tuple[int, ...] = (2,)
    dynamic: bool = False
    dtype: str = "float32"

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(instruction.operator for instruction in self.instructions)

    def source(self) -> str:
        """Defines `class Model(torch.nn.Module)` and `make_inputs(seed)`; needs nothing but torch."""
        constructors = [f"        self.{i.target}_op = {i.module}" for i in self.instructions if i.module and i.target]
        statements = [f"        {i.target} = {i.call}" if i.target else f"        {i.call}" for i in self.instructions]
        names = [f"x{position}" for position in range(len(self.inputs))]
        other = self.dtype != "float32"
        return "\n".join(
            [
                "import torch",
                "import torch.nn.functional as F",
                "",
                "",
                "class Model(torch.nn.Module):",
                "    def __init__(self):",
                "        super().__init__()",
                "        torch.manual_seed(0)",
                *constructors,
                *(_RANDOMISE if any("BatchNorm" in line for line in constructors) else []),
                *(_FREEZE if self.frozen else []),
                *([f"        self.to(torch.{self.dtype})"] if other else []),
                f"        self.{'train' if self.train else 'eval'}()",
                "",
                f"    def forward(self, {', '.join(names)}):",
                *statements,
                f"        return {self.result}",
                "",
                "",
                "def make_inputs(seed):",
                "    torch.manual_seed(seed)",
                *([f"    n = {self.batches}[seed % {len(self.batches)}]"] if self.is_batched else []),
                *([f"    torch.set_default_dtype(torch.{self.dtype})"] if other else []),
                *(f"    {name} = {made}" for name, made in zip(names, self.inputs, strict=True)),
                *(["    torch.set_default_dtype(torch.float32)"] if other else []),
                f"    return ({', '.join(names)},)",
                "",
            ]
        )

    @property
    def gradients(self) -> dict[str, bool]:
        """What a call is told about gradients."""
        return {"grad": self.grad, "backward": self.backward, "fixed_inputs": self.fixed_inputs}

    @property
    def is_batched(self) -> bool:
        """Whether the shape of an input depends on the batch size."""
        return any(re.search(r"\bn\b", made) for made in self.inputs)

    @property
    def calls(self) -> int:
        """How many calls show all that there is: each batch size, and at least a second one."""
        return max(2, len(self.batches))

    def define(self) -> tuple[type[torch.nn.Module], Callable[[int], tuple[Any, ...]]]:
        """The model's class and `make_inputs`, from the source."""
        return define(self.source())

    def __repr__(self) -> str:
        return self.source()


_RANDOMISE = [
    "        for module in self.modules():",
    "            if isinstance(module, torch.nn.BatchNorm2d):",
    "                module.running_mean.normal_()",
    "                module.running_var.uniform_(0.5, 2.0)",
    "                if module.affine:",
    "                    torch.nn.init.uniform_(module.weight, 0.5, 1.5)",
    "                    torch.nn.init.normal_(module.bias)",
]
_FREEZE = [
    "        for parameter in list(self.parameters())[1::2]:",
    "            parameter.requires_grad_(False)",
]


def define(source: str) -> tuple[type[torch.nn.Module], Callable[[int], tuple[Any, ...]]]:
    """Runs the source of a graph. Tracebacks and `explain` can show its lines."""
    filename = f"<fuzz graph {hash(source) & 0xFFFFFFFF:08x}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "fuzz_graph"}
    exec(compile(source, filename, "exec"), namespace)
    return namespace["Model"], namespace["make_inputs"]


def step(builder: Builder, only: str | None = None) -> None:
    """Draws one operator, or that called `only`, and its operands; adds nothing if they do not fit."""
    usable = [op for op in operators.TABLE if only in (None, op.name) and builder.candidates(op.suits)]
    op = builder.draw(st.sampled_from(usable))
    builder.current = op.name
    try:
        op.build(builder)
    except NotApplicable:
        return


@st.composite
def _step(draw: Draw, builder: Builder) -> bool:
    """One drawn span holds both the wish for an instruction and the instruction, so that shrinking removes both."""
    stop = draw(st.integers(0, 31)) == 0
    if stop and builder.instructions:
        return False
    builder.draw = draw
    step(builder)
    return True


@st.composite
def graphs(draw: Draw, max_instructions: int = 12, *, winograd: bool = False, dtype: str = "float32") -> Graph:
    """Whole model graphs of up to `max_instructions` instructions over one to three inputs, at times one more in the
    memory of another.

    With `winograd` they begin with a convolution that Winograd's method can do. Parameters and floating inputs are of
    `dtype`, the name of a torch dtype; graphs that eager mode does not run in it are not drawn.
    """
    inputs = draw(input_lists(winograd=winograd))
    batches = draw(st.sampled_from(BATCHES))
    names = [f"x{i}" for i in range(len(inputs))]
    made = define(Graph(inputs, (), names[0], batches=batches).source())[1](0)
    builder = Builder(draw, list(names), list(made))
    if winograd:
        step(builder, "conv3x3")
    for _ in range(2 * max_instructions):  # some steps find no operand and add nothing
        if len(builder.instructions) == max_instructions or not draw(_step(builder)):
            break
    builder.draw = draw
    results = [builder.names[-1], *(builder.unused() if draw(st.booleans()) else ())]
    for _ in range(draw(st.integers(0, 2))):
        results.append(draw(st.sampled_from(builder.names[::-1])))
    instructions, result = tuple(builder.instructions), _nest(draw, results)
    mode, dynamic = draw(st.sampled_from(MODES)), draw(st.integers(0, 7)) == 7
    if mode.get("backward") and not any(i.operator == "group_norm" for i in instructions):
        # Eager mode's kernel for a channels-last group norm writes the gradients that nobody wants, too: to address 0.
        mode = mode | {"fixed_inputs": draw(st.booleans()), "frozen": draw(st.booleans())}
    graph = Graph(inputs, instructions, result, batches=batches, dynamic=dynamic, dtype=dtype, **mode)
    graph = _as_far_as_it_runs(graph)
    if dtype != "float32" and not _runs(graph):
        reject()
    return graph


MODES: tuple[dict[str, bool], ...] = (*[{}] * 5, {"grad": True}, {"backward": True}, {"backward": True, "train": True})
"""What is drawn of a graph's `grad`, `backward` and `train`. Which gradients nobody wants is drawn besides."""


def _as_far_as_it_runs(graph: Graph) -> Graph:
    """The graph without what eager refuses: gradients, training, batch sizes that instructions do not suit."""
    if not graph.is_batched:
        graph = replace(graph, batches=graph.batches[:1])
    for simpler in (
        {"backward": False, "train": False, "fixed_inputs": False, "frozen": False},
        {"batches": graph.batches[:1]},
    ):
        if _runs(graph):
            break
        graph = replace(graph, **simpler)
    return graph


def _runs(graph: Graph) -> bool:
    """Whether eager takes it. In float32, without gradients and with one batch size it does: instructions were run when
    drawn."""
    if not graph.backward and len(graph.batches) == 1 and graph.dtype == "float32":
        return True
    model, make_inputs = graph.define()
    try:
        for call in range(len(graph.batches)):
            instance = model()
            call_once(instance, instance, make_inputs(call), **graph.gradients)
    except (RuntimeError, IndexError, TypeError, ValueError):
        return False
    return True


def _nest(draw: Draw, results: list[str]) -> str:
    if len(results) == 1 and draw(st.integers(0, 3)) < 3:
        return results[0]
    style = draw(st.sampled_from(("tuple", "dict", "nested")))
    if style == "dict":
        return "{" + ", ".join(f"'out{i}': {name}" for i, name in enumerate(results)) + "}"
    if style == "nested":
        return f"[{results[0]}, ({', '.join(results)},)]"
    return f"({', '.join(results)},)"
