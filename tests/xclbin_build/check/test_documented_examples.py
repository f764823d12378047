"""The examples of docs/checking-hls.md have the initiation intervals that the page states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.marks import EXTENDED
from xclbin_build.check.run import check_source

PAGE = Path(__file__).parents[3] / "docs/checking-hls.md"
EXAMPLES = re.findall(r"```cpp\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)

PARTITION = ("columns:", "#pragma HLS array_partition variable=table dim=1 complete\ncolumns:")
PARTIAL_SUMS = (
    ("float s = 0;", "float s[8] = {};\n#pragma HLS array_partition variable=s complete"),
    ("s += x[i]", "s[i % 8] += x[i]"),
    ("*sum = s;", "*sum = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];"),
)
OTHER_BUNDLE = ("port=b bundle=gmem", "port=b bundle=gmem2")


def test_every_example_of_the_page_is_in_the_table() -> None:
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize(
    ("example", "changes", "vitis", "ii", "limit"),
    [
        pytest.param(0, (), "", 4, "recurrence", id="carried add"),
        pytest.param(0, PARTIAL_SUMS, "", 1, "", id="partial sums", marks=EXTENDED),
        pytest.param(1, (), "", 2, "recurrence", id="histogram", marks=EXTENDED),
        pytest.param(1, (), "2022.2", 1, "", id="histogram of 2022.2", marks=EXTENDED),
        pytest.param(2, (), "", 4, "memory", id="port conflict", marks=EXTENDED),
        pytest.param(2, (PARTITION,), "", 1, "", id="partition", marks=EXTENDED),
        pytest.param(3, (), "", 2, "m_axi", id="shared bundle", marks=EXTENDED),
        pytest.param(3, (OTHER_BUNDLE,), "", 1, "", id="bundles of their own", marks=EXTENDED),
    ],
)
def test_example_has_the_interval_of_the_page(
    tmp_path: Path, example: int, changes: tuple[tuple[str, str], ...], vitis: str, ii: int, limit: str
) -> None:
    source = EXAMPLES[example]
    for before, after in changes:
        assert before in source
        source = source.replace(before, after)
    (top,) = re.findall(r"void (\w+)\(", source)
    (label,) = re.findall(r"^(\w+):$", source, re.MULTILINE)
    path = tmp_path / "kernel.cpp"
    path.write_text(source)
    (part,) = check_source(path, top, clock_ns=1000 / 300, part="xcu250-figd2104-2L-e", vitis=vitis)
    assert part.check
    loop = next(each for each in part.check.loops if each.name == label)
    assert (loop.ii, loop.kind) == (ii, limit)
    if example == 3:
        assert all(burst.inferred for burst in loop.bursts) == (ii == 1)
