"""The ATen graph of a whole model as lowering gets it, for tools that do not run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from fpga_dynamo.errors import NotLoweredError
from fpga_dynamo.frontend.dropouts import drop_idle_dropouts
from fpga_dynamo.lowering.tracing.decompose import DECOMPOSITIONS, kept_whole
from fpga_dynamo.lowering.tracing.strides import settle_strides
from fpga_dynamo.torch_internals.aot import aot_autograd, graph_facts, mark_boxed
from fpga_dynamo.torch_internals.frames import unrolling_recurrent_layers


@dataclass(frozen=True)
class Captured:
    """A graph, the positions of parameters and buffers among its placeholders, what these were, and its results."""

    module: GraphModule
    static: tuple[int, ...]
    arguments: tuple[Any, ...]
    results: tuple[Any, ...]

    def tensors(self) -> dict[Node, Any]:
        """What each placeholder was."""
        placeholders = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        return dict(zip(placeholders, self.arguments, strict=True))


def capture(model: torch.nn.Module, inputs: Sequence[Any]) -> Captured:
    """Traces `model` in inference, and calls it once in eager. Raises NotLoweredError if it is more than one graph.

    Sizes are those of `inputs`, however many of the same model have been traced before.
    """
    found: list[Captured] = []

    def compiler(module: GraphModule, _: Sequence[Any]) -> Callable[[list[Any]], Any]:
        settle_strides(module)
        facts = graph_facts()

        def run(arguments: list[Any]) -> Any:
            given = tuple(arguments)
            arguments.clear()
            results = Interpreter(module).run(*given)
            found.append(Captured(module, () if facts is None else tuple(facts.static), given, tuple(results)))
            return results

        mark_boxed(run)
        return run

    def backend(gm: GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        drop_idle_dropouts(gm)
        with kept_whole():
            traced = aot_autograd(
                fw_compiler=compiler,
                bw_compiler=compiler,
                inference_compiler=compiler,
                decompositions=DECOMPOSITIONS,
            )
            return traced(gm, list(examples))

    with torch.no_grad(), unrolling_recurrent_layers():
        compiled = torch.compile(model, backend=backend, dynamic=False, isolate_recompiles=True)  # type: ignore[call-overload]
        compiled(*inputs)
    if len(found) != 1:
        raise NotLoweredError(
            f"Dynamo splits the model into {len(found)} graphs, and exactly one is supported here: "
            "TORCH_LOGS=graph_breaks shows the graph breaks"
        )
    return found[0]
