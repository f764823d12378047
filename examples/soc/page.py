"""Puts a sweep's tables into a page: `python -m examples.soc.page out/soc docs/evaluation/soc.md` (see `make soc`)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fpga_dynamo.tools.soc.report import best_table, saturation_table
from fpga_dynamo.tools.soc.results import load_results


def markdown(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def fill(text: str, name: str, rows: list[list[str]]) -> str:
    """The text with the table between the comments `<!-- name -->` and `<!-- end -->` replaced."""
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    if not re.search(pattern, text, re.DOTALL):
        raise SystemExit(f"there is no place for the table {name!r}: <!-- {name} --> ... <!-- end -->")
    return re.sub(pattern, lambda found: f"{found[1]}\n{markdown(rows)}\n\n{found[2]}", text, flags=re.DOTALL)


def main(folder: str, page: str) -> None:
    results = load_results(Path(folder))
    text = Path(page).read_text(encoding="utf-8")
    text = fill(text, "policies", best_table(results))
    Path(page).write_text(fill(text, "saturation", saturation_table(results)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
