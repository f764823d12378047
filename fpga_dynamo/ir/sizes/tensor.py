"""Stand-ins for tensors whose sizes depend on symbols, in the place of fake tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from fpga_dynamo.ir.sizes.size import Number, Shape, SizeError, larger, value
from fpga_dynamo.torch_internals.dispatch import without_subclasses, wrapper_tensor

_HARMLESS = frozenset(
    {
        torch.Tensor.dim,
        torch.Tensor.element_size,
        torch.Tensor.is_floating_point,
        torch.Tensor.is_complex,
        torch.Tensor.is_conj,
        torch.Tensor.is_neg,
        *(
            getattr(torch.Tensor, name).__get__
            for name in ("dtype", "device", "layout", "ndim", "requires_grad", "itemsize", "is_sparse", "is_quantized")
        ),
    }
)
"""What may be asked of a tensor whatever its sizes are."""


class SizedTensor(torch.Tensor):
    """A tensor without data: shape and strides hold sizes, and nothing can be computed with it.

    What would be answered from the sizes of one call raises :class:`SizeError`, so that none of them passes for all.
    """

    _sizes: tuple[Number, ...]
    _steps: tuple[Number, ...]
    _begin: Number

    @staticmethod
    def __new__(
        cls, fake: torch.Tensor, sizes: tuple[Number, ...], strides: tuple[Number, ...], offset: Number
    ) -> SizedTensor:
        made = wrapper_tensor(cls, [value(s) for s in sizes], [value(s) for s in strides], value(offset), fake)
        made._sizes, made._steps, made._begin = Shape.of(sizes), strides, offset
        return made

    @property
    def shape(self) -> Any:  # type: ignore[override]
        return self._sizes

    def size(self, dim: int | None = None) -> Any:
        return self._sizes if dim is None else self._sizes[dim]

    def stride(self, dim: int | None = None) -> Any:
        return self._steps if dim is None else self._steps[dim]

    def numel(self) -> Any:
        return functools.reduce(lambda count, size: count * size, self._sizes, 1)

    def storage_offset(self) -> Any:
        return self._begin

    def is_contiguous(self, memory_format: torch.memory_format = torch.contiguous_format) -> bool:
        """By the strides; sizes of 1 have whatever stride they like."""
        rank = len(self._sizes)
        if memory_format is torch.contiguous_format:
            order = list(range(rank))
        elif memory_format is torch.channels_last and rank == 4:
            order = [0, 2, 3, 1]
        else:
            raise SizeError(f"whether a tensor is {memory_format} is not known for all sizes")
        step: Any = 1
        for d in reversed(order):
            if self._sizes[d] != 1 and self._steps[d] != step:
                return False
            step = step * larger(self._sizes[d], 1)
        return True

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]
        return f"SizedTensor({self._sizes}, strides={self._steps}, {self.dtype})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _HARMLESS:
            with without_subclasses():
                return func(*args, **(kwargs or {}))
        raise SizeError(f"{getattr(func, '__name__', func)} of a tensor is not known for all sizes")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise SizeError(f"{func} of a tensor is not known for all sizes")


def of_dtype(fake: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What stands for a tensor that lies like `fake`, of another type."""
    if isinstance(fake, SizedTensor):
        element = torch.empty((), dtype=dtype, device=fake.device)
        return SizedTensor(element, fake.shape, fake.stride(), fake.storage_offset())
    return fake.new_empty_strided(fake.shape, fake.stride(), dtype=dtype)


def dense_like(fake: torch.Tensor, size: Sequence[Number], dtype: torch.dtype) -> torch.Tensor:
    """What stands for a contiguous tensor of sizes made of those of `fake`."""
    if not isinstance(fake, SizedTensor):
        return fake.new_empty([value(n) for n in size], dtype=dtype)
    strides: list[Number] = [1]
    for length in reversed(size[1:]):
        strides.insert(0, strides[0] * length)
    return SizedTensor(torch.empty((), dtype=dtype, device=fake.device), tuple(size), tuple(strides[: len(size)]), 0)
