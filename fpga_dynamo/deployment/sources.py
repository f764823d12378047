"""The sources of an exported model: the run-time library, its headers, an example and how they are built."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import hls_kernels
from fpga_dynamo.deployment.errors import ExportError

_PACKAGE = Path(__file__).parents[1]
_TEMPLATES = Path(__file__).parent / "templates"
_LIBRARY = {
    "rt": _PACKAGE / "native" / "rt",
    "rt_xrt": _PACKAGE / "native" / "rt_xrt",
    "card": _PACKAGE / "native" / "card",
}
"""Folders of the run-time library: below `runtime`, and where they come from."""
_ABI = Path(hls_kernels.__file__).parent / "lib" / "card_abi.hpp"
_UNCHANGED = ("CMakeLists.txt", "main.cpp", "fd_model.hpp", "fd_model.py")


def library_sources() -> list[Path]:
    """Sources and headers of the run-time library for the emulator, which build as they lie."""
    return [file for name in ("rt", "card") for file in _sources(_LIBRARY[name])] + [_ABI]


def _sources(folder: Path) -> list[Path]:
    files = sorted([*folder.glob("*.cpp"), *folder.glob("*.hpp"), *folder.glob("*.h")])
    if not files:
        raise ExportError(f"the package has no sources of the run-time library ({folder}); install it again")
    return files


def write_library(directory: Path) -> None:
    """Writes the run-time library into `directory`/runtime. Raises as :func:`write`."""
    for name, folder in _LIBRARY.items():
        target = directory / "runtime" / name
        target.mkdir(parents=True)
        for file in _sources(folder):
            shutil.copyfile(file, target / file.name)
    shutil.copyfile(_ABI, directory / "runtime" / "card" / _ABI.name)


def write(directory: Path, document: Mapping[str, Any]) -> None:
    """Writes them into a model's directory.

    Raises :class:`ExportError` where the package was installed without them.
    """
    write_library(directory)
    for file_name in _UNCHANGED:
        shutil.copyfile(_TEMPLATES / file_name, directory / file_name)
    readme = Template((_TEMPLATES / "README.md").read_text())
    tables = {"inputs": _table(document["inputs"], document), "outputs": _table(document["outputs"], document)}
    (directory / "README.md").write_text(readme.substitute(made_by=document["made_by"], **tables))


def _table(ports: Sequence[Mapping[str, Any]], document: Mapping[str, Any]) -> str:
    """Rows of Markdown: name, dtype and shape of each tensor."""
    rows = []
    for port in ports:
        dtype = document["values"][port["value"]]["dtype"]
        shape = " x ".join("any" if isinstance(n, str) else str(n) for n in port["shape"]) or "scalar"
        rows.append(f"| `{port['name']}` | {dtype} | {shape} |")
    return "\n".join(["| name | dtype | shape |", "| --- | --- | --- |", *rows])
