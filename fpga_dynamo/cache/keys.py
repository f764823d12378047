"""What an entry's name depends on. Two compilations share an entry only if all of it is equal."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from fpga_dynamo import errors
from fpga_dynamo.cache.plain import UnstorableError
from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering.patterns import TABLE, Pattern
from fpga_dynamo.lowering.tracing.decompose import DECOMPOSITIONS
from fpga_dynamo.lowering.tracing.interpolation import PARTS, WHOLE
from fpga_dynamo.options import Options

_IRRELEVANT = (
    "xclbin", "platform", "recipe", "driver", "device", "policy", "weight_check", "timeout", "dump_dir", "cache"
)  # fmt: skip
"""Options that a program does not depend on; the xclbin counts by what is in it. New options count until named here."""

COMPILER = (
    "cache",
    "codegen",
    "device_address.py",
    "errors.py",
    "frontend",
    "ir",
    "lowering",
    "options.py",
    "runtime",
    "torch_internals",
)
"""What compiling a model imports of the package. Not tools, random tests, quantization and pictures."""


def digest(*parts: Any) -> str:
    """A name that follows from the parts, which JSON can hold."""
    text = json.dumps(parts, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def program_key(graph: list[Any], target: Target, options: Options, static: Collection[int]) -> str:
    """The name of the program of a graph (as :func:`graphs.graph_to_plain` writes it)."""
    return digest("program", _environment(), _settings(target, options), sorted(static), graph)


def trace_key(graph: list[Any], state: list[Any], target: Target, options: Options) -> str:
    """The name of what tracing made of one of Dynamo's graphs, in a state of PyTorch."""
    return digest("trace", _environment(), _settings(target, options), state, graph)


def _settings(target: Target, options: Options) -> list[Any]:
    """Raises :class:`UnstorableError` if the user has patterns or decompositions whose code the key does not know."""
    chosen = {name: value for name, value in asdict(options).items() if name not in _IRRELEVANT}
    manifest = json.dumps(target.manifest, sort_keys=True)
    patterns = [_pattern(pattern) for pattern in TABLE.patterns()]
    taken_apart = [[str(op), _ours(parts, f"decomposition of {op}")] for op, parts in DECOMPOSITIONS.items()]
    return [
        target.uuid,
        target.lanes,
        manifest,
        chosen,
        patterns,
        sorted(taken_apart),
        sorted(map(str, (*WHOLE, *PARTS))),
    ]


def _pattern(pattern: Pattern) -> list[Any]:
    parts = {part.name: getattr(pattern, part.name) for part in fields(pattern)}
    names = [_ours(part, f"pattern '{pattern.name}'") for part in parts.values() if callable(part)]
    known = sorted([str(op), o.passes, o.steps, o.images, o.like] for op, o in pattern.operators.items())
    anchors = [str(anchor) for anchor in pattern.anchors]
    return [pattern.name, anchors, sorted(pattern.opcodes), names, pattern.in_place, known]


def _ours(function: Any, what: str) -> str:
    """The name of one of this package's functions. Raises :class:`UnstorableError` for anything else."""
    module = getattr(function, "__module__", "")
    if not isinstance(function, FunctionType) or not module.startswith("fpga_dynamo.lowering."):
        raise UnstorableError(f"{what}, which is not part of fpga_dynamo")
    return f"{module}.{function.__qualname__}"


@functools.cache
def _environment() -> list[str]:
    return [
        sources(Path(errors.__file__).parent),
        torch.__version__,
        str(torch.version.git_version),
        torch.backends.cpu.get_cpu_capability(),
        sys.version,
        platform.machine(),
    ]


def sources(package: Path, parts: Sequence[str] = COMPILER) -> str:
    """A digest of the Python files in parts of the package. An entry is good for these very sources of the compiler."""
    total = hashlib.sha256()
    files = [package / name for name in parts if name.endswith(".py")]
    files += [file for name in parts for file in (package / name).rglob("*.py")]
    for file in sorted(files):
        content = file.read_bytes()
        total.update(f"{file.relative_to(package).as_posix()} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()
