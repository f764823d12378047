"""Models by name: torchvision's, timm's, or what `module:callable` or `file.py:callable` gives; no weights are loaded.

A model comes with example inputs, so that `fpga-dynamo run NAME` needs nothing else.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import os
import stat
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.onnx import OnnxError, from_onnx, named_sizes
from xclbin_build.trusted_path import check_named

_BATCH_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)


class ModelNotFoundError(FpgaError):
    """No model of that name, or the package that has it is missing."""


class ModelError(FpgaError):
    """A model that does not accept its inputs in eager mode."""


@dataclass(frozen=True)
class ZooModel:
    """A model in eval mode, with random weights, and inputs for it, of `batch` items."""

    name: str
    model: torch.nn.Module
    inputs: tuple[Any, ...]
    batch: int = 1


# torchvision


@functools.cache
def import_torchvision() -> ModuleType:
    """Imports torchvision, also beside a torch that its compiled part was not built for.

    torchvision declares two detection operators in Python as it is imported. Where its shared library cannot be
    loaded (a CUDA wheel beside a CPU torch) they do not exist and the import fails; so they get declared here first.
    Classification models need neither.
    """
    found = importlib.util.find_spec("torchvision")
    if found is None or not found.submodule_search_locations:
        raise ModelNotFoundError("torchvision is not installed: pip install --no-deps torchvision")
    if not _load_torchvision_operators(next(iter(found.submodule_search_locations))):
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _kept_libraries.append(library)
    return importlib.import_module("torchvision")


_kept_libraries: list[torch.library.Library] = []  # an operator lives as long as the library that declares it


def _load_torchvision_operators(folder: str) -> bool:
    """True if torchvision's own shared library declares the operators."""
    for entry in sorted(os.listdir(folder)):
        if entry.startswith("_C") and entry.endswith((".so", ".pyd", ".dylib")):
            try:
                torch.ops.load_library(os.path.join(folder, entry))
            except OSError:
                continue
    return hasattr(torch.ops.torchvision, "nms")


def _torchvision_builders() -> dict[str, Callable[..., torch.nn.Module]]:
    """Builders of the models that take one batch of images."""
    models: Any = importlib.import_module("torchvision.models")
    packages = (models, models.segmentation)
    return {name: models.get_model_builder(name) for package in packages for name in models.list_models(module=package)}


def _torchvision_model(name: str, batch: int) -> ZooModel:
    builder = _torchvision_builders()[name]
    arguments: dict[str, Any] = {"weights": None}
    if name in ("inception_v3", "googlenet"):
        arguments["init_weights"] = False  # the paper's truncated normal takes long, and any weights will do
    module = builder.__module__.removeprefix("torchvision.models.")
    if module.startswith("segmentation"):
        arguments["weights_backbone"] = None
    size = 299 if name == "inception_v3" else 224
    return ZooModel(name, builder(**arguments), (torch.randn(batch, 3, size, size),), batch)


# timm


def _timm_model(name: str, batch: int) -> ZooModel | None:
    if importlib.util.find_spec("timm") is None:
        return None
    timm: Any = importlib.import_module("timm")
    if name not in timm.list_models():
        return None
    model = timm.create_model(name, pretrained=False)
    return ZooModel(name, model, (torch.randn(batch, *model.default_cfg["input_size"]),), batch)


# module:callable


def resolve(reference: str) -> Any:
    """What `module:name` or `file.py:name` means; raises ModelNotFoundError with a sentence for whatever goes wrong."""
    module_name, _, attribute = reference.rpartition(":")
    _import_from(os.getcwd())
    if not module_name or not attribute:
        raise ModelNotFoundError(f"'{reference}' is not module:callable")
    try:
        module = _of_file(module_name) if module_name.endswith(".py") else importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise ModelNotFoundError(f"cannot import '{module_name}' for '{reference}': {_one_line(error)}") from error
    try:
        return functools.reduce(getattr, attribute.split("."), module)
    except AttributeError as error:
        near = difflib.get_close_matches(attribute, dir(module), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ModelNotFoundError(f"module '{module_name}' has no '{attribute}'{hint}") from error


def _of_file(name: str) -> ModuleType:
    """The module in a file, whose folder counts as it does for ``python FILE``."""
    path = os.path.abspath(name)
    if not os.path.isfile(path):
        raise ImportError("the file does not exist")
    folder, stem = os.path.dirname(path), os.path.splitext(os.path.basename(path))[0]
    known = sys.modules.get(stem)
    if known is not None and getattr(known, "__file__", None) == path:
        return known
    check_named(path, "model file")
    _import_from(folder)
    spec = importlib.util.spec_from_file_location(stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(stem, module)  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if known is None:
            del sys.modules[stem]
        raise
    return module


def _import_from(folder: str) -> None:
    """Has modules found in a folder, unless anybody can put some there."""
    if folder not in sys.path and not os.stat(folder).st_mode & stat.S_IWOTH:
        sys.path.insert(0, folder)


def called(reference: str) -> Any:
    """What the callable of `reference` gives; raises ModelNotFoundError with a sentence for whatever goes wrong."""
    factory = resolve(reference)
    if not callable(factory):
        raise ModelNotFoundError(f"'{reference}' is a {type(factory).__name__}, not a callable that returns a model")
    return _call(reference, reference.rpartition(":")[2], factory)


def _call(reference: str, name: str, factory: Callable[[], Any]) -> Any:
    try:
        return factory()
    except (Exception, SystemExit) as error:
        raise ModelNotFoundError(f"'{reference}': {name}() raised {_one_line(error)}") from error


def call(example: ZooModel) -> Any:
    """What eager mode computes. Raises ModelError with a sentence where the model does not accept its inputs."""
    try:
        return example.model(*example.inputs)
    except (Exception, SystemExit) as error:
        raise ModelError(f"'{example.name}' fails in eager mode: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    """An error in a line, with the innermost line of a file that it comes from."""
    words = " ".join(str(error).split()) or "no message"
    if isinstance(error, SystemExit):
        words = f"sys.exit({error.code!r}), which ends the program"
    if isinstance(error, ImportError):
        return words
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {words}{place}"


def _model_of_callable(reference: str, batch: int) -> ZooModel:
    """`reference` is package.module:callable; the callable gives a module, or a module and its inputs.

    Inputs that come with the model are repeated along their first dimension to make the batch, which is as many items
    as the first tensor has then. A module alone must have an `example_inputs(batch)` method.
    """
    made = called(reference)
    if isinstance(made, torch.nn.Module):
        example = getattr(made, "example_inputs", None)
        if example is None:
            raise ModelNotFoundError(
                f"'{reference}' returns a module without inputs: return (module, inputs), "
                "or give the module a method example_inputs(batch)"
            )
        return ZooModel(
            reference, made, _inputs(reference, _call(reference, "example_inputs", lambda: example(batch))), batch
        )
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module)):
        raise ModelNotFoundError(f"'{reference}' returns a {type(made).__name__}, not a module or (module, inputs)")
    inputs = _inputs(reference, made[1])
    if batch != 1:
        inputs = _call(reference, "the batch", lambda: tuple(_repeat_batch(x, batch) for x in inputs))
    items = next((len(x) for x in inputs if isinstance(x, torch.Tensor) and x.dim()), batch)
    return ZooModel(reference, made[0], inputs, items)


def _repeat_batch(x: Any, batch: int) -> Any:
    return x.repeat(batch, *[1] * (x.dim() - 1)) if isinstance(x, torch.Tensor) and x.dim() else x


def _inputs(reference: str, given: Any) -> tuple[Any, ...]:
    """A model's positional arguments; a tensor by itself is one, and is not taken apart into its rows."""
    if isinstance(given, torch.Tensor):
        return (given,)
    if not isinstance(given, (tuple, list)):
        raise ModelNotFoundError(
            f"'{reference}' returns inputs of type {type(given).__name__}, not a tensor or a tuple"
        )
    return tuple(given)


# torch.export


EXPORTED = ".pt2"
"""Ending of the files of `torch.export.save`."""


def _exported_model(name: str, batch: int) -> ZooModel:
    """A program that `torch.export.save` has written, with its example inputs, which say the batch size."""
    path = Path(name)
    if not path.is_file():
        raise ModelNotFoundError(f"'{name}' does not exist")
    check_named(path, "model file")
    try:
        program = torch.export.load(path)
    except Exception as error:
        raise ModelNotFoundError(f"'{name}' is not a program of torch.export.save: {_one_line(error)}") from error
    if program.example_inputs is None:
        raise ModelNotFoundError(f"'{name}' has no example inputs: export it again with inputs")
    inputs, keywords = program.example_inputs
    if keywords:
        raise ModelNotFoundError(f"'{name}' has keyword inputs ({', '.join(keywords)}): export it with positional ones")
    items = next((len(x) for x in inputs if isinstance(x, torch.Tensor) and x.dim()), 1)
    if batch not in (1, items):
        raise ModelNotFoundError(f"'{name}' has batch size {items}, not {batch}: export it with that batch size")
    return ZooModel(name, program.module(), tuple(inputs), items)


def is_quantized(model: torch.nn.Module) -> bool:
    """Whether a model is, or has, a graph that rounds to integers: it exists in float32 only."""
    graphs = (module.graph for module in model.modules() if isinstance(module, torch.fx.GraphModule))
    return any("quantized_decomposed" in str(node.target) for graph in graphs for node in graph.nodes)


ONNX = ".onnx"


def _onnx_model(name: str, batch: int) -> ZooModel:
    """The model of an ONNX file; sizes that the file only names are those of a batch."""
    try:
        open_sizes = named_sizes(name)
        model = from_onnx(name, dict.fromkeys(open_sizes, batch))
    except OnnxError as error:
        raise ModelNotFoundError(str(error)) from error
    given = model.meta["inputs"]
    inputs = tuple(torch.randn_like(x) if x.is_floating_point() else x for x in given)
    items = next((len(x) for x in inputs if x.dim()), 1)
    if batch not in (1, items):
        raise ModelNotFoundError(f"'{name}' has batch size {items}, not {batch}: export it with that batch size")
    return ZooModel(name, model, inputs, items)


def load(name: str, batch: int = 1, seed: int = 0) -> ZooModel:
    """The model called `name`: a torchvision or timm name, `module:callable` (see `_model_of_callable`), .pt2 or .onnx.

    It is in eval mode and has the random weights and inputs that `seed` gives. Raises `ModelNotFoundError` with the
    nearest known names for an unknown one.
    """
    torch.manual_seed(seed)
    try:
        if name.endswith(EXPORTED):
            found = _exported_model(name, batch)
        elif name.endswith(ONNX):
            found = _onnx_model(name, batch)
        else:
            found = _model_of_callable(name, batch) if ":" in name else _model_by_name(name, batch)
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, FpgaError):
            raise
        raise ModelNotFoundError(f"'{name}' cannot be created for batch size {batch}: {_one_line(error)}") from error
    if not name.endswith(EXPORTED):  # a graph has one mode, that of its export
        found.model.eval()
    return found


def _model_by_name(name: str, batch: int) -> ZooModel:
    known: list[str] = []
    missing = ""
    try:
        import_torchvision()
        known = list(_torchvision_builders())
    except ModelNotFoundError as error:
        missing = f" ({error})"
    if name in known:
        return _torchvision_model(name, batch)
    found = _timm_model(name, batch)
    if found is not None:
        return found
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise ModelNotFoundError(
        f"no model '{name}' in torchvision or an installed timm{hint}{missing} (own models: module:callable)"
    )


_NEARLY_ZERO = 0.15
"""Of parameters that training makes larger."""


def randomise_tokens(model: torch.nn.Module) -> torch.nn.Module:
    """Gives tokens, tables of positions and layer scales of `model` that begin as nearly zero values as training would.

    Those are parameters of modules outside of torch.nn. Of zeros no calibration tells a range.
    """
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for module in model.modules():
            if type(module).__module__.startswith("torch.nn."):
                continue
            for parameter in module.parameters(recurse=False):
                if parameter.is_floating_point() and parameter.numel() and float(parameter.abs().max()) < _NEARLY_ZERO:
                    parameter.normal_(0.0, 0.5, generator=generator)
    return model


def randomise_batch_norm(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Gives every batch norm of `model` statistics and weights as training would: none of them is the identity.

    Fresh models have mean 0, variance 1, scale 1 and shift 0, with which a wrong folding goes unseen.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if not isinstance(module, _BATCH_NORMS) or module.running_mean is None or module.running_var is None:
                continue
            module.running_mean.normal_(0.0, 0.2, generator=generator)
            module.running_var.uniform_(0.5, 1.5, generator=generator)
            if module.affine:
                module.weight.uniform_(0.5, 1.5, generator=generator)
                module.bias.normal_(0.0, 0.2, generator=generator)
    return model
