"""What is run: the samples of OpInfo and ModuleInfo as cases of one kind, and what is left out and why."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import ModuleInfo, module_db
from torch.testing._internal.opinfo.core import OpInfo

SEED = 20_261

SKIPPED = {
    "to_sparse": "Dynamo does not trace sparse tensors; nothing of it reaches a backend",
    "sparse.sampled_addmm": "Dynamo does not trace sparse tensors; nothing of it reaches a backend",
    "sparse.mm": "Dynamo does not trace sparse tensors; nothing of it reaches a backend",
}
"""Ops that are not run. What `aot_eager` cannot do either is found while running and needs no entry."""

_UNDEFINED = "empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_"
UNDEFINED = frozenset(_UNDEFINED.split())
"""Ops whose results hold whatever lay in memory: all but the values is compared."""

# The database wraps random ops into a function that seeds, where Dynamo breaks the graph; here every run is seeded.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


@dataclass(frozen=True)
class Case:
    """One sample: `call(module, args, kwargs)` of its subject gives the answer; `module` is None for an op."""

    name: str
    module: nn.Module | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """An op (function or in-place variant) or a module in one mode, with its samples.

    defined: whether the values of its results mean anything.
    """

    name: str
    call: Callable[[nn.Module | None, tuple[Any, ...], dict[str, Any]], Any]
    cases: Callable[[], Iterator[Case]]
    defined: bool = True


def seed_all() -> None:
    """The samples of the databases draw from all three generators."""
    torch.manual_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)


def op_subjects(dtype: torch.dtype, *, backward: bool, in_place: bool) -> list[Subject]:
    """One subject for every op of the database that takes `dtype`, and (if asked for) its in-place variant."""
    found = []
    for op in op_db:
        dtypes = op.backward_dtypes if backward else op.dtypes
        if dtype not in dtypes or op.name in SKIPPED or (backward and not op.supports_autograd):
            continue
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        found.append(_op_subject(name, op, op.op, dtype, backward))
        if in_place and op.inplace_variant is not None:
            found.append(_op_subject(f"{name} in place", op, op.inplace_variant, dtype, backward))
    return found


def _op_subject(name: str, op: OpInfo, function: Callable[..., Any], dtype: torch.dtype, backward: bool) -> Subject:
    changes = function is not op.op

    def call(module: nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function(*args, **kwargs)

    def on_copy(module: nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function(args[0].clone(), *args[1:], **kwargs)  # a leaf must not be changed in place

    def cases() -> Iterator[Case]:
        seed_all()
        for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=backward)):
            if changes and sample.broadcasts_input:
                continue
            yield Case(f"{name} #{i}", None, (sample.input, *sample.args), dict(sample.kwargs))

    return Subject(name, on_copy if changes and backward else call, cases, defined=op.name not in UNDEFINED)


def module_subjects(dtype: torch.dtype, *, backward: bool) -> list[Subject]:
    """One subject for every module of the database that takes `dtype`, in each mode that makes a difference to it."""
    found = []
    for info in module_db:
        if dtype in info.dtypes:
            for training in (True, False) if info.train_and_eval_differ else (False,):
                mode = " in training" if training else ""
                found.append(_module_subject(f"{info.name}{mode}", info, dtype, backward, training))
    return found


def _module_subject(name: str, info: ModuleInfo, dtype: torch.dtype, backward: bool, training: bool) -> Subject:
    def call(module: nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert module is not None
        return module(*args, **kwargs)

    def cases() -> Iterator[Case]:
        seed_all()
        samples = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=backward, training=training)
        for i, sample in enumerate(samples):
            if sample.forward_input is None:
                continue
            given = sample.constructor_input
            module = info.module_cls(*given.args, **given.kwargs).to(dtype).train(training)
            yield Case(f"{name} #{i}", module, tuple(sample.forward_input.args), dict(sample.forward_input.kwargs))

    return Subject(name, call, cases)
