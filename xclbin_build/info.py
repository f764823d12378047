"""What an xclbin holds, as a dictionary for programs and as tables for people.

Cells are `Text`, in which rich looks for no markup: names come from a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from .axlf import Axlf, Section, read


def summary(path: str | Path) -> dict[str, Any]:
    """UUID, platform, sections with their sizes, and the manifest; XclbinError when the file is not one of ours."""
    axlf = read(path)
    return {
        "file": str(path),
        "uuid": str(axlf.uuid),
        "xsa": axlf.platform,
        "sections": {_section_name(axlf, kind): len(data) for kind, data in axlf.sections.items()},
        "manifest": axlf.manifest,
    }


def show(path: str | Path, console: Console) -> None:
    """Prints the summary of an xclbin as tables."""
    facts = summary(path)
    manifest = facts["manifest"]
    console.print(Group(_overview(facts), _kernels(manifest), _arguments(manifest), _banks(manifest), _tiles(manifest)))


def _overview(facts: dict[str, Any]) -> Table:
    manifest = facts["manifest"]
    table = Table.grid(padding=(0, 2))
    rows = {
        "file": facts["file"],
        "uuid": facts["uuid"],
        "target": manifest["target"],
        "isa": manifest["isa"] or "-",
        "plan": manifest.get("plan") or manifest["isa"] or "-",
        "recipe": manifest["recipe"],
        "platform": f"{manifest['platform'].get('name', '-')} ({facts['xsa']})",
        "command version": str(manifest["command_version"]),
        "sections": ", ".join(f"{name} {_size(size)}" for name, size in facts["sections"].items()),
    }
    for name, value in rows.items():
        table.add_row(Text(name, "bold"), Text(value))
    return table


def _kernels(manifest: dict[str, Any]) -> Table:
    table = Table("kernel", "compute units", "cores", "opcodes", title="Kernels", title_justify="left", expand=False)
    for kernel in manifest["kernels"]:
        free_running = kernel.get("free_running", False)
        units = "\n".join(
            f"{unit['name']} {'runs from the load on' if free_running else '@ ' + hex(unit['base'])}"
            for unit in kernel["compute_units"]
        )
        opcodes = ", ".join(f"{name} ({manifest['opcodes'].get(name, '?')})" for name in kernel["opcodes"])
        cores = ", ".join(kernel["cores"]) or "(plain kernel)"
        table.add_row(*map(Text, (kernel["name"], units, cores, opcodes or "-")))
    return table


def _arguments(manifest: dict[str, Any]) -> Table:
    table = Table("kernel", "argument", "kind", "offset", "bytes", "bank", title="Arguments", title_justify="left")
    for kernel in manifest["kernels"]:
        for argument in kernel["args"]:
            bank = argument["bank"] if argument["kind"] == "global" else "-"
            offset = "-" if argument["kind"] == "stream" else hex(argument["offset"])
            words = kernel["name"], argument["name"], argument["kind"], offset
            table.add_row(*map(Text, (*words, str(argument["bytes"]), bank)))
    return table


def _banks(manifest: dict[str, Any]) -> Table:
    table = Table("bank", "base", "size", title="Memory", title_justify="left")
    for bank in manifest["banks"]:
        table.add_row(*map(Text, (bank["tag"], f"{bank['base']:#x}", _size(bank["bytes"]))))
    return table


def _tiles(manifest: dict[str, Any]) -> Table:
    table = Table("tile constant", "value", title="Tiles", title_justify="left")
    for name, value in manifest["tiles"].items():
        table.add_row(Text(name), Text(str(value)))
    return table


def _section_name(axlf: Axlf, kind: int) -> str:
    return Section(kind).name if kind in Section._value2member_map_ else axlf.names.get(kind) or f"section {kind}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"
