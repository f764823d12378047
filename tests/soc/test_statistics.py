"""Intervals, pairs and the test of steady state, against figures worked by hand and random numbers."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest

from fpga_dynamo.runtime.application import save
from fpga_dynamo.tools.soc import figures
from fpga_dynamo.tools.soc.report import pairs_table, write_report
from fpga_dynamo.tools.soc.results import Results, load_results
from fpga_dynamo.tools.soc.statistics import estimate, is_steady, ratio
from fpga_dynamo.tools.soc.sweep import Sweep, run_sweep
from tests.soc.test_sweep import SWEEP, radar, table


def test_an_interval_by_hand() -> None:
    """1, 2, 3: a standard deviation of 1, so 4.303 / sqrt(3) on either side."""
    found = estimate([1.0, 2.0, 3.0])
    assert (found.mean, found.half) == (2.0, pytest.approx(4.303 / math.sqrt(3)))
    assert estimate([5.0]).half is None


def test_an_interval_holds_the_mean_in_95_of_100_cases() -> None:
    generator = np.random.default_rng(1)
    held = [
        found.low <= 3.0 <= found.high
        for found in (estimate(generator.normal(3.0, 2.0, 5).tolist()) for _ in range(2000))
    ]
    assert 0.93 < np.mean(held) < 0.97


def test_a_pair_cancels_what_both_have() -> None:
    both = np.array([1.0, 10.0, 100.0])
    mean, low, high = ratio((2 * both).tolist(), both.tolist())
    assert mean == pytest.approx(2) and low == pytest.approx(2) and high == pytest.approx(2)


def test_steady_state() -> None:
    generator = np.random.default_rng(2)
    flat = [is_steady(generator.exponential(1.0, 400)) for _ in range(300)]
    assert np.mean(flat) > 0.97
    assert not is_steady(np.linspace(1, 5, 400) + generator.exponential(0.2, 400))
    assert not is_steady(np.ones(39))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Fourteen systems and five policies, two seeds, a warm-up."""
    folder = tmp_path_factory.mktemp("study")
    save(radar(), folder / "radar.json")
    description = table(SWEEP)
    description["policies"] = ["met", "simple", "eft", "heft_rt", "least_work"]
    description["workload"] |= {"seeds": 2, "warm_up": 0.25}
    description["rates"] = [100, 16000]
    description["grid"] = {"accelerators.fft": [0, 1], "cpus.a53": [1, 2, 3, 4, 5, 6, 7]}
    run_sweep(Sweep(description, folder), folder / "out")
    return load_results(folder / "out")


def test_no_system_and_no_policy_is_left_out(results: Results) -> None:
    for draw in (figures.response_by_system, figures.response_by_policy, figures.fronts):
        shown = [row for drawing in draw(results) for row in csv.DictReader(io.StringIO(drawing.table()))]
        text = " ".join(f"{row['panel']} {row['curve']}" for row in shown)
        assert all(results.title(system) in text for system in results.systems), draw.__name__
        assert all(policy in text for policy in results.policies), draw.__name__


def test_a_figure_has_intervals_equal_axes_and_logarithmic_rates(results: Results) -> None:
    first, _ = figures.response_by_system(results)
    axes = [ax for ax in first.figure.axes if ax.get_visible()]
    assert len(axes) == figures.PANELS
    assert len({ax.get_ylim() for ax in axes}) == 1 and {ax.get_xscale() for ax in axes} == {"log"}
    rows = [row for row in csv.DictReader(io.StringIO(first.table())) if row["curve"] == "eft"]
    assert rows and all(float(row["low"]) <= float(row["y"]) <= float(row["high"]) for row in rows)


def test_the_same_figure_has_the_same_bytes(results: Results) -> None:
    drawings = [figures.energy(results)[0] for _ in range(2)]
    for kind, begin in (("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")):
        images = [drawings[0].image(kind), drawings[0].image(kind), drawings[1].image(kind)]
        assert len(set(images)) == 1 and images[0].startswith(begin), kind


def test_pairs_and_saturation(results: Results) -> None:
    head, *rows = pairs_table(results)
    assert len(rows) == 5 and head[1].startswith("mean response over ")
    assert [row[2] for row in rows].count("1") == 1
    found = results.paired("met", "least_work")
    assert found is not None and found[1] <= found[0] <= found[2]
    # Alone, a radar takes its critical path and the decisions; at 100 a second most do.
    row = next(row for row in results.runs if row["rate"] == 100)
    assert row["unloaded_ms"] == pytest.approx(row["p50_ms"], rel=0.02) and row["instances"] == 30


def test_a_report_writes_each_figure_and_its_table(results: Results, tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    from fpga_dynamo.tools.soc import report

    monkey = pytest.MonkeyPatch()
    monkey.setattr(report, "load_results", lambda _: results)
    monkey.setattr(report, "FIGURES", [("energy", figures.energy)])
    try:
        page = write_report(tmp_path, folder).read_text()
    finally:
        monkey.undo()
    assert sorted(path.name for path in folder.iterdir()) == [f"energy.{kind}" for kind in ("csv", "pdf", "png", "svg")]
    assert "2 seeds of arrivals; bars are 95 % intervals over them" in page
