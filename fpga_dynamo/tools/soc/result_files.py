"""The CSV files of a sweep: rows are appended as runs end, and a later sweep keeps the rows that it still wants."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xclbin_build import atomic_file


class Table:
    """A CSV file that rows are appended to, each line whole."""

    def __init__(self, path: Path, kind: type[Any]) -> None:
        self._names = list(kind.__dataclass_fields__)
        fresh = not path.exists() or path.stat().st_size == 0
        self._file = path.open("a", newline="", encoding="utf-8")
        self._writer = csv.DictWriter(self._file, self._names)
        if fresh:
            self._writer.writeheader()

    def write(self, rows_: Sequence[Any]) -> None:
        self._writer.writerows([{key: _short(value) for key, value in asdict(row).items()} for row in rows_])
        self._file.flush()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()


def _short(value: Any) -> Any:
    return f"{value:.9g}" if isinstance(value, float) else value


def prune(path: Path, order: Collection[str]) -> list[str]:
    """Leaves the whole rows with such keys in the file, in this order; returns their keys."""
    if not path.exists():
        return []
    ranks = {key: rank for rank, key in enumerate(order)}
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        names = reader.fieldnames or []
        good = [row for row in reader if row.get("key") in ranks and None not in row.values() and None not in row]
    good.sort(key=lambda row: ranks[row["key"]])
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(good)
    atomic_file.write(path, text.getvalue(), durable=True)
    return [row["key"] for row in good]
