"""Which versions of PyTorch are supported, and what of the running one is not as it is known."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass

import torch

from fpga_dynamo.torch_internals import aot, frames, tensors

TESTED = ("2.13", "2.14", "2.15")
"""The minor versions that are supported: the tests run with each, see docs/torch-versions.md."""


@dataclass(frozen=True)
class Difference:
    """What of PyTorch is not as it is known, and what fpga_dynamo does without in its place; results are the same."""

    found: tuple[str, ...]
    without: str


def differences() -> list[Difference]:
    """Of the running PyTorch; empty for each of :data:`TESTED`."""
    subjects = (
        (aot.differences, "direct calls and the cache of traces are off"),
        (tensors.differences, "direct calls are off"),
        (
            frames.differences,
            "recurrent layers run in eager mode, and explain() and strict=True do not see frames that Dynamo skips",
        ),
        (
            frames.wording_differences,
            "of a recurrent layer that stays in eager, explain() and strict=True give Dynamo's reason only",
        ),
    )
    found = (Difference(tuple(look()), without) for look, without in subjects)
    return [difference for difference in found if difference.found]


def is_tested(version: str) -> bool:
    """Whether a version, such as "2.13.1+cpu", is one of :data:`TESTED`."""
    return ".".join(version.split("+")[0].split(".")[:2]) in TESTED


def tested() -> str:
    """The supported versions, as in "2.13, 2.14 or 2.15"."""
    *others, last = TESTED
    return f"{', '.join(others)} or {last}" if others else last


def describe() -> str | None:
    """What there is to say of the running PyTorch; None if it is one that is tested, and as it is known."""
    version = str(torch.__version__)
    found = differences()
    if is_tested(version) and not found:
        return None
    told = [f"{'; '.join(difference.found)}: {difference.without}" for difference in found]
    return f"fpga_dynamo is tested with torch {tested()}, not {version}" + "".join(f". {text}" for text in told)


@functools.cache
def warn_once() -> None:
    """A warning, in each process the first time, if there is something to say of the running PyTorch."""
    if (text := describe()) is not None:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
