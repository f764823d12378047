"""What a stub promises and what a nanobind module has, in one form, and where the two differ.

A surface is a dict from dotted names ("bo.write") to what is there: "class" with its bases, "member" with its value, or
signatures. Types are compared by their outermost name, and only where the binary knows one: `object` says nothing.
"""

from __future__ import annotations

import ast
import enum
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

SPECIAL = ("__init__", "__call__")
"""Of the methods with underscores, what is compared."""
UNKNOWN = {"object", "CapsuleType", "Any"}
ANY_DEFAULT = "..."


@dataclass
class Signatures:
    """Overloads, by what they are called with: names, kinds and defaults; and the types seen at each place of each."""

    types: dict[tuple[str, ...], list[set[str]]] = field(default_factory=dict)

    def add(self, function: ast.FunctionDef) -> None:
        call, types = _call(function)
        seen = self.types.setdefault(call, [set() for _ in types])
        for there, name in zip(seen, types, strict=True):
            there |= name


Surface = dict[str, "str | Signatures"]


def of_stub(text: str, folder: Path) -> Surface:
    """The surface of a stub, whose `_pyxrt` lies in `folder`."""
    base = {} if "_pyxrt" not in text else of_stub((folder / "_pyxrt.pyi").read_text().replace("_pyxrt", ""), folder)
    surface: Surface = {}
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "fpga_dynamo._pyxrt":
            for name in statement.names:
                _inherit(surface, base, "" if name.name == "*" else name.name, name.name)
        else:
            _stub_member(surface, base, "", statement)
    return surface


def of_module(module: ModuleType) -> Surface:
    surface: Surface = {}
    _members(surface, "", module)
    return surface


def differences(stub: Surface, binary: Surface) -> list[str]:
    """A sentence for each name that only one has, and for each that they have in different forms."""
    found = []
    for name in sorted({*stub, *binary}):
        promised, there = stub.get(name), binary.get(name)
        if promised is None and name.endswith("__init__"):
            promised = Signatures({("self",): [set(), {"None"}]})
        if promised is None or there is None:
            if not (name.endswith("__init__") and there is None):  # a class that only the module makes
                found.append(f"{name} is only in the {'stub' if there is None else 'binary'}")
        elif isinstance(promised, Signatures) and isinstance(there, Signatures):
            found += _other_signatures(name, promised, there)
        elif promised != there and there != "callable":
            found.append(f"{name} is {promised} in the stub, {there} in the binary")
    return found


def _other_signatures(name: str, promised: Signatures, there: Signatures) -> list[str]:
    if promised.types.keys() != there.types.keys():
        return [f"{name} takes {sorted(promised.types)} in the stub, {sorted(there.types)} in the binary"]
    found = []
    for call, types in there.types.items():
        for said, known in zip(promised.types[call], types, strict=True):
            if not (known & UNKNOWN or said & UNKNOWN or known <= said):
                found.append(f"{name}{call}: {sorted(said)} in the stub, {sorted(known)} in the binary")
    return found


def _call(function: ast.FunctionDef) -> tuple[tuple[str, ...], list[set[str]]]:
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    names, types = [], []
    for position, (argument, default) in enumerate(zip(plain, defaults, strict=True)):
        name = "/" if position < len(given.posonlyargs) and argument.arg != "self" else argument.arg
        names.append(name + _default(default))
        types.append(_types(argument.annotation))
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        names.append(f"*{argument.arg}{_default(default)}")
        types.append(_types(argument.annotation))
    if given.vararg:
        names.append("*")
    return tuple(names), [*types[: len(names)], *[set() for _ in range(bool(given.vararg))], _types(function.returns)]


def _default(value: ast.expr | None) -> str:
    return "" if value is None else f"={ast.unparse(value)}"


def _types(annotation: ast.expr | None) -> set[str]:
    if annotation is None:
        return {"object"}
    if isinstance(annotation, ast.BinOp):
        return _types(annotation.left) | _types(annotation.right)
    if isinstance(annotation, ast.Subscript):
        return _types(annotation.value)
    return {ast.unparse(annotation).rpartition(".")[2]}


# Stubs


def _inherit(surface: Surface, base: Surface, of: str, name: str) -> None:
    for key, value in base.items():
        if not of or key == of:
            surface[key] = value
        elif key.startswith(f"{of}."):
            surface[name + key[len(of) :]] = value


def _stub_member(surface: Surface, base: Surface, prefix: str, statement: ast.stmt, is_enum: bool = False) -> None:
    if isinstance(statement, ast.ClassDef):
        path, bases = prefix + statement.name, [ast.unparse(each) for each in statement.bases]
        inherited = [each.removeprefix("_pyxrt.") for each in bases if each.startswith("_pyxrt.")]
        surface[path] = f"class of {[each.rpartition('.')[2] for each in bases] or ['object']}"
        for each in inherited:
            _inherit(surface, base, each, path)
        for member in statement.body:
            _stub_member(surface, base, f"{path}.", member, "enum.Enum" in bases)
    elif isinstance(statement, ast.FunctionDef):
        if statement.name.startswith("_") and statement.name not in SPECIAL:
            return
        if any(ast.unparse(each).endswith(".setter") for each in statement.decorator_list):
            return  # of a binary only what gives the value is known
        path = prefix + statement.name
        overloaded = any("overload" in ast.unparse(each) for each in statement.decorator_list)
        before = surface.get(path)
        signatures = before if overloaded and isinstance(before, Signatures) else Signatures()
        signatures.add(statement)
        surface[path] = signatures
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        surface[prefix + statement.target.id] = f"value of {sorted(_types(statement.annotation))}"
    elif isinstance(statement, ast.Assign) and is_enum and isinstance(statement.targets[0], ast.Name):
        surface[prefix + statement.targets[0].id] = f"member {eval(ast.unparse(statement.value), {})}"


# Binaries


def _members(surface: Surface, prefix: str, owner: Any) -> None:
    for name, value in vars(owner).items():
        path, signatures = prefix + name, getattr(value, "__nb_signature__", None)
        if name.startswith("_") and not (name in SPECIAL and (signatures or name == "__call__")):
            continue
        if isinstance(value, type) and issubclass(value, enum.Enum):
            surface[path] = "class of ['Enum']"
            surface.update({f"{path}.{key}": f"member {each.value}" for key, each in value.__members__.items()})
        elif isinstance(value, type | ModuleType):
            bases = [each.__name__ for each in value.__bases__] if isinstance(value, type) else ["object"]
            surface[path] = f"class of {bases}"
            _members(surface, f"{path}.", value)
        elif isinstance(value, property):
            surface[path] = _signatures(value.fget.__nb_signature__, name)  # type: ignore[union-attr]
        elif signatures:
            surface[path] = _signatures(signatures, name)
        else:
            surface[path] = "callable" if callable(value) else f"value of {[type(value).__name__]}"


def _signatures(of_binary: Any, name: str) -> Signatures:
    result = Signatures()
    for text, _, *defaults in of_binary:
        for position, value in enumerate((defaults[0] or ()) if defaults else ()):
            text = re.sub(rf"\\{position}\b", _literal(value), text)
        text = re.sub(r"numpy\.ndarray\[[^\]]*\]", "ndarray", text).replace("def (", f"def {name}(")
        (function,) = ast.parse(f"{text}: ...").body
        assert isinstance(function, ast.FunctionDef)
        result.add(function)
    return result


def _literal(value: object) -> str:
    return ANY_DEFAULT if isinstance(value, enum.Enum) else repr(value)
