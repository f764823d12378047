"""`fpga_dynamo.export`: a model as a directory that runs without Python."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from fpga_dynamo.deployment import sources
from fpga_dynamo.deployment.capture import ModelGraph, capture_program, exported_program
from fpga_dynamo.deployment.document import Files, write
from fpga_dynamo.deployment.errors import ExportError
from fpga_dynamo.deployment.weight_recipe import FILE as RECIPE
from fpga_dynamo.frontend.platform import with_recipe
from fpga_dynamo.ir.program import Program
from fpga_dynamo.ir.sizes.graph import sized_graph, sources_of
from fpga_dynamo.ir.sizes.size import SizeError
from fpga_dynamo.lowering.passes.pipeline import lower
from fpga_dynamo.lowering.tracing.specialise import has_symbols
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.cards.card import xclbin_path
from fpga_dynamo.runtime.cards.target import read_target
from fpga_dynamo.torch_internals.tracing import hint_of


def export(
    model: Any,
    args: Sequence[Any] = (),
    directory: str | Path = "exported",
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    dtype: str | torch.dtype | None = None,
    options: Mapping[str, Any] | None = None,
    isa: str | None = None,
) -> Path:
    """Writes `model` as a directory that a C++ compiler builds, and that runs without Python and PyTorch.

    model: a module in eval mode; a program of ``torch.export``; or the path of a .pt2 file.
    args, kwargs: an example call of the module. The inputs of the exported model have its shapes and strides.
    dynamic_shapes: sizes that may change from call to call, as of ``torch.export.export``.
    dtype: float32, float16 or bfloat16 for all floating-point parameters and inputs. None leaves them as they are.
    options: the xclbin, platform or recipe, and how a graph is lowered; see :class:`fpga_dynamo.Options`. The default
    of ``partition`` is ``greedy`` here.
    isa: instruction set that the emulator's kernels are compiled for, such as ``aarch64`` or ``x86-64-v3``; None is
    that of this machine.

    The directory has the program, its weights, the xclbin, and sources that build into a library and an example. Its
    README.md lists the files. A directory that an earlier export wrote is replaced. Returns its path.

    Raises :class:`fpga_dynamo.ExportError` for a model that needs eager mode at run time, with every node and reason;
    for one that cannot be traced; and for a directory that has other files. XclbinError, OptionError as torch.compile.
    """
    path = _target_directory(directory)
    parsed = parse_options(options or {})
    if isa is not None and parsed.xclbin is not None:
        raise ExportError(f"isa '{isa}' has no effect on option 'xclbin', whose kernels are compiled; leave one out")
    program = exported_program(model, args, kwargs, dynamic_shapes, dtype)
    name = type(model).__name__ if isinstance(model, torch.nn.Module) else "a program of torch.export"
    if isinstance(model, (str, Path)):
        name = Path(model).name
    graph = capture_program(program, name)
    examples = [*program.state_dict.values()]
    xclbin = xclbin_path(with_recipe(parsed, graph.module, examples), isa)
    files = write(graph, *lowered(graph, parsed, xclbin), made_by(graph))
    _write(path, files, xclbin)
    return path


def save(
    program: ExportedProgram,
    path: str | Path,
    *,
    options: Mapping[str, Any] | None = None,
    isa: str | None = None,
) -> Path:
    """Writes a program of ``torch.export`` as the directory `path`, for :func:`load`; as :func:`export` otherwise.

    Raises :class:`fpga_dynamo.ExportError` for anything else than a program, and as :func:`export`.
    """
    if not isinstance(program, ExportedProgram):
        raise ExportError(
            f"save accepts a program of torch.export, not {type(program).__name__}; fpga_dynamo.export(model, args, "
            "directory) traces a module"
        )
    return export(program, directory=path, options=options, isa=isa)


def parse_options(given: Mapping[str, Any]) -> Options:
    """Options of lowering with the defaults of an export.

    Raises OptionError as ``torch.compile``, ExportError for those that have no effect on an exported model.
    """
    parsed = Options.parse({"partition": "greedy", **given})
    if parsed.verify or parsed.granularity != "launch":
        raise ExportError("options 'verify' and 'granularity' have no effect on an exported model; leave them out")
    return parsed


def lowered(graph: ModelGraph, options: Options, xclbin: Path) -> tuple[Program, dict[str, tuple[int, int]]]:
    """The program of a graph, and of each symbol the position of the input and the dimension that it is."""
    module, inputs = _with_sizes(graph)
    return lower(module, read_target(xclbin), options, tuple(graph.tensors)), inputs


def made_by(graph: ModelGraph) -> str:
    """What the files of an exported model say of where they come from."""
    return f"fpga_dynamo {version('fpga_dynamo')} made this from {graph.name}"


def _with_sizes(graph: ModelGraph) -> tuple[GraphModule, dict[str, tuple[int, int]]]:
    """The graph that is lowered, and of each symbol the input and dimension that it is."""
    if not has_symbols(graph.module):
        return graph.module, {}
    try:
        found = sources_of(graph.module)
        first = len(graph.tensors)
        inputs = {name: (position - first, d) for name, (position, d) in found.items() if d is not None}
        placeholders = [node for node in graph.module.graph.nodes if node.op == "placeholder"]
        hints = [hint_of(placeholders[position].meta["val"].shape[d or 0]) for position, d in found.values()]
        return sized_graph(graph.module, list(found), hints), inputs
    except SizeError as error:
        raise ExportError(
            f"the model's sizes cannot change from call to call: {error}; export it without dynamic_shapes"
        ) from error


def _target_directory(directory: str | Path) -> Path:
    path = Path(directory)
    if path.exists() and not path.is_dir():
        raise ExportError(f"'{path}' is a file; give the name of a directory")
    if path.is_dir() and any(path.iterdir()) and not (path / "model.json").is_file():
        raise ExportError(f"directory '{path}' has other files than an exported model's; give an empty or a new one")
    if not path.absolute().parent.is_dir():
        raise ExportError(f"there is no directory '{path.absolute().parent}'; make it first")
    return path


def _write(path: Path, files: Files, xclbin: Path) -> None:
    """All files under another name first, so that nobody sees half of them."""
    try:
        with tempfile.TemporaryDirectory(dir=path.absolute().parent, prefix=f".{path.name}.") as temporary:
            fresh = Path(temporary) / "model"
            fresh.mkdir()
            (fresh / "model.json").write_text(files.text())
            (fresh / "commands.bin").write_bytes(files.commands)
            files.weights.numpy().tofile(fresh / "weights.bin")
            (fresh / RECIPE).write_text(json.dumps(files.recipe))
            shutil.copyfile(xclbin, fresh / "model.xclbin")
            sources.write(fresh, files.document)
            if path.exists():
                path.rename(Path(temporary) / "old")
            fresh.rename(path)
    except OSError as error:
        raise ExportError(f"directory '{path}' cannot be written: {error.strerror or error}") from error
