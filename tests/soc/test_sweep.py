"""Systems, workloads and sweeps as tables; the command; reports."""

from __future__ import annotations

import contextlib
import csv
import json
import linecache
import math
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fpga_dynamo.runtime.application import Application, ApplicationTask, Edge, save
from fpga_dynamo.runtime.scheduling.policies import Policy
from fpga_dynamo.tools.cli import main
from fpga_dynamo.tools.executor import Threads
from fpga_dynamo.tools.soc import provenance, watchdog
from fpga_dynamo.tools.soc.optimum import optimum
from fpga_dynamo.tools.soc.results import load_results, pareto, saturation
from fpga_dynamo.tools.soc.sweep import Sweep, run_sweep
from fpga_dynamo.tools.soc.system import System
from fpga_dynamo.tools.soc.tables import StudyError
from fpga_dynamo.tools.soc.virtual import simulate
from fpga_dynamo.tools.soc.workload import Arrivals, ArrivingApplication, Workload
from xclbin_build.documents import tomllib


def radar() -> Application:
    tasks = [
        ApplicationTask("chirp", {"a53": 90e-6, "fft": 20e-6}),
        ApplicationTask("echo", {"a53": 90e-6, "fft": 20e-6}),
        ApplicationTask("product", {"a53": 20e-6}, (Edge(0, 2048), Edge(1, 2048))),
    ]
    return Application("radar", tasks)


SWEEP = """
rates = [1000, 4000, 16000]
policies = ["eft", "least_work"]
system.cpus.a53 = 2
workload.instances = 40
workload.application = [{graph = "radar.json"}]
[grid]
"accelerators.fft" = [0, 1]
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    save(radar(), tmp_path / "radar.json")
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path


def table(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_study_is_two_commands(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = study / "out"
    assert main(["soc", "sweep", str(study), "--out", str(out)]) == 0
    assert "12 runs, 12 in all" in capsys.readouterr().out
    assert len(rows(out / "runs.csv")) == len(rows(out / "applications.csv")) == 12
    assert main(["soc", "report", str(out), "--figures", str(out / "figures")]) == 0
    page = (out / "report.html").read_text()
    assert page.count("<figure ") == 8 and "http" not in page.replace("http://www.w3.org", "")
    assert len(list((out / "figures").glob("*.svg"))) == 8
    schedules = json.loads((out / "gantt.json").read_text())
    assert len(schedules) == 2 and all(one["tasks"] for one in schedules)
    assert schedules[0]["pes"] == ["a53_1", "a53_2", "fft_1"]


def test_a_sweep_goes_on_where_it_was(study: Path) -> None:
    sweep, out = Sweep(table(SWEEP), study), study / "out"
    assert run_sweep(sweep, out, Threads(1)) == (12, [])
    whole = (out / "runs.csv").read_text()
    assert [line[:16] for line in whole.splitlines()[1:]] == [point.key for point in sweep.points()]
    lines = (out / "runs.csv").read_text().splitlines(keepends=True)
    (out / "runs.csv").write_text("".join(lines[:6]) + lines[6][:25])  # it was killed as it wrote
    assert run_sweep(sweep, out, Threads(2)) == (7, [])
    assert (out / "runs.csv").read_text() == whole
    assert len(rows(out / "applications.csv")) == 12
    assert run_sweep(sweep, out) == (0, [])


def test_another_process_can_run_a_sweep(study: Path) -> None:
    tasks = [replace(task, run=lambda kind, *inputs: inputs) for task in radar().tasks]
    sweep = Sweep(table(SWEEP), study)
    sweep.workload = sweep.workload.with_sources([ArrivingApplication(Application("radar", tasks))])
    point = next(iter(sweep.points()))
    here = sweep.run(point)  # which makes what cannot be pickled
    assert pickle.loads(pickle.dumps(sweep.attempt))(point) == here
    assert sweep.workload.applications[0].tasks[0].has_code


PATIENT = """
from fpga_dynamo.runtime.scheduling.policies import Policy


class Patient(Policy):
    name = "patient"

    def assign(self, ready, pes, now, available):
        return [(item, self.earliest_finish(item.task, pes, now, available)[1]) for item in ready]
"""


def test_what_would_come_out_differently_is_made_again(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, out = study / "patient_policy.py", study / "out"
    module.write_text(PATIENT)
    monkeypatch.syspath_prepend(str(study))
    asked = SWEEP.replace('"least_work"]', '"patient_policy:Patient"]')

    def swept(text: str) -> str:
        (study / "sweep.toml").write_text(text)
        assert main(["soc", "sweep", str(study), "--out", str(out)]) == 0
        return capsys.readouterr().out.replace("\n", " ")

    assert "12 runs, 12 in all" in swept(asked)
    assert swept(asked).startswith("0 runs, 12 in all")
    module.write_text(PATIENT + "\n# Another rule.\n")
    linecache.checkcache()
    told = swept(asked)
    assert "6 runs are made again: the code of patient_policy:Patient changed 6 runs, 12 in all" in told
    # More of the same is no change, and says nothing; another core or another task is one.
    assert swept(asked.replace("[1000, ", "[500, 1000, ")).startswith("4 runs, 16 in all")
    assert swept(asked).startswith("0 runs, 12 in all")
    more = asked.replace("a53 = 2", "a53 = 3")
    assert "12 runs are made again: the systems changed 12 runs, 12 in all" in swept(more)
    assert "12 runs are made again: the workload changed" in swept(more.replace("= 40", "= 30"))
    monkeypatch.setattr(provenance, "_version", lambda: "0.0.1")
    assert "12 runs are made again: the package's version, the workload changed" in swept(more)


def test_results_say_what_the_runs_gave(study: Path) -> None:
    sweep, out = Sweep(table(SWEEP), study), study / "out"
    run_sweep(sweep, out)
    results = load_results(out)
    run = simulate(sweep.systems[1], sweep.workload, "eft", 4000, 0)
    assert dict(results.curve("mean_ms", system=1, policy="eft"))[4000] == pytest.approx(run.mean_response * 1e3)
    assert results.richest() == 1 and results.units(1) == 3 and results.title(1) == "fft 1"
    # 200 us of one core's work for two cores: 10,000 a second without the unit, more with it.
    assert results.runs[0]["capacity"] == pytest.approx(10000, rel=0.01)


def test_results_do_not_depend_on_which_run_ended_first(study: Path) -> None:
    out = study / "out"
    assert main(["soc", "sweep", str(study), "--out", str(out)]) == 0
    ended = load_results(out)
    head, *lines = (out / "runs.csv").read_text().splitlines(keepends=True)
    (out / "runs.csv").write_text("".join([head, *reversed(lines)]))
    assert load_results(out) == ended and ended.policies == ["eft", "least_work"]


def test_saturation_and_pareto() -> None:
    assert saturation([(1, 1.0), (2, 2.0), (4, 5.0)], 1.0) == pytest.approx(2 + 2 / 3)
    assert saturation([(1, 1.0), (2, 2.0)], 1.0) is None and saturation([], 1.0) is None
    assert saturation([(1, 3.5), (2, 4.0)], 1.0) == -math.inf  # it is saturated at the lowest rate
    assert pareto([(1, 5.0), (2, 6.0), (3, 2.0), (3, 1.0)]) == [0, 3]


def test_a_run_from_the_command_line(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (study / "system.toml").write_text("cpus = {a53 = 1}\naccelerators.fft = [{count = 1}, {count = 1, clock = 150e6}]")
    (study / "workload.toml").write_text('instances = 20\n[[application]]\ngraph = "radar.json"\narrivals = "periodic"')
    files = [str(study / "system.toml"), str(study / "workload.toml")]
    picture, trace = study / "gantt.svg", study / "trace.json"
    assert main(["soc", "run", *files, "--gantt", str(picture), "--trace", str(trace)]) == 0
    shown = capsys.readouterr().out
    assert "radar" in shown and "fft@150MHz_1" in shown and "lower bound of any scheduler" in shown
    assert picture.exists() and len(json.loads(trace.read_text())["traceEvents"]) > 60
    assert main(["soc", "run", *files, "--policy", "tests.soc.test_sweep:Backwards"]) == 0
    (study / "workload.toml").write_text(
        'instances = 20\nwarm_up = 0.5\n[[application]]\ngraph = "radar.json"\narrivals = "periodic"\ndeadline = 1e-9'
    )
    capsys.readouterr()
    assert main(["soc", "run", *files]) == 0
    assert re.search(r"radar\W+10\W.*100.0%", capsys.readouterr().out), "half of the instances, all too late"
    assert main(["soc", "run", *files, "--paced"]) == 2
    assert main(["soc", "run", *files, "--gantt", str(study / "gantt.html")]) == 2
    assert "cannot draw a picture called gantt.html: its file extension must be one of" in capsys.readouterr().err
    assert main(["soc", "run", *files, "--policy", "tests.soc.test_sweep:Wrong"]) == 2
    assert "policy 'wrong' gave 'nothing'" in capsys.readouterr().err


MISTAKES = [
    ({"system": {"cpu": {}}}, "unknown key 'cpu': did you mean 'cpus'"),
    ({"system": {"cpus": {"a35": 1}}}, "unknown CPU class 'a35': did you mean 'a53'"),
    ({"system": {"cpus": {"u74": 1}, "classes": {"u74": {"clock": 1e9}}}}, "classes.u74 needs a speed greater than 0"),
    ({"system": {"cpus": {"a53": 1}, "classes": {"a53": {}}}}, "classes.a53: this class is built in"),
    ({"system": {"cpus": {"a53": -1}}}, "a count must be a whole number"),
    ({"system": {"cpus": {"a53": 0}}}, "at least one processing element"),
    ({"system": {"cpus": {"a53": 1}, "scheduler": {"decision": "slow"}}}, "the cost of decisions must be one of free"),
    ({"system": {"cpus": {"a53": 1}, "transfer": {"bandwidth": 0}}}, "bandwidth must be greater"),
    ({"system": {"cpus": {"a53": [{"count": 1}, {"count": 2}]}}}, "given twice with the same clock"),
    ({"workload": {}}, "at least one [[application]]"),
    ({"workload": {"application": [{}]}}, "application 1 has no source"),
    ({"workload": {"application": [{"graph": "radar.json", "deadline": 0}]}}, "a deadline must be greater than 0 s"),
    ({"workload": {"application": [{"graph": "radar.json"}, {"graph": "radar.json"}]}}, "two applications are called"),
    ({"workload": {"application": [{"graph": "radar.json", "arrivals": "often"}]}}, "arrivals must be 'poisson'"),
    ({"workload": {"application": [{"graph": "radar.json", "arrivals": {"trace": "no.txt"}}]}}, "cannot read arrivals"),
    ({"workload": {"application": [{"program": "fpga_dynamo.tools.soc.tables:StudyError"}]}}, "not an Application"),
    ({"rates": [0]}, "rates must be a list of numbers > 0"),
    ({"loads": [0.5]}, "not both"),
    ({"grid": {"cpus.a53": 3}}, "needs a list of values"),
    ({"polices": []}, "did you mean 'policies'"),
]


@pytest.mark.parametrize(("change", "sentence"), MISTAKES)
def test_what_is_wrong_is_named(study: Path, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Exception) as caught:
        Sweep({**table(SWEEP), **change}, study)
    assert sentence in str(caught.value)
    assert type(caught.value).__name__ in ("StudyError", "ApplicationError")


def test_a_report_of_nothing(tmp_path: Path) -> None:
    assert main(["soc", "report", str(tmp_path)]) == 2


def test_arrivals_are_as_asked(tmp_path: Path) -> None:
    (tmp_path / "times.txt").write_text("0.5\n0.25\n9\n")
    sources = [
        ArrivingApplication(radar(), kind="bursts", burst=5),
        ArrivingApplication(Application("x", radar().tasks), kind="trace", trace=(0.25, 0.5, 9.0)),
        ArrivingApplication(Application("y", radar().tasks), kind="periodic"),
    ]
    arrivals = Workload.of(sources, until=1.0).arrivals(300.0, 3)
    by = [arrivals.times[[w == number for w in arrivals.which]] for number in range(3)]
    assert len(by[0]) % 5 == 0 and len(set(by[0].tolist())) == len(by[0]) // 5 and 50 < len(by[0]) < 150
    assert by[1].tolist() == [0.25, 0.5]
    assert len(by[2]) in (99, 100, 101) and set((by[2][1:] - by[2][:-1]).round(9).tolist()) == {0.01}


@pytest.mark.parametrize("cpus", [1, 2])
def test_no_policy_beats_the_optimum(cpus: int) -> None:
    pytest.importorskip("ortools", reason="optimal schedules need ortools")
    system = System({"cpus": {"a53": cpus}, "accelerators": {"fft": 1}, "scheduler": {"decision": "free"}})
    workload = Workload.of([ArrivingApplication(radar())])
    arrivals = Arrivals(np.array([0.0, 10e-6, 30e-6]), [0, 0, 0])
    best = optimum(system, [system.compiled(radar())], arrivals, seconds=60)
    runs = [simulate(system, workload, p, arrivals=arrivals) for p in ("eft", "etf", "heft_rt", "least_work")]
    assert best.proved
    for run in runs:
        assert run.mean_response >= best.mean_response * (1 - 1e-3)
        assert best.mean_response >= run.least_mean_response * (1 - 1e-3)


def test_too_large_for_an_optimum() -> None:
    pytest.importorskip("ortools", reason="optimal schedules need ortools")
    system = System({"cpus": {"a53": 1}})
    workload = Workload.of([ArrivingApplication(radar())], instances=500)
    with pytest.raises(StudyError, match="an optimal schedule supports at most"):
        optimum(system, [system.compiled(radar())], workload.arrivals(100.0, 0))


class Backwards(Policy):
    """The youngest task first, where it finishes first."""

    name = "backwards"

    def assign(self, ready: Any, pes: Any, now: Any, available: Any) -> Any:
        return [(item, self.earliest_finish(item.task, pes, now, available)[1]) for item in reversed(ready)]


class Wrong(Policy):
    name = "wrong"

    def assign(self, ready: Any, pes: Any, now: Any, available: Any) -> Any:
        return "nothing"


class Endless(Backwards):
    name = "endless"

    def assign(self, ready: Any, pes: Any, now: Any, available: Any) -> Any:
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))


def test_a_faulty_policy_fails_its_own_runs(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = study / "out"
    (study / "sweep.toml").write_text(SWEEP.replace('["eft",', '["tests.soc.test_sweep:Wrong", "eft",'))
    assert main(["soc", "sweep", str(study), "--out", str(out)]) == 1
    told = capsys.readouterr().out
    assert told.count("failed (tests.soc.test_sweep:Wrong, ") == 6 and "12 runs, 18 in all, 6 failed" in told
    assert {row["policy"] for row in rows(out / "runs.csv")} == {"eft", "least_work"}
    assert "seed 0, fft 1): policy 'wrong' gave 'nothing'" in told
    assert main(["soc", "report", str(out)]) == 0


def test_a_policy_that_does_not_exist_is_refused_before_any_run(study: Path) -> None:
    with pytest.raises(StudyError, match="unknown scheduling policy 'least_wrok': did you mean 'least_work'"):
        Sweep({**table(SWEEP), "policies": ["eft", "least_wrok"]}, study)


def test_an_endless_policy_is_stopped() -> None:
    policy = Endless()
    sentence = r"policy 'endless' was stopped: one of its decisions took more than 0\.2 s"
    with pytest.raises(StudyError, match=sentence), watchdog.limited(policy, 0.2):
        policy.assign((), (), 0.0, {})
    assert "assign" not in vars(policy)


@pytest.mark.parametrize("kind", ["poisson", "periodic", "bursts"])
def test_instances_are_as_many_as_asked(kind: str) -> None:
    sources = [
        ArrivingApplication(replace(radar(), name=name), share, kind, 3) for name, share in (("x", 1.0), ("y", 2.5))
    ]
    for seed in range(5):
        arrivals = Workload.of(sources, instances=100).arrivals(150.0, seed)
        assert len(arrivals.times) == len(arrivals.which) == 100
        assert (np.diff(arrivals.times) >= 0).all() and arrivals.times[-1] == pytest.approx(100 / 150, rel=0.5)


@pytest.mark.parametrize(
    ("name", "hint"), [("ftt", "did you mean 'fft'"), ("gemm", "did you mean 'mmult'"), ("qqqq", "kernels that")]
)
def test_an_accelerator_that_no_task_can_use(name: str, hint: str) -> None:
    with pytest.raises(StudyError, match=f"no task can use '{name}': {hint}.*run on: fft"):
        System({"cpus": {"a53": 1}, "accelerators": {name: 1}}).unused([radar()])
    assert System({"cpus": {"a53": 1}, "accelerators": {"zip": 1, "fft": 1}}).unused([radar()]) == ["zip"]


def test_what_is_not_said_is_told(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (study / "system.toml").write_text("cpus = {a53 = 1}\naccelerators.zip = 1")
    (study / "workload.toml").write_text('instances = 20\n[[application]]\ngraph = "radar.json"')
    files = [str(study / "system.toml"), str(study / "workload.toml")]
    assert main(["soc", "run", *files]) == 0
    told = capsys.readouterr().out
    assert "no rate given: 100 instances per second" in told
    assert "no task of the workload runs on the accelerator 'zip'" in told
    assert main(["soc", "run", *files, "--rate", "50"]) == 0
    assert "no rate given" not in capsys.readouterr().out
    assert Sweep({key: value for key, value in table(SWEEP).items() if key != "rates"}, study).notes == [
        "no rates, loads or rate given: 100 instances per second"
    ]
