"""The page that `make soc` writes its tables into."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.soc.page import fill

ROOT = Path(__file__).parents[2]


def _page_of_make() -> Path:
    """The page that the Makefile names."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"examples\.soc\.page out/soc (\S+)", makefile)
    assert found
    return ROOT / found[1]


@pytest.mark.parametrize("name", ["policies", "saturation"])
def test_a_table_of_the_page_is_replaced_and_nothing_else(name: str) -> None:
    text = _page_of_make().read_text(encoding="utf-8")
    filled = fill(text, name, [["system", "rate"], ["one", "1"]])
    before, _, rest = text.partition(f"<!-- {name} -->")
    after = rest.partition("<!-- end -->")[2]
    assert filled == f"{before}<!-- {name} -->\n\n| system | rate |\n|---|---|\n| one | 1 |\n\n<!-- end -->{after}"


def test_a_page_without_the_place_of_a_table_is_refused() -> None:
    with pytest.raises(SystemExit, match="<!-- policies -->"):
        fill("# A page\n", "policies", [["policy"]])
