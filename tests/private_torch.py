"""What sources use of PyTorch that is private: ``python -m tests.private_torch FOLDER...`` lists it, for `make lint`.

PyTorch may change them with any version. So all that the project knows of them stands in the package that is exempt,
``fpga_dynamo.torch_internals``. Tests may use them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

DOOR = ("fpga_dynamo", "torch_internals")

_PRIVATE = ("torch.fx.experimental", "torch.fx.passes")
"""Modules that are private without an underscore."""

_ATTRIBUTES = frozenset(
    {
        "_boxed_call",
        "_cdata",
        "_dispatch_cache",
        "_is_view",
        "_make_wrapper_subclass",
        "_schema",
        "_torchdynamo_orig_backend",
        "_torchdynamo_wrapper_id",
        "_version",
    }
)
"""Attributes of PyTorch's objects that are private, whatever they are found on."""


def is_private(path: str) -> bool:
    """Whether a dotted name leads past what is public; names of operators are no API of PyTorch's Python."""
    first, *parts = path.split(".")
    if first != "torch" or parts[:1] == ["ops"]:
        return False
    hidden = any(part.startswith("_") and not (part.startswith("__") and part.endswith("__")) for part in parts)
    return hidden or any(path == name or path.startswith(f"{name}.") for name in _PRIVATE)


def private_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of every use of a private name of PyTorch."""
    tree = ast.parse(source)
    modules: dict[str, str] = {}  # name in the file -> what of torch it stands for
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "torch":
                    modules[alias.asname or "torch"] = alias.name if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == "torch":
            modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if is_private(alias.name))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            paths = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from ((node.lineno, path) for path in paths if is_private(path))
        elif isinstance(node, ast.Attribute):
            owner = _path(node.value, modules)
            if owner is not None and not is_private(owner) and is_private(f"{owner}.{node.attr}"):
                yield node.lineno, f"{owner}.{node.attr}"
            elif owner is None and node.attr in _ATTRIBUTES:
                yield node.lineno, f".{node.attr}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if is_private(node.value) and node.value.replace(".", "").isidentifier():
                yield node.lineno, node.value
        elif isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            called, owner, name = getattr(node.func, "id", ""), _path(node.args[0], modules), str(node.args[1].value)
            if called in ("getattr", "setattr", "hasattr", "delattr"):
                if owner is not None and is_private(f"{owner}.{name}"):
                    yield node.lineno, f"{owner}.{name}"
                elif owner is None and name in _ATTRIBUTES:
                    yield node.lineno, f".{name}"


def _path(node: ast.expr, modules: dict[str, str]) -> str | None:
    """What of torch an expression names, such as ``torch.nn.functional``; None if it names nothing of it."""
    if isinstance(node, ast.Name):
        return modules.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := _path(node.value, modules)) is not None:
        return f"{owner}.{node.attr}"
    return None


def main(folders: list[str]) -> int:
    """Prints each use outside of the door; 1 if there are any."""
    found = 0
    for path in sorted(path for folder in folders for path in Path(folder).rglob("*.py")):
        if path.parts[: len(DOOR)] != DOOR:
            for line, name in sorted(set(private_names(path.read_text()))):
                print(f"{path}:{line}: {name} is private to PyTorch; its place is {'/'.join(DOOR)}")
                found += 1
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
