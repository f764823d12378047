"""The file that is saved after an internal error (runtime/internal_errors.py), so that others can repeat it.

A Python script with the graph as readable FX code, its inputs without their values, options, versions and the
traceback; run by itself it compiles the graph with nothing to fall back on.
"""

from __future__ import annotations

import hashlib
import platform
import tempfile
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from fpga_dynamo.ir.graph import hints
from fpga_dynamo.ir.sizes.graph import SOURCE
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.observe.graph_source import class_source, header
from xclbin_build import atomic_file
from xclbin_build.cache import folder


@dataclass(frozen=True)
class Case:
    """What is being compiled: one of Dynamo's graphs, or one that AOTAutograd has made of it.

    inputs: tensors (fake ones will do) and numbers; None are those that the graph was traced with.
    static: positions of parameters and buffers; saved: of a training step's graph, which outputs its backward is given.
    """

    module: GraphModule
    options: Options
    inputs: Sequence[Any] | None = None
    static: Collection[int] = ()
    saved: slice | None = None
    from_dynamo: bool = False

    def called_with(self, args: Sequence[Any]) -> Case:
        return replace(self, inputs=args)


def save(error: Exception, case: Case) -> Path:
    """Writes the script and returns its path: in ``dump_dir`` if that is given, else in the cache's directory."""
    text = script(error, case)
    name = f"reproduction-{hashlib.sha256(text.encode()).hexdigest()[:12]}.py"
    try:
        directory = Path(case.options.dump_dir) if case.options.dump_dir else folder("reproductions")
        directory.mkdir(parents=True, exist_ok=True)
        atomic_file.write(directory / name, text)
    except OSError:
        directory = Path(tempfile.mkdtemp(prefix="fpga_dynamo-"))
        atomic_file.write(directory / name, text)
    return directory / name


def script(error: Exception, case: Case) -> str:
    """The text of the file."""
    module = case.module.meta.get(SOURCE, case.module)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    given = [_traced_value(node) for node in placeholders] if case.inputs is None else case.inputs
    inputs = [f"    {_input(value)},  # {node}" for node, value in zip(placeholders, given, strict=False)]
    chosen = {f.name: getattr(case.options, f.name) for f in fields(Options)}
    options = {name: value for name, value in chosen.items() if value != getattr(Options(), name)}
    options.pop("dump_dir", None)
    saved = None if case.saved is None else (case.saved.start, case.saved.stop)
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    imports, source = header(module), class_source("Graph", module)
    return "\n".join(
        [
            '"""A graph that fpga_dynamo failed to compile. Run it: python FILE',
            "",
            f"torch {torch.__version__}, Python {platform.python_version()} on {platform.machine()}; the error was",
            "",
            *trace.replace("\\", "\\\\").replace('"""', "'''").splitlines(),
            '"""',
            "",
            *imports,
            "",
            "from fpga_dynamo.frontend.reproduce import random_tensor, reproduce",
            "",
            "",
            source,
            "",
            "INPUTS = [",
            *inputs,
            "]",
            "",
            'if __name__ == "__main__":',
            f"    reproduce(Graph(), INPUTS, options={options!r}, static={sorted(case.static)!r}, saved={saved!r}, "
            f"from_dynamo={case.from_dynamo!r})",
            "",
        ]
    )


def _traced_value(node: Any) -> Any:
    return node.meta.get("val", node.meta.get("example_value"))


def _input(value: Any) -> str:
    """An expression for something like `value`."""
    if isinstance(value, torch.Tensor):
        shape, strides = (hints(numbers) or tuple(1 for _ in numbers) for numbers in (value.shape, value.stride()))
        grad = ", requires_grad=True" if value.requires_grad else ""
        return f"random_tensor({shape}, {strides}, {value.dtype}{grad})"
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        found = hints([value]) if isinstance(value, torch.SymInt) else None
        return repr(found[0] if found else 2)
    return repr(value)
