"""What ``aot_compile`` saves of each of AOTAutograd's graphs, and a process that loads it makes of that.

PyTorch keeps its own part (guards, wrappers) and pickles the rest: the ATen graph as it was before lowering, and the
cache's entry for its program, so that nothing is lowered where the xclbin is the same. A file must be trusted, as any
pickle must.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from typing import Any

from torch.fx import Graph, GraphModule

from fpga_dynamo.cache.artifacts import FpgaProgramArtifact
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.graph import TRACED_STRIDES
from fpga_dynamo.ir.target import Target
from fpga_dynamo.options import Options
from fpga_dynamo.torch_internals.aot import mark_boxed
from fpga_dynamo.torch_internals.serialization import GraphPickler, OutputCode, pickler_options
from fpga_dynamo.torch_internals.tracing import fake_mode

_KEPT = ("val", "stack_trace", TRACED_STRIDES)
"""Of a node's meta what lowering reads."""


class Snapshot:
    """A graph that is about to be lowered, as bytes. static, saved: see :class:`reproduction.Case`."""

    def __init__(self, module: GraphModule, static: Collection[int], saved: slice | None) -> None:
        options = pickler_options(_KEPT.__contains__)
        graph = Graph()
        graph.output(graph.graph_copy(module.graph, {}))
        # Only what the graph needs of the module: tracing adds attributes that cannot be pickled.
        try:
            self._graph = GraphPickler.dumps(GraphModule(module, graph), options)
        except Exception as error:  # of whatever kind: PyTorch's pickler has many
            raise FpgaError(
                f"aot_compile cannot save a graph ({error}); without gradients (torch.no_grad()) most graphs can be"
            ) from error
        self.static = sorted(static)
        self.saved = saved

    def graph(self) -> GraphModule:
        """The graph on fake tensors of a mode of its own."""
        module = GraphPickler.loads(self._graph, fake_mode())
        assert isinstance(module, GraphModule)
        module.recompile()
        return module


Load = Callable[
    [Callable[[], GraphModule], Collection[int], "slice | None", Options], tuple[Callable[[list[Any]], Any], Target]
]
"""(graph, static inputs, saved outputs, options) -> what runs the graph, and the target that it runs on."""


class FpgaCode(OutputCode):
    """A compiled graph that can be pickled; AOTAutograd calls it with a list that it may clear.

    programs: entries of the disk cache, by key. load: a module-level function, which pickling refers to by name.
    """

    def __init__(
        self,
        run: Callable[[list[Any]], Any],
        snapshot: Snapshot,
        programs: Sequence[tuple[str, bytes]],
        target: Target,
        options: Options,
        load: Load,
    ) -> None:
        super().__init__()
        mark_boxed(self)  # of the instance, whose attributes AOTAutograd copies to its wrapper
        self._run: Callable[[list[Any]], Any] | None = run
        self._load = load
        self._snapshot = snapshot
        self._programs = list(programs)
        self._uuid = target.uuid
        self._options = {**asdict(options), "disable": list(options.disable)}

    def __call__(self, inputs: Any) -> Any:
        assert self._run is not None, "call post_compile before the compiled function"
        return self._run(inputs)

    def prepare_for_serialization(self) -> None:
        self._run = None

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Makes it callable where it was loaded."""
        if self._run is None:
            for key, content in self._programs:
                FpgaProgramArtifact(key, content).adopt()
            options = Options.parse(self._options)
            self._run, target = self._load(self._snapshot.graph, self._snapshot.static, self._snapshot.saved, options)
            if target.uuid != self._uuid:
                warnings.warn(
                    f"a function compiled ahead of time for xclbin {self._uuid} is lowered again for xclbin "
                    f"{target.uuid}, which this card holds; compile and save it again with this xclbin",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There are no Triton kernels."""
