"""Every parameter of a template in engine/ and lib/ is described by a line ``\\tparam NAME ...`` above it."""

from __future__ import annotations

import re

import pytest

from hls_kernels import ENGINE, LIB

_TEMPLATE = re.compile(r"((?:^[ \t]*//[^\n]*\n)*)^[ \t]*template <([^\n]+)>", re.MULTILINE)


def undescribed(source: str) -> list[str]:
    """Parameters of templates without a description."""
    found = []
    for comment, parameters in _TEMPLATE.findall(source):
        described = re.findall(r"\\tparam (\w+) \S", comment)
        names = [parameter.partition("=")[0].split()[-1] for parameter in parameters.split(",")]
        found += [name for name in names if name not in described]
    return found


def test_template_parameters_are_described() -> None:
    sources = [path for folder in (ENGINE, LIB) for path in folder.rglob("*.hpp") if "tb" not in path.parts]
    assert sum("\\tparam" in path.read_text() for path in sources) > 20
    assert not {path.name: names for path in sources if (names := undescribed(path.read_text()))}


@pytest.mark.parametrize("source, missing", [
    ("// \\tparam N Number of banks.\ntemplate <int N>\n", []),
    ("// Banks.\ntemplate <int N>\n", ["N"]),
    ("// \\tparam N Number of banks.\ntemplate <int N, bool WIDE = false>\n", ["WIDE"]),
    ("// \\tparam N Number of banks.\n\ntemplate <int N>\n", ["N"]),
])  # fmt: skip
def test_a_parameter_without_a_description_is_found(source: str, missing: list[str]) -> None:
    assert undescribed(source) == missing
