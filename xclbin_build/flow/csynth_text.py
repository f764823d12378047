"""The text of a synthesis summary, csynth.rpt: the loops and the bursts of a design, as Vitis HLS prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

AP_CLOCK = re.compile(r"\|\s*ap_clk\s*\|\s*([\d.]+) ns\s*\|\s*([\d.]+) ns")
"""The clock's target and estimate, in the report of a function."""
AP_CLK = re.compile(r"\|\s*ap_clk\s*\|\s*([\d.]+) ns")


@dataclass
class Summary:
    """What a summary says. loops: module, name, II and latency of an iteration. bursts: accesses to ports."""

    top: str
    version: str
    part: str
    flow: str
    loops: list[tuple[str, str, int, int]] = field(default_factory=list)
    bursts: list[dict[str, Any]] = field(default_factory=list)


def parse(text: str) -> Summary | None:
    """The summary in a text; None for another text."""
    top = re.search(r"Synthesis Summary Report of '(\w+)'", text)
    version, part = (re.search(rf"{name}:\s+(\S+)", text) for name in ("Version", "Target device"))
    if not top or not version or not part:
        return None
    found = Summary(top[1], version[1][:6], part[1], "vitis" if "(Vitis Kernel Flow" in text else "vivado")
    modules: list[tuple[int, str]] = []
    for line in re.findall(r"^ *\|( *[+o*].*)\|$", text.partition("HW Interfaces")[0], re.M):
        cells = line.split("|")
        name = cells[0].strip()
        depth = len(cells[0]) - len(cells[0].lstrip())
        if name[:1] in "+*":
            modules = [module for module in modules if module[0] < depth]
            modules.append((depth, name[1:].strip().rstrip("*")))
        elif len(cells) > 8 and cells[8].strip().startswith("yes") and modules:
            latency, interval = cells[5].strip(), cells[6].strip()
            if latency.isdigit() and interval.isdigit():
                found.loops.append((modules[-1][1], name[1:].strip(), int(interval), int(latency)))
    found.bursts = list(_places(text))
    return found


def table_rows(text: str, title: str) -> list[list[str]]:
    """Cells of the table below a title, without its head."""
    _, found, behind = text.partition(title)
    rows: list[list[str]] = []
    rules = 0
    for line in behind.splitlines() if found else ():
        line = line.strip()
        rules += line.startswith("+-")
        if rules == 2 and line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        if rules == 3 or (rules and not line):
            break
    return rows


def _places(text: str) -> Iterator[dict[str, Any]]:
    """Accesses to ports: a burst, if one of the lines about an access is, with a length that the summary has."""
    kept = {(row[0], row[1], row[2]) for row in table_rows(text, "* Inferred Burst Summary") if len(row) > 3}
    accesses: dict[tuple[str, str, str], list[list[str]]] = {}
    for row in table_rows(text, "* All M_AXI Variable Accesses"):
        if len(row) > 8 and row[4] != "Widen Fail":
            place = "".join(PurePosixPath(row[2]).name.rpartition(":")[0])
            accesses.setdefault((place, row[0], row[3]), []).append(row)
    for (place, bundle, way), rows in accesses.items():
        good = [row for row in rows if row[4] == "Inferred" and (bundle, way, row[5]) in kept]
        row = (good or rows)[0]
        said: dict[str, Any] = {"by": "access", "place": place, "loop": row[6], "bundle": bundle.removeprefix("m_axi_")}
        said |= {"write": way == "write", "inferred": bool(good)}
        yield said | ({"length": row[5]} if good else {"number": row[8]})
