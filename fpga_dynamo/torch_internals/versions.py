"""Which versions of PyTorch are supported, and what of the running one is not as it is known."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass

import torch

from fpga_dynamo.torch_internals import aot, frames, tensors

TESTED = "2.13"
"""The minor version with which all tests are run.

The names and fields that this package uses have been compared with the sources of 2.9 to 2.12, 2.14 and 2.15 as well;
nothing has been run there. Of each the differences below are what :func:`differences` finds:

- 2.9 and 2.10: frames (no `innermost_backend`, no `skip_reason`), and `aot_compile` cannot save graphs;
- 2.11 and 2.12: frames (no `skip_reason`);
- 2.14 and 2.15: new fields of AOTAutograd's record.
"""


@dataclass(frozen=True)
class Difference:
    """What of PyTorch is not as it is known, and what fpga_dynamo does without in its place; results are the same."""

    found: tuple[str, ...]
    without: str


def differences() -> list[Difference]:
    """Of the running PyTorch; empty for :data:`TESTED`."""
    subjects = (
        (aot.differences, "direct calls and the cache of traces are off"),
        (tensors.differences, "direct calls are off"),
        (
            frames.differences,
            "recurrent layers run in eager mode, and explain() and strict=True do not see frames that Dynamo skips",
        ),
    )
    found = (Difference(tuple(look()), without) for look, without in subjects)
    return [difference for difference in found if difference.found]


def is_tested(version: str) -> bool:
    """Whether a version, such as "2.13.1+cpu", is one of :data:`TESTED`."""
    return version.split("+")[0].split(".")[:2] == TESTED.split(".")


def describe() -> str | None:
    """What there is to say of the running PyTorch; None if it is one that is tested, and as it is known."""
    version = str(torch.__version__)
    found = differences()
    if is_tested(version) and not found:
        return None
    told = [f"{'; '.join(difference.found)}: {difference.without}" for difference in found]
    return f"fpga_dynamo is tested with torch {TESTED}, not {version}" + "".join(f". {text}" for text in told)


@functools.cache
def warn_once() -> None:
    """A warning, in each process the first time, if there is something to say of the running PyTorch."""
    if (text := describe()) is not None:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
