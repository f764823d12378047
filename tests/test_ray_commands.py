"""`soc sweep --ray` and `fuzz --ray` on two nodes of a Ray cluster, both on this machine; `make ray` installs Ray."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from fpga_dynamo.testing import fuzz, graphs
from fpga_dynamo.tools.cli import main
from fpga_dynamo.tools.executor import Executor
from fpga_dynamo.tools.fuzz_blocks import Block, Fuzzing, Report, blocks, fuzz_in_blocks
from tests.ray_kit import Cluster, two_nodes
from tests.soc.test_sweep import SWEEP, study

pytestmark = pytest.mark.slow
__all__ = ["study"]  # a fixture

PROGRAM = str(Path(sys.executable).parent / "fpga-dynamo")
TABLES = ("runs.csv", "applications.csv")
LONG_SWEEP = SWEEP.replace("[1000, 4000, 16000]", str([1000 + 500 * i for i in range(40)])).replace("= 40", "= 4000")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with two_nodes() as made:
        yield made


@pytest.fixture
def cluster_to_kill() -> Iterator[Cluster]:
    with two_nodes() as made:
        yield made


def _sweep(study: Path, out: str, *options: str) -> int:
    return main(["soc", "sweep", str(study), "--out", str(study / out), *options])


def _tables(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in TABLES]


def test_the_tables_and_the_failures_are_those_of_one_host(
    study: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    (study / "sweep.toml").write_text(SWEEP.replace('["eft",', '["tests.soc.test_sweep:Wrong", "eft",'))
    assert _sweep(study, "here", "--jobs", "2") == 1
    here = capsys.readouterr().out
    assert _sweep(study, "there", "--ray", cluster.address) == 1
    there = capsys.readouterr().out
    assert there.replace("there", "here") == here and here.count("policy 'wrong' gave 'nothing'") == 6
    assert _tables(study / "there") == _tables(study / "here")


def test_a_sweep_goes_on_after_a_node_is_killed(study: Path, cluster_to_kill: Cluster) -> None:
    (study / "sweep.toml").write_text(LONG_SWEEP)
    command = [PROGRAM, "soc", "sweep", str(study), "--out", str(study / "there"), "--ray", cluster_to_kill.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sweep:
        _until(lambda: _rows(study / "there") > 5)
        cluster_to_kill.kill_second()
        assert _rows(study / "there") < 160, "too short a sweep: nothing was left when the node ended"
        assert "\n160 runs, 160 in all" in sweep.communicate(timeout=300)[0]
    assert sweep.returncode == 0
    assert _sweep(study, "here") == 0
    assert _tables(study / "there") == _tables(study / "here")


def _rows(folder: Path) -> int:
    path = folder / "runs.csv"
    return len(path.read_text().splitlines()) - 1 if path.exists() else 0


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def _wrong_sum(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.add.Tensor:
            node.target = torch.ops.aten.sub.Tensor
    graph.recompile()
    return graph


class WrongSum(Fuzzing):
    """Finds a fault of the backend `wrong_sum`, wherever it runs, in models that are quickly shrunk."""

    def run(self, block: Block, out: Path, progress: Callable[[int], None] | None = None) -> Report:
        if "wrong_sum" not in torch.compiler.list_backends():
            torch._dynamo.register_backend(aot_autograd(fw_compiler=_wrong_sum), name="wrong_sum")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(graphs, "MODES", ({},))
            patch.setattr(fuzz, "CONTROLS", ())
            kinds = ("unary", "binary", "linear", "conv2d", "reshape", "reduction")
            patch.setattr(graphs.operators, "TABLE", [one for one in graphs.operators.TABLE if one.name in kinds])
            return super().run(block, out, progress)


class Crash(Fuzzing):
    """Its first block ends its process."""

    def run(self, block: Block, out: Path, progress: Callable[[int], None] | None = None) -> Report:
        if block.seed == 7:
            os._exit(1)
        return super().run(block, out, progress)


@pytest.fixture
def executor(cluster: Cluster) -> Iterator[Executor]:
    from fpga_dynamo.tools.ray_executor import RayExecutor

    with RayExecutor(cluster.address) as made:
        yield made


def test_the_fuzzer_reports_what_it_reports_on_one_host(tmp_path: Path, executor: Executor) -> None:
    fuzzing = WrongSum("float32", "wrong_sum", None, None)
    done: list[int] = []
    here = fuzz_in_blocks(fuzzing, 30, 5, tmp_path / "here")
    there = fuzz_in_blocks(fuzzing, 30, 5, tmp_path / "there", executor, done.append)
    assert here.failures and str(there) == str(here).replace(str(tmp_path / "here"), str(tmp_path / "there"))
    assert "--seed 5 --examples 25)" in str(there)
    for failure in here.failures:
        assert failure.script is not None
        assert (tmp_path / "there" / failure.script.name).read_text() == failure.script.read_text()
    assert done == sorted(done) and done


def test_a_model_that_ends_its_process_is_a_failure(tmp_path: Path, executor: Executor) -> None:
    report = fuzz_in_blocks(Crash("float32", "eager", None, None), 30, 7, tmp_path, executor)
    assert report.examples == blocks(30, 7)[1].examples
    (failure,) = report.failures
    assert failure.seed == 7 and "died on each of 4 attempts" in failure.message


def test_the_fuzzer_s_command(tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["fuzz", "--examples", "30", "--out", str(tmp_path), "--dtype", "int8"]
    assert main(command) == 0
    here = capsys.readouterr().out
    assert main([*command, "--ray", cluster.address]) == 0
    assert capsys.readouterr().out == here
    assert main([*command, "--ray", cluster.address, "--options", "nosuch=1"]) == 2
    assert "unknown option 'nosuch'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("import platform\nplatform.python_version = lambda: '3.9.1'", "Python is 3.9.1, here 3."),
        ("import fpga_dynamo\nfpga_dynamo.__version__ = '0.0.7'", "fpga_dynamo is 0.0.7, here "),
        ("import sys\nsys.modules['tests.soc.test_sweep'] = None", "tests.soc.test_sweep"),
    ],
)
def test_a_host_with_other_versions(
    study: Path, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, sentence: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(change)
    (study / "sweep.toml").write_text(SWEEP.replace('["eft",', '["tests.soc.test_sweep:Backwards",'))
    other = cluster.cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
    try:
        assert _sweep(study, "out", "--ray", cluster.address) == 2
    finally:
        cluster.cluster.remove_node(other)
    error = " ".join(capsys.readouterr().err.split())
    assert "of the Ray cluster: " in error and sentence in error
    assert error.endswith("install the same versions on all hosts")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere:port"])
def test_an_address_without_a_cluster(study: Path, capsys: pytest.CaptureFixture[str], address: str) -> None:
    for command in (["soc", "sweep", str(study), "--out", str(study / "out")], ["fuzz", "--examples", "1"]):
        assert main([*command, "--ray", address]) == 2
        error = " ".join(capsys.readouterr().err.split())
        assert f"--ray '{address}'" in error and "ray start --head" in error
