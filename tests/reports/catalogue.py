"""All reports, in the order of the page."""

from __future__ import annotations

from tests.reports import (  # noqa: F401  (each registers its reports)
    in_place,
    kinds_of_tensors,
    modules,
    numbers,
    processes,
    sizes,
    training,
    transforms,
)
from tests.reports.case import REPORTS, Report

KNOWN: dict[str, str] = {}
"""Where fpga alone differs today, and why; an entry whose report is mended fails its test until it is removed."""


def reports() -> list[Report]:
    """By kind, the kinds in alphabetical order; within one as they are written."""
    return sorted(REPORTS, key=lambda report: report.kind)
