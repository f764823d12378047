"""Values of a graph as data that JSON holds exactly, and back. Nothing is pickled and no text is evaluated.

None, bool, int and str stand for themselves; everything else is a list that begins with a tag. Floats are written in
hexadecimal, so that they come back bit for bit (NaN, infinities and -0.0 too).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.parts import CommandPart, TransposedKernel
from fpga_dynamo.codegen.engine.sizes import EngineSizes
from fpga_dynamo.lowering.ops.engine.int8.norm import NormParameters
from fpga_dynamo.lowering.ops.engine.int8.params import TableParameters
from fpga_dynamo.lowering.ops.quantised.packing import RequantizationParameters, UniformParameters, WeightLayout


class UnstorableError(Exception):
    """A value that the cache has no notation for: its graph is not cached."""


class CorruptError(Exception):
    """An entry that is not what this version writes."""


_SETTINGS: dict[str, type] = {
    "requantization": RequantizationParameters,
    "uniform": UniformParameters,
    "weight_layout": WeightLayout,
    "norm": NormParameters,
    "with_table": TableParameters,
}
SETTINGS = tuple(_SETTINGS.values())
"""Dataclasses that are the settings of a pack."""

_RECORDS: dict[str, type] = {
    "mac_command": MacCommand,
    "engine_sizes": EngineSizes,
    "part": CommandPart,
    "transposed": TransposedKernel,
    **_SETTINGS,
}
"""Dataclasses of numbers, tuples of them, their enumerations and each other, on which packed constants depend."""

_NAMED: dict[str, type] = {
    "dtype": torch.dtype,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
}


def to_plain(value: Any, index: Callable[[Node], int]) -> Any:
    """`value` as plain data; `index` gives the number that stands for a node.

    Raises :class:`UnstorableError` for a type without a notation, symbolic sizes among them.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if isinstance(value, Node):
        return ["node", index(value)]
    if kind is float:
        return ["float", value.hex()]
    if kind is complex:
        return ["complex", value.real.hex(), value.imag.hex()]
    if isinstance(value, tuple):
        return ["tuple", *[to_plain(item, index) for item in value]]
    if isinstance(value, list):
        return ["list", *[to_plain(item, index) for item in value]]
    if isinstance(value, dict):
        return ["dict", *[[to_plain(k, index), to_plain(item, index)] for k, item in value.items()]]
    if kind is slice:
        return ["slice", *[to_plain(bound, index) for bound in (value.start, value.stop, value.step)]]
    if value is Ellipsis:
        return ["ellipsis"]
    if kind is torch.device:
        return ["device", str(value)]
    for tag, named in _NAMED.items():
        if kind is named:
            return [tag, str(value).removeprefix("torch.")]
    for tag, record in _RECORDS.items():
        if kind is record:
            given = [getattr(value, field.name) for field in fields(record)]
            values = [int(x) if isinstance(x, enum.IntEnum | enum.IntFlag) else x for x in given]
            return [tag, *[to_plain(item, index) for item in values]]
    raise UnstorableError(f"a value of type {kind.__module__}.{kind.__qualname__}")


def from_plain(data: Any, nodes: Sequence[Node]) -> Any:
    """The value that :func:`to_plain` wrote. Raises :class:`CorruptError` for anything else."""
    if data is None or type(data) in (bool, int, str):
        return data
    if not isinstance(data, list) or not data or not isinstance(data[0], str):
        raise CorruptError(f"not a value: {data!r:.80}")
    read = _READERS.get(data[0])
    if read is None:
        raise CorruptError(f"unknown kind of value {data[0]!r:.80}")
    try:
        return read(data[1:], nodes)
    except (IndexError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
        raise CorruptError(f"not a {data[0]}: {error}") from error


def _items(data: Sequence[Any], nodes: Sequence[Node]) -> list[Any]:
    return [from_plain(item, nodes) for item in data]


def _node(data: Sequence[Any], nodes: Sequence[Node]) -> Node:
    (position,) = data
    if type(position) is not int or position < 0:
        raise CorruptError(f"not the number of a node: {position!r:.80}")
    return nodes[position]


def _named(tag: str) -> Callable[[Sequence[Any], Sequence[Node]], Any]:
    def read(data: Sequence[Any], nodes: Sequence[Node]) -> Any:
        found = getattr(torch, data[0])
        if type(found) is not _NAMED[tag]:
            raise CorruptError(f"torch.{data[0]} is not a {tag}")
        return found

    return read


def _record(record: Any) -> Callable[[Sequence[Any], Sequence[Node]], Any]:
    def read(data: Sequence[Any], nodes: Sequence[Node]) -> Any:
        values = []
        for field, item in zip(fields(record), _items(data, nodes), strict=True):
            kind = type(field.default)
            values.append(kind(item) if issubclass(kind, enum.IntEnum | enum.IntFlag) else item)
        return record(*values)

    return read


_READERS: dict[str, Callable[[Sequence[Any], Sequence[Node]], Any]] = {
    "node": _node,
    "float": lambda data, nodes: float.fromhex(data[0]),
    "complex": lambda data, nodes: complex(float.fromhex(data[0]), float.fromhex(data[1])),
    "tuple": lambda data, nodes: tuple(_items(data, nodes)),
    "list": _items,
    "dict": lambda data, nodes: {from_plain(k, nodes): from_plain(item, nodes) for k, item in data},
    "slice": lambda data, nodes: slice(*_items(data, nodes)),
    "ellipsis": lambda data, nodes: Ellipsis,
    "device": lambda data, nodes: torch.device(data[0]),
    **{tag: _named(tag) for tag in _NAMED},
    **{tag: _record(record) for tag, record in _RECORDS.items()},
}
