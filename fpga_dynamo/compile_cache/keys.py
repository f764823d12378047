"""What an entry's name depends on. Two compilations share an entry only if all of it is equal."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import sys
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import fpga_dynamo
from fpga_dynamo.compile_cache.plain import UnstorableError
from fpga_dynamo.lowering.patterns import TABLE
from fpga_dynamo.lowering.target import Target
from fpga_dynamo.options import Options

SOURCES = ("lowering", "codegen", "compile_cache", "backend.py")
"""What a program is made by, within the package: an entry is good for these very sources."""

_IRRELEVANT = ("xclbin", "recipe", "driver", "device", "policy", "weight_check", "timeout", "dump_dir", "cache")
"""Options that a program does not depend on; the xclbin counts by what is in it. New options count until named here."""


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
    """Raises :class:`UnstorableError` if the user has patterns of their own, whose code the key does not know."""
    for pattern in TABLE.patterns():
        if not pattern.lower.__module__.startswith("fpga_dynamo.lowering."):
            raise UnstorableError(f"pattern '{pattern.name}', which is not ours")
    chosen = {name: value for name, value in asdict(options).items() if name not in _IRRELEVANT}
    return [target.uuid, json.dumps(target.manifest, sort_keys=True), chosen, TABLE.names()]


@functools.cache
def _environment() -> list[str]:
    return [
        _sources(),
        torch.__version__,
        str(torch.version.git_version),
        torch.backends.cpu.get_cpu_capability(),
        sys.version,
        platform.machine(),
    ]


def _sources() -> str:
    package = Path(fpga_dynamo.__file__).parent
    total = hashlib.sha256()
    for name in SOURCES:
        part = package / name
        for file in sorted(part.rglob("*.py")) if part.is_dir() else [part]:
            content = file.read_bytes()
            total.update(f"{file.relative_to(package).as_posix()} {len(content)}\n".encode())
            total.update(content)
    return total.hexdigest()
