"""What a report is: a reference, one line on what it is about, and a program that shows the fault if there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)
FPGA_OPTIONS = {"partition": "greedy"}
"""The programs are so small that the cost model would leave most of them to eager mode."""


@dataclass(frozen=True)
class Trial:
    """How a program is run once: with which backend, and in which precision.

    A program makes its tensors with the methods below, so that a run in float64 starts from the same numbers.
    """

    backend: str
    wide: bool = False

    def compile(self, function: Any, **kwargs: Any) -> Any:
        """`function` (or a module) compiled by the backend of this trial; itself in eager mode."""
        if self.backend == "eager":
            return function
        options: Any = FPGA_OPTIONS if self.backend == "fpga" else None
        return torch.compile(function, backend=self.backend, options=options, **kwargs)

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.wide else torch.float32

    def randn(self, *shape: int, grad: bool = False) -> torch.Tensor:
        return torch.randn(*shape).to(self.dtype).requires_grad_(grad)

    def floats(self, values: Any, *, grad: bool = False) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32).to(self.dtype).requires_grad_(grad)

    def module(self, module: Module) -> Module:
        """The module with random parameters, the same in both precisions."""
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(torch.randn(parameter.shape) * 0.3)
        return module.to(self.dtype)


Program = Callable[[Trial], Any]


@dataclass(frozen=True)
class Report:
    """`reference` is `project#number`; `program` returns everything that the report is about: values, gradients,
    mutated inputs, strides as tuples, exceptions as text.

    exact: whether the program runs in float64 as well, which is the reference then; without it eager mode is.
    processes: it starts processes of its own. sample: `make test` runs it.
    """

    reference: str
    kind: str
    about: str
    program: Program
    exact: bool = True
    processes: bool = False
    sample: bool = False

    @property
    def name(self) -> str:
        return f"{self.reference}-{self.program.__name__}"


REPORTS: list[Report] = []


class Kind:
    """The reports of one kind; its instances are decorators for their programs."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, reference: str, about: str, **settings: bool) -> Callable[[Program], Program]:
        def register(program: Program) -> Program:
            REPORTS.append(Report(reference, self.name, about, program, **settings))
            return program

        return register


def gradients(*tensors: torch.Tensor) -> list[torch.Tensor | None]:
    """The gradients that lie at these tensors."""
    return [None if tensor.grad is None else tensor.grad.detach().clone() for tensor in tensors]


def raised(function: Callable[..., Any], *args: Any) -> Any:
    """The type of the exception that the call raises, or what it returns."""
    try:
        return function(*args)
    except Exception as error:
        return f"raises {kind_of_error(error)}"


def kind_of_error(error: Exception) -> str:
    """An exception's type as a program may rely on it; of Dynamo's wrappers the one that a backend's error is in.

    Dynamo raises eager mode's errors of meta functions as TorchRuntimeError, a RuntimeError, whatever their type was.
    """
    cause: BaseException | None = error.__cause__ or error.__context__
    if type(error).__module__.startswith("torch._dynamo") and isinstance(cause, Exception):
        return kind_of_error(cause)
    return type(error).__name__
