"""Public reports: fpga does what eager mode does, or what aot_eager does where that differs from eager mode."""

from __future__ import annotations

import json
import re

import pytest

from tests.marks import EXTENDED
from tests.reports.__main__ import BEFORE
from tests.reports.case import Report
from tests.reports.catalogue import KNOWN, reports
from tests.reports.outcome import acceptable, outcomes


def _marks(report: Report) -> list[pytest.MarkDecorator]:
    known = [pytest.mark.xfail(strict=True, reason=KNOWN[report.name])] if report.name in KNOWN else []
    return [*(() if report.sample else EXTENDED), *known]


@pytest.mark.parametrize("report", [pytest.param(r, id=r.name, marks=_marks(r)) for r in reports()])
def test_report(report: Report) -> None:
    found = dict(outcomes(report))
    assert acceptable(found["aot_eager"], found["fpga"]), f"{found['fpga'].text}\n{found['fpga'].trace}"


def test_references_name_a_project_and_a_number() -> None:
    assert not [r.reference for r in reports() if not re.fullmatch(r"[\w-]+#\d+", r.reference)]
    names = [r.name for r in reports()]
    assert len(names) == len(set(names)) and len({r.reference for r in reports()}) >= 60


def test_outcomes_before_are_of_reports_that_are_there() -> None:
    assert set(json.loads(BEFORE.read_text())) <= {r.name for r in reports()}
