"""Tensors on their way between a client, the server and a replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

ELEMENT_BYTES = {
    "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int8": 1, "uint8": 1, "bool": 1,
    "complex64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Port:
    """An input or output of a model: its name, its dtype by PyTorch's name, and its shape; -1 is not fixed."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def accepts(self, shape: Sequence[int]) -> bool:
        return len(shape) == len(self.shape) and all(
            wanted in (-1, size) for wanted, size in zip(self.shape, shape, strict=True)
        )


@dataclass(frozen=True)
class Tensor:
    """A tensor's elements in row-major order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | bytearray

    @property
    def nbytes(self) -> int:
        """Bytes that the shape and the dtype ask for."""
        return prod(self.shape) * ELEMENT_BYTES[self.dtype]


def joined_rows(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one behind the other along their first dimension; the other dimensions are the same."""
    first = tensors[0]
    rows = sum(tensor.shape[0] for tensor in tensors)
    return Tensor(first.dtype, (rows, *first.shape[1:]), bytearray().join(tensor.data for tensor in tensors))


def split_rows(tensor: Tensor, rows: Sequence[int]) -> list[Tensor]:
    """Tensors of so many rows each. Rows behind the last one are left out."""
    row_bytes = tensor.nbytes // tensor.shape[0] if tensor.shape[0] else 0
    parts, begin = [], 0
    for count in rows:
        data = tensor.data[begin * row_bytes : (begin + count) * row_bytes]
        parts.append(Tensor(tensor.dtype, (count, *tensor.shape[1:]), data))
        begin += count
    return parts
