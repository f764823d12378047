"""docs/ops.md: the decisions of table.py and the conditions of conditions.py as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering.ops.host import short
from fpga_dynamo.lowering.patterns import TABLE
from fpga_dynamo.tools.opset import conditions
from fpga_dynamo.tools.opset.table import OperatorRow, core_aten, rows

_HEAD = """\
# Operators

Written by `fpga-dynamo ops --markdown` from the tables of lowering; do not edit it by hand.

For ML engineers who want to know which operators run on the card. The page lists every op of the core ATen set, to
which `torch.compile` decomposes a model, and other ops that lowering supports. For a particular model,
`fpga_dynamo.explain` reports the same for each node. A dtype is listed if the cores of at least one recipe support it:
complex64 needs the recipe `signal` ([signal.md](signal.md)).

| where | what it means | ops of the core set |
| --- | --- | --: |
"""

_MEANINGS = {
    "PL": "a core runs it, for the given dtypes and under the conditions of its pattern",
    "in parts": "it is decomposed into other ops before lowering",
    "view": "it needs no time on the card",
    "constant": "it is evaluated once",
    "PS": "it runs in eager mode on the host, as without the backend",
}


def page(target: Target) -> str:
    """The whole of docs/ops.md."""
    table = rows(target)
    core = {short(op) for op in core_aten()}
    counts = Counter(row.where for row in table if row.op in core)
    parts = [_HEAD, *(f"| {where} | {text} | {counts[where]} |\n" for where, text in _MEANINGS.items())]
    parts += ["\n## Ops of the core set\n", *_ops(row for row in table if row.op in core)]
    parts += ["\n## Other ops\n", *_ops(row for row in table if row.op not in core)]
    parts += [
        "\n## Conditions\n\n",
        "A node that its pattern rejects runs on the host (PS), and `explain` gives the reason. An ellipsis\n",
        "stands for a name or a number of the call. For any op:\n\n",
        *(f"- {_cell(text)}\n" for text in conditions.of_all()),
        "\nBy pattern; a pattern that is not listed has no other reasons:\n",
    ]
    for refused, names in _patterns_by_conditions().items():
        parts += [f"\n{', '.join(f'`{name}`' for name in names)}\n\n", *(f"- {_cell(text)}\n" for text in refused)]
    return "".join(parts)


def _patterns_by_conditions() -> dict[tuple[str, ...], list[str]]:
    """Names of patterns that refuse for the same reasons."""
    found: dict[tuple[str, ...], list[str]] = {}
    for pattern in TABLE.patterns():
        if refused := conditions.of_pattern(pattern):
            found.setdefault(tuple(refused), []).append(pattern.name)
    return found


def check_page(path: Path, target: Target) -> bool:
    """Whether the file is what :func:`page` writes."""
    return path.exists() and path.read_text(encoding="utf-8", errors="replace") == page(target)


def _ops(table: Iterable[OperatorRow]) -> list[str]:
    lines = ["\n| op | where | dtypes | core | pattern | reason |\n| --- | --- | --- | --- | --- | --- |\n"]
    return [*lines, *(_line(row) for row in table)]


def _line(row: OperatorRow) -> str:
    names = [", ".join(items) for items in (row.dtypes, row.cores, row.patterns)]
    return f"| `{row.op}` | {row.where} | {names[0]} | {names[1]} | {names[2]} | {_cell(row.why)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
