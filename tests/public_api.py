"""The public API as text: ``python -m tests.public_api`` writes it to tests/public_api.txt.

A name is public if `__all__` of a documented module has it. Each has a line with its signature, and each class one more
for each public method and property. A test compares the file with the code, so a change of the API shows in a commit.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

MODULES = ("fpga_dynamo", "fpga_dynamo.patterns", "fpga_dynamo.quantize", "fpga_dynamo.signal", "xclbin_build")
FILE = Path(__file__).with_suffix(".txt")
_OURS = ("fpga_dynamo", "xclbin_build")


def text() -> str:
    """The content of the file."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    classes: dict[type, str] = {}
    for module in MODULES:
        imported = import_module(module)
        for public in sorted(imported.__all__):
            name, value = f"{module}.{public}", getattr(imported, public)
            if inspect.isclass(value) and classes.setdefault(value, name) != name:
                yield f"{name}: {classes[value]}"
            else:
                yield from _value(name, value)


def _value(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"{name}{_signature(value) if '__init__' in vars(value) else ''}: class"
        for member in sorted(_members(value)):
            yield from _member(f"{name}.{member}", inspect.getattr_static(value, member))
    elif callable(value):
        yield f"{name}{_signature(value)}"
    elif inspect.ismodule(value):
        yield f"{name}: module"
    else:
        yield f"{name}: {type(value).__name__}"


def _members(kind: type) -> set[str]:
    """Public attributes of a class that it or a base class of ours defines; its signature has those of a dataclass."""
    own = [base for base in kind.__mro__ if base.__module__.split(".")[0] in _OURS]
    fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    return {name for base in own for name in vars(base) if not name.startswith("_")} - fields


def _member(name: str, member: Any) -> Iterator[str]:
    if isinstance(member, (staticmethod, classmethod)):
        yield f"{name}{_signature(member.__func__)}: {type(member).__name__}"
    elif inspect.isfunction(member):
        yield f"{name}{_signature(member)}"
    elif isinstance(member, property):
        yield f"{name}: property"
    else:
        yield f"{name}: attribute"


def _signature(function: Callable[..., Any]) -> str:
    """The parameters and the result. Annotations are as the source has them, in which all Pythons agree."""
    signature = inspect.signature(function)
    parameters = [_parameter(parameter) for parameter in signature.parameters.values()]
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        parameters.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(len(parameters) - kinds.count(inspect.Parameter.KEYWORD_ONLY), "*")
    result = signature.return_annotation
    ending = "" if result is inspect.Signature.empty else f" -> {_annotation(result)}"
    return f"({', '.join(parameters)}){ending}"


def _parameter(parameter: inspect.Parameter) -> str:
    found = parameter.name
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        found = f"*{found}"
    elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
        found = f"**{found}"
    if parameter.annotation is not inspect.Parameter.empty:
        found += f": {_annotation(parameter.annotation)}"
    if parameter.default is not inspect.Parameter.empty:
        found += f" = {_default(parameter.default)}"
    return found


def _default(value: Any) -> str:
    """The same in each process: without addresses, and sets in order."""
    shown = f"{{{', '.join(sorted(map(repr, value)))}}}" if isinstance(value, (set, frozenset)) else repr(value)
    return re.sub(r" at 0x[0-9a-f]+", "", shown)


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    print(f"wrote {FILE}")
