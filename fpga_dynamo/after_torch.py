"""Loads a module as soon as torch is imported, and without importing torch for it.

``import fpga_dynamo`` does not import torch, so that commands start quickly. But what registers itself with PyTorch has
to be there once torch is, whichever of the two is imported first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def load(name: str) -> None:
    """Imports the module now if torch has been imported, else right after torch."""
    if sys.modules.get("torch") is not None:
        import_module(name)
    else:
        sys.meta_path.insert(0, _Finder(name))


class _Finder(MetaPathFinder):
    """Finds torch as the other finders do, and has the module imported behind it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Followed(spec.loader, self, self._name)
                return spec
        return None

    def done(self) -> None:
        """Torch has been imported."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _Followed(Loader):
    """The loader of torch, and then an import of the module."""

    def __init__(self, loader: Loader, finder: _Finder, name: str) -> None:
        self._loader, self._finder, self._name = loader, finder, name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._finder.done()
        with suppress(ImportError):  # torch itself is imported; whoever needs the module gets the error
            import_module(self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
