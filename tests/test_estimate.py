"""`fpga-dynamo estimate`: what it prints, and what it refuses."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from fpga_dynamo.tools.cli import FAILED, RIGHT, main
from fpga_dynamo.tools.estimate import hardware, model
from fpga_dynamo.tools.estimate.figures import Figures, figures, modelled
from fpga_dynamo.tools.estimate.program import lower_for_engine

KEYS = {
    *("latency_ms", "throughput_per_s", "clock_mhz", "array_utilisation", "dram_gb_per_s", "node_offload"),
    *("mac_offload", "resources", "fits", "layers", "basis", "host", "links"),
}


class Small(nn.Module):
    """Operators that the engine supports, and a transposed convolution that it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv2d(3, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 16, 2, 2, padding=1)
        self.behind = nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.relu(self.behind(self.up(torch.relu(self.before(x)))))
        return result

    def example_inputs(self, batch: int) -> tuple[torch.Tensor, ...]:
        return (torch.randn(batch, 3, 16, 16),)


class Tangled(Small):
    """What torch.export refuses."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if float(x.detach().sum()) > 0 else x


class Video(nn.Module):
    """Nothing of it is the engine's."""

    def __init__(self) -> None:
        super().__init__()
        self.only = nn.Conv3d(3, 16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.only(x)
        return result

    def example_inputs(self, batch: int) -> tuple[torch.Tensor, ...]:
        return (torch.randn(batch, 3, 4, 6, 6),)


SMALL = f"{__name__}:Small"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["estimate", *arguments])
    out, err = capsys.readouterr()
    return code, out, " ".join(err.split())


def test_json_has_every_figure_and_what_it_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, SMALL, "--platform", "u250", "--sizes-only", "--json")
    assert code == RIGHT
    found = json.loads(out)
    assert set(found) >= KEYS
    assert found["calibration"].startswith("random")
    assert [layer["op"] for layer in found["layers"]] == ["quantize", "convolution_int8", "dequantize"] * 2
    assert sum(layer["ms"] for layer in found["layers"]) == pytest.approx(found["latency_ms"])
    assert sum(layer["share"] for layer in found["layers"]) == pytest.approx(1)
    assert found["host"]["launches"] == 2 == len(found["launch_cycles"])
    reasons = {node["op"]: node["reason"] for node in found["host"]["nodes"]}
    assert "transposed" in reasons["aten.convolution.default"]
    convolution, up = 16 * 16 * 16 * 27 + 30 * 30 * 16 * 144, 16 * 16 * 16 * 16 * 4
    assert found["mac_offload"] == pytest.approx(convolution / (convolution + up))
    assert 0 < found["node_offload"] < 1
    assert found["fits"] is None and found["resources"]["used"]["dsp"] > 2000
    assert {core for link in found["links"] for core in link["cores"]} == {"conv2d"}


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_floats_have_engines_of_their_own(dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, SMALL, "--platform", "u250", "--dtype", dtype, "--sizes-only", "--json")
    assert code == RIGHT
    found = json.loads(out)
    assert found["recipe"] == f"engine-u250-{dtype}" and found["calibration"].startswith("none")
    assert [layer["op"] for layer in found["layers"]] == ["convolution"] * 2
    assert [node["op"] for node in found["host"]["nodes"]] == ["aten.convolution.default"]


def test_a_batch_is_what_the_inputs_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import torch\ndef model():\n    return torch.nn.Conv2d(3, 16, 3), (torch.randn(3, 3, 16, 16),)\n")
    for arguments, batch in (((), 3), (("--batch", "2"), 6)):
        code, out, _ = printed(
            capsys, f"{path}:model", "--platform", "u250", "--dtype", "bf16", "--sizes-only", "--json", *arguments
        )
        assert code == RIGHT
        found = json.loads(out)
        assert found["batch"] == batch
        assert found["throughput_per_s"] == pytest.approx(batch / found["latency_ms"] * 1e3)


def test_a_table_names_what_is_on_the_host_and_what_would_take_it(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, SMALL, "--platform", "kv260", "--sizes-only")
    assert code == RIGHT
    rows = [line for line in out.splitlines() if "a call, host included" in line or "latency on the card" in line]
    assert "a call, host included" in rows[0] and "engine" in rows[0]
    left = out[out.index("on the host, by cost") :]
    assert "engine-kv260" in out and "transposed convolution" in left and "core conv2d would run" in left


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("resnet1", "--platform", "u250"), "no model 'resnet1'"),
        ((SMALL, "--platform", "u251"), "unknown platform 'u251'; did you mean 'u250'?"),
        ((SMALL, "--platform", "emu"), "platform 'emu' is not a card"),
        ((SMALL, "--platform", "u250", "--recipe", "emulator"), "recipe 'emulator' has no engine"),
        (
            (SMALL, "--platform", "vck190", "--dtype", "fp32"),
            "no built-in recipe has an engine for platform 'vck190'",
        ),
        (
            (SMALL, "--platform", "u50", "--dtype", "bf16"),
            "no built-in recipe has an engine for platform 'u50'",
        ),
        (
            (SMALL, "--platform", "u250", "--dtype", "fp32", "--calibration", "a.pt"),
            "--calibration requires --dtype int8",
        ),
        (
            (SMALL, "--platform", "u250", "--dtype", "bf16", "--recipe", "engine-u250"),
            "computes in int8, not in bfloat16",
        ),
        ((SMALL, "--platform", "u250", "--calibration", "nowhere.pt"), "--calibration nowhere.pt"),
        ((f"{__name__}:Tangled", "--platform", "u250"), "cannot be exported"),
        ((f"{__name__}:Video", "--platform", "u250"), "convolution: 3-D convolution is not supported"),
    ],
    ids=[
        "model",
        "platform",
        "no card",
        "recipe",
        "no recipe",
        "no type",
        "no scales",
        "dtype",
        "calibration",
        "export",
        "nothing",
    ],
)
def test_refusals_are_a_sentence(arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = printed(capsys, *arguments)
    assert code == FAILED and told in err


def test_calibration_data_may_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "calls.pt"
    torch.save([(torch.randn(1, 3, 16, 16),), (torch.randn(1, 3, 16, 16),)], path)
    code, out, _ = printed(capsys, SMALL, "--platform", "u250", "--sizes-only", "--json", "--calibration", str(path))
    assert code == RIGHT and json.loads(out)["calibration"] == f"2 calls of {path}"


@pytest.fixture
def little(tmp_path: Path) -> Path:
    """A recipe whose engine is compiled in no time."""
    path = tmp_path / "little.toml"
    sizes = 'engine = "4x16x16"\nwindow = 512\nweights = 64\nvector_lanes = 16\nvector_depth = 256\n'
    path.write_text(f'name = "little"\nplatform = "u250"\n[kernel.engine]\n{sizes}')
    return path


@pytest.mark.slow
@pytest.mark.extended
def test_simulation_counts_and_compares_with_eager(little: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(
        capsys, SMALL, "--platform", "u250", "--recipe", str(little), "--simulate", "--sizes-only", "--json"
    )
    assert code == RIGHT, err
    found = json.loads(out)
    assert found["counted"]["values"] == 4 and found["counted"]["differences"] == {}
    assert 0.3 < found["counted"]["model_ms"] / found["latency_ms"] < 3  # a few thousand cycles: no place for a model
    assert sum(layer["ms"] for layer in found["layers"]) == pytest.approx(found["latency_ms"])
    assert found["dram_mb"] == pytest.approx(sum(layer["bytes"] for layer in found["layers"]) / 1e6, rel=0.1)
    assert "simulated from the kernel sources" in found["basis"]["latency_ms"]


@functools.cache
def quantised(name: str) -> model.Model:
    return model.quantised(name, 1, "pow2", None)


def of(name: str, platform: str, units: int = 1) -> Figures:
    given, card = quantised(name), hardware.card(platform, None, "int8", units)
    program = lower_for_engine(copy.deepcopy(given.graph.module), card.engine, given.graph.static)
    return figures(program, 1, modelled(program))


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.parametrize(("platform", "most"), [("u250", 5.5), ("kv260", 11.5)])
def test_resnet50_from_pytorch_is_as_fast_as_the_engine_has_to_be(platform: str, most: float) -> None:
    found = of("resnet50", platform)
    assert found.latency_ms <= most
    assert found.mac_offload == 1 and found.host.launches == 1
    assert not found.host.nodes
    if platform == "u250":
        assert found.array_utilisation >= 0.7
        four = of("resnet50", platform, 4)
        assert four.latency_ms < found.latency_ms / 2
        assert four.array_utilisation < found.array_utilisation
        assert sum(layer.macs for layer in four.layers) == sum(layer.macs for layer in found.layers)
