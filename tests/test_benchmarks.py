"""The harness of benchmarks/: timings and ratios by a clock that the tests wind, the smallest piece of each suite.

No test asks how fast anything is.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks import checkouts, cli, compare, layers, machine, readme, suites, summary, verify
from benchmarks import medians as recorded
from benchmarks.card import products
from benchmarks.peers import PEERS, UnsuitableError, make
from benchmarks.process import PieceError, run
from benchmarks.results import CARD, OURS, Result, Row, Target
from benchmarks.rounds import SelfTimed, Timing, interleave
from benchmarks.suites import Settings
from benchmarks.workloads import EAGER, WORKLOADS
from fpga_dynamo.errors import FpgaError
from tests.marks import EXTENDED

# --- rounds -----------------------------------------------------------------------------------------------------------


class Watch:
    """A clock that only moves when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.worked: list[str] = []

    def __call__(self) -> float:
        return self.now

    def worker(self, name: str, *seconds: float) -> Callable[[], None]:
        """Work that takes the given times in turn, the last of them forever."""
        left = list(seconds)

        def work() -> None:
            self.worked.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return work


def test_medians_quartiles_and_rounds() -> None:
    watch = Watch()
    # Three calls warm up, then each turn is one untimed and one timed call.
    times = [1.0] * 3 + [9.0, 1.0, 9.0, 2.0, 9.0, 3.0, 9.0, 4.0, 9.0, 50.0]
    found = interleave({"a": watch.worker("a", *times)}, 0.0, least_rounds=5, settle=0.0, sample=0.0, clock=watch)
    assert found.timings["a"] == Timing(median=3.0, lower=2.0, upper=4.0, rounds=5, calls=1)


def test_contestants_take_turns_and_who_begins_changes() -> None:
    watch = Watch()
    workers = {name: watch.worker(name, 1.0) for name in "abc"}
    interleave(workers, 0.0, least_rounds=3, settle=0.0, sample=0.0, clock=watch)
    warm_up, rounds = "".join(watch.worked[:9]), "".join(watch.worked[9:])
    assert warm_up == "aaabbbccc" and rounds == "aabbcc" + "bbccaa" + "ccaabb"


def test_rounds_go_on_until_the_time_is_over() -> None:
    watch = Watch()
    workers = {"slow": watch.worker("slow", 1.0), "fast": watch.worker("fast", 0.5)}
    found = interleave(workers, 10.0, least_rounds=2, settle=0.0, sample=0.0, clock=watch)
    assert found.timings["slow"].rounds == found.timings["fast"].rounds == math.ceil(10.0 / (2 * 1.0 + 2 * 0.5))


def test_short_calls_are_timed_in_blocks_and_settle_first() -> None:
    watch = Watch()
    found = interleave({"a": watch.worker("a", 1e-4)}, 0.0, least_rounds=1, settle=1e-2, sample=1e-3, clock=watch)
    assert found.timings["a"].calls == 10 and found.timings["a"].median == pytest.approx(1e-4)
    assert 3 + 100 + 10 <= len(watch.worked) <= 3 + 101 + 10


def test_a_contestant_may_say_itself_what_counts() -> None:
    watch = Watch()
    work = watch.worker("a", 1.0)
    found = interleave({"a": SelfTimed(lambda: work() or 0.25)}, 0.0, least_rounds=2, settle=0.0, clock=watch)
    assert found.timings["a"].median == 0.25


def test_a_contestant_that_fails_leaves_the_others_in_the_race() -> None:
    watch = Watch()
    calls = iter(range(100))

    def fails_later() -> None:
        if next(calls) == 5:
            raise RuntimeError("out of\n  breath")

    def fails_at_once() -> None:
        raise ValueError("no")

    contestants = {"late": fails_later, "never": fails_at_once, "good": watch.worker("good", 1.0)}
    found = interleave(contestants, 0.0, least_rounds=3, settle=0.0, sample=0.0, clock=watch)
    assert found.failures == {"late": "RuntimeError: out of breath", "never": "ValueError: no"}
    assert list(found.timings) == ["good"] and found.timings["good"].rounds == 3


# --- results ----------------------------------------------------------------------------------------------------------


def timing(median: float) -> Timing:
    return Timing(median, median / 2, median * 2, 5)


def result(**rows: dict[str, float]) -> Result:
    made = [Row(name, {who: timing(median) for who, median in medians.items()}) for name, medians in rows.items()]
    return Result("models", {"cpu": "none", "threads": 2, "packages": {"torch": "1"}}, {}, made)


def test_ratios_are_theirs_over_ours_and_targets_are_judged() -> None:
    row = result(net={OURS: 2.0, CARD: 1.0, EAGER: 5.0, "openvino": 1.5}).rows[0]
    assert row.ratios() == {EAGER: 2.5, "openvino": 0.75}
    assert row.ratios(CARD) == {EAGER: 5.0, "openvino": 1.5}
    row.demand({EAGER: 2.5, "openvino": 1.2, "absent": 1.0})
    assert [(target.what, target.met) for target in row.targets] == [("over eager", True), ("over openvino", False)]
    assert Target("size", 1.3, 1.2, "at most").met is False
    assert Row("net", {EAGER: timing(1.0)}).ratios() == {}, "without ours there is nothing to compare"


def test_a_target_beyond_the_peak_says_so() -> None:
    row = result(net={OURS: 2.0, EAGER: 5.0, "openvino": 1.5}).rows[0]
    row.demand({EAGER: 3.5, "openvino": 1.2}, floor=1.0)
    assert [target.ceiling for target in row.targets] == [5.0, 1.5]
    text = summary.markdown([Result("models", {"cpu": "none"}, {}, [row])])
    assert "at most" not in text and text.count("not met") == 2, "both could be met"
    row.targets.clear()
    row.demand({EAGER: 3.5, "openvino": 1.2}, floor=1.6)
    text = summary.markdown([Result("models", {"cpu": "none"}, {}, [row])])
    assert "not met; at most 3.12 at this machine's peak" in text and "not met; at most 0.938" in text


def test_products_of_a_winograd_convolution_are_those_of_its_tiles() -> None:
    model, x = nn.Conv2d(64, 64, 3, padding=1).eval(), torch.randn(1, 64, 16, 16)
    direct = nn.Conv2d(64, 64, 1).eval()
    assert products(direct, x) == 64 * 64 * 16 * 16
    with torch.no_grad():
        torch.compile(model, backend="fpga")(x)  # what is compiled already is compiled again
    assert products(model, x) == 36 * 64 * 64 * 4 * 4, "36 elements of each tile of 4 x 4 pixels"


def test_results_survive_their_json(tmp_path: Path) -> None:
    before = result(net={OURS: 2.0, EAGER: 5.0})
    before.rows[0].demand({EAGER: 2.0})
    path = before.save(tmp_path)
    assert path.name == "models.json" and Result.load(path) == before
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["rows"][0]["ratios"] == {EAGER: 2.5} and data["rows"][0]["targets"][0]["met"] is True
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="is no result of benchmarks"):
        Result.load(path)


def test_summary_shows_ratios_targets_and_failures() -> None:
    shown = result(net={OURS: 2e-3, EAGER: 5e-3}, other={EAGER: 3e-6})
    shown.rows[0].demand({EAGER: 3.0})
    shown.rows[1].failures[OURS] = "RuntimeError: no"
    text = summary.markdown([shown])
    assert "| net | 2.00 ms | 2.50 | -50% +100% | 5 |" in text
    assert "| net | over eager | 2.5 | at least 3 | not met |" in text
    assert "- other, fpga: RuntimeError: no" in text and "3.00 µs" in text


def test_the_readme_s_table_is_made_of_pieces() -> None:
    first = result(resnet18={OURS: 9e-3, EAGER: 27e-3}, resnet50={OURS: 1.0})
    second = result(resnet50={OURS: 30e-3, EAGER: 15e-3}, unknown={OURS: 1.0})
    text = readme.section([first, second])
    assert "| resnet18 | 9.00 ms | 3.00 | - | - |\n| resnet50 | 30.00 ms | 0.50 | - | - |\n" in text
    assert "unknown" not in text
    page = f"# Title\n{readme.BEGIN}\nold\n{readme.END}\nend"
    again = readme.replaced(readme.replaced(page, "new"), "new")
    assert again == f"# Title\n{readme.BEGIN}\nnew\n{readme.END}\nend"
    with pytest.raises(ValueError, match="no place for the table"):
        readme.replaced("# Title", "new")
    second.environment["cpu"] = "another"
    with pytest.raises(ValueError, match="one machine's"):
        readme.section([first, second])


def test_two_results_compare_with_the_peers_as_control(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for side, medians in (("before", {OURS: 4.0, EAGER: 2.0}), ("after", {OURS: 1.0, EAGER: 1.0})):
        (tmp_path / side).mkdir()
        paths.append(str(result(net=medians, **{side: medians}).save(tmp_path / side)))
    changes = compare.compare(Result.load(Path(paths[0])), Result.load(Path(paths[1])))
    assert [(c.name, c.ours, c.control, c.corrected) for c in changes] == [("net", 4.0, 2.0, 2.0)]
    assert compare.main(paths) == 0
    assert "| net | 4.00 |  | 2.00 | 2.00 |" in capsys.readouterr().out
    other = result()
    other.suite = "kernels"
    with pytest.raises(ValueError, match="two suites, models and kernels"):
        compare.compare(result(), other)


# --- outputs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda y: y + 0.01 * y.abs().max(), "error 1.0e-02 of the largest output"),
        (lambda y: y[:1], "shape"),
        (lambda y: y * float("nan"), "not finite"),
    ],
)
def test_wrong_outputs_are_noticed(wrong: Callable[[Tensor], Tensor], message: str) -> None:
    model = nn.Linear(8, 8)
    wanted = verify.cases(model, torch.randn(4, 8))
    with torch.no_grad():
        assert verify.check(model, wanted) == 0.0
        with pytest.raises(verify.WrongOutputError, match=message):
            verify.check(lambda x: wrong(model(x)), wanted)


def test_an_output_left_from_the_call_before_is_noticed() -> None:
    model, x = nn.Linear(8, 8), torch.randn(4, 8)
    with torch.no_grad():
        stale = model(x)
        with pytest.raises(verify.WrongOutputError):
            verify.check(lambda _: stale, verify.cases(model, x))


@pytest.mark.parametrize("name", [name for name in PEERS if "inductor" not in name])
def test_peers_answer_as_eager_does(name: str) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 6 * 6, 10)).eval()
    x = torch.randn(1, 3, 8, 8)
    try:
        runner = make(name, model, x, 1)
    except UnsuitableError as error:
        pytest.skip(str(error))
    with torch.no_grad():
        verify.check(runner, verify.cases(model, x))
        runner.bound(x)()


def test_every_target_is_about_a_known_peer() -> None:
    assert {peer for workload in WORKLOADS.values() for peer in workload.limits} <= set(PEERS)


# --- suites -----------------------------------------------------------------------------------------------------------


def test_layers_are_those_of_the_network() -> None:
    recorded = layers.record(WORKLOADS["resnet18"])
    model, x = WORKLOADS["resnet18"].make()
    assert sum(layer.kind == "conv" for layer in recorded) == sum(isinstance(m, nn.Conv2d) for m in model.modules())
    assert recorded[0].name == "conv 3 x 224 x 224 to 64 kernel 7 stride 2 pad 3"
    assert recorded[0].macs == 64 * 112 * 112 * 3 * 7 * 7 and recorded[0].shape == tuple(x.shape)
    assert recorded[-1].name == "linear 1 x 512 to 1000"
    distinct = layers.layers_of(["resnet18", "mobilenet_v2", "bert-tiny"])
    names = [layer.name for layer in distinct]
    assert len(set(names)) == len(names)
    assert {layer.kind for layer in distinct} == {"conv", "depthwise", "linear", "pool", "rows"}
    for layer in (distinct[1], distinct[-1], *layers.pointwise_chains()[:1]):
        module, x = layer.make()
        assert module(x).isfinite().all() and tuple(x.shape) == layer.shape


def test_rows_are_chosen_by_name_or_part_of_it() -> None:
    names = ["resnet50", "resnet50-batch8", "resnet18"]

    def chosen(*only: str) -> list[str]:
        return Settings(1, 1.0, only, ()).chosen(names)

    assert chosen() == names
    assert chosen("resnet50") == ["resnet50"], "a whole name is not taken for a part of another"
    assert chosen("batch", "resnet18") == ["resnet50-batch8", "resnet18"]
    with pytest.raises(suites.UnknownNameError, match="nothing is called 'vgg'"):
        chosen("vgg")


def test_roofs_bound_what_is_attainable() -> None:
    roofs = machine.Roofs(1, 100.0, {"memory": 10.0})
    assert roofs.attainable(2.0, "memory") == 20.0 and roofs.attainable(1e3, "memory") == 100.0


@pytest.mark.parametrize(
    ("arguments", "row", "figure"),
    [
        ("models --peers eager", "squeezenet1_1", "in_commands_seconds"),
        ("overhead --only launch", "launch", "launch_us"),
        *(
            pytest.param(*row, marks=EXTENDED)
            for row in (
                ("training --peers eager", "bert-tiny-batch8", "in_commands_seconds"),
                ("kernels", "linear 1 x 512 to 1000", "card_gflops"),
                ("int8 --peers eager", "linear 1 x 512 to 1000", "card_gmacs"),
                ("lanes", "bert-tiny", "lanes"),
                ("overhead --only command", "command", "command_us"),
                ("compile", "lowering one launch", "us_a_node_20"),
                ("roofline", "squeezenet1_1 000 conv2d", "gflops"),
            )
        ),
    ],
)
def test_the_smallest_piece_of_a_suite(
    arguments: str, row: str, figure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.suites.overhead.LENGTHS", (2, 4))
    monkeypatch.setattr("benchmarks.suites.compile.SIZES", (20, 80, 320))
    monkeypatch.setattr("benchmarks.suites.compile.PROCESSES", 1)
    monkeypatch.setattr(
        machine, "measure", lambda *threads: [machine.Roofs(n, 1e11, {"memory": 1e10}) for n in threads]
    )
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)  # other tests go on in this process
    suite = arguments.split()[0]
    code = cli.main([*arguments.split(), "--quick", "--threads", "1", "--seconds", "0", "--out", str(tmp_path)])
    found = Result.load(tmp_path / f"{suite}.json")
    assert code == 0 and found.error is None and not any(r.failures for r in found.rows)
    assert found.environment["threads"] == 1 and found.environment["packages"]["torch"]
    measured = next(r for r in found.rows if r.name == row)
    assert math.isfinite(measured.figures[figure])
    assert all(t.lower <= t.median <= t.upper and t.median > 0 for t in measured.timings.values())
    assert (tmp_path / f"{suite}.png").read_bytes().startswith(b"\x89PNG")
    assert f"## {suite}" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_a_suite_that_fails_leaves_the_others_and_its_own_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = suites.load("overhead")

    def rows(settings: Settings, details: dict[str, object]) -> object:
        yield Row("first", {OURS: timing(1.0)})
        raise FpgaError("the card is gone")

    monkeypatch.setattr(module, "rows", rows)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    assert cli.main(["overhead", "--out", str(tmp_path)]) == 1
    found = Result.load(tmp_path / "overhead.json")
    assert found.error == "FpgaError: the card is gone" and [row.name for row in found.rows] == ["first"]


@pytest.mark.slow
@pytest.mark.extended
def test_memory_is_measured_in_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"workload": "bert-tiny", "contestant": EAGER, "threads": 1, "xclbin": "", "calls": 1}
    figures = run("memory", tmp_path, **asked)
    assert figures["peak_bytes"] > 1e7 and figures["warm_peak_bytes"] >= figures["resident_bytes"] > 1e7
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(PieceError, match=r"memory .* ended with code 1"):
        run("memory", tmp_path, **asked)


# --- two checkouts ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.extended
def test_a_checkout_beside_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert checkouts.main([str(checkouts.ROOT), "--only", "relu-1000", "--seconds", "0"]) == 0
    assert "| relu-1000 |" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.extended
def test_checkouts_that_cannot_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checkouts.main([str(tmp_path), "--only", "relu-1000", "--seconds", "0"]) == 1
    assert f"{tmp_path} has no .venv/bin/python: run `make setup` there first" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        checkouts.main([str(tmp_path), "--only", "resnet17"])
    assert "there is no network resnet17" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.extended
def test_the_last_word_of_a_checkout_that_fails() -> None:
    with pytest.raises(checkouts.CheckoutError, match="KeyError"), checkouts.Worker(checkouts.ROOT, "no network", 1):
        pass


def test_medians_of_versions_are_kept_apart_from_machines(tmp_path: Path) -> None:
    first = result(net={OURS: 2e-3, EAGER: 5e-3}, other={OURS: 1e-3})
    first.environment = {"packages": {"fpga_dynamo": "0.9.0"}, "threads": 2, "time": "2026-01-02T03:04Z", "cpu": "C1"}
    path = recorded.record(first, "x86-64-v3", tmp_path)
    assert path == tmp_path / "0.9.0.json" and "C1" not in path.read_text(encoding="utf-8")
    first.rows = [row for row in result(net={OURS: 1e-3, EAGER: 5e-3}).rows]  # measured again: the other row stays
    recorded.record(first, "x86-64-v3", tmp_path)
    first.environment["packages"] = {"fpga_dynamo": "0.10.0"}
    recorded.record(first, "x86-64-v3", tmp_path)
    found = recorded.entries(tmp_path)
    assert [entry["version"] for entry in found] == ["0.9.0", "0.10.0"]
    rows = found[0]["suites"]["models"]["x86-64-v3, 2 threads"]
    assert rows["net"] == {"date": "2026-01-02", "ms": 1.0, "ratios": {EAGER: 5.0}} and rows["other"]["ms"] == 1.0
    lines = [line.split(" | ")[:2] for line in recorded.page(found).splitlines() if line.startswith("| ")]
    assert lines[2:] == [["| net", "0.9.0"], ["| net", "0.10.0"], ["| other", "0.9.0"]]
    recorded.draw(found, tmp_path / "figures")
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["models-x86-64-v3-2-threads.svg"]


def test_a_result_without_our_times_is_not_recorded(tmp_path: Path) -> None:
    first = result(net={EAGER: 5e-3})
    first.environment = {"packages": {"fpga_dynamo": "0.9.0"}, "threads": 2, "time": "2026-01-02"}
    assert recorded.record(first, "x86-64-v3", tmp_path) is None and not list(tmp_path.iterdir())


def test_the_page_of_versions_is_made_from_the_recorded_medians() -> None:
    found = recorded.entries()
    assert found and recorded.PAGE.read_text(encoding="utf-8") == recorded.page(found)
    images = re.findall(r"\]\((history/[^)]*)", recorded.page(found))
    assert images and all((recorded.PAGE.parent / image).exists() for image in images)
