"""Card servers in `devices`, `doctor`, `run` and traces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import fpga_dynamo
import xclbin_build
from fpga_dynamo.device_address import parse
from fpga_dynamo.errors import DeviceError, OptionError
from fpga_dynamo.quantize import quantize
from fpga_dynamo.tools import doctor
from fpga_dynamo.tools.cli import main
from tests.backend.backend_kit import on_card
from tests.card_server.card_server_kit import KINDS, Served, serving
from tests.lowering import engine_kit


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server"), kind=request.param) as running:
        yield running


def test_doctor_examines_a_server(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    finding = doctor.examine(server=server.driver)[-1]
    assert finding.state == doctor.GOOD
    assert finding.found.startswith("1 card(s), driver emulated, round trip ")
    assert main(["doctor", "--server", "tcp://127.0.0.1:1?token-file=/none"]) == 2
    printed = capsys.readouterr().out
    assert "token file /none cannot be read" in printed and "fpga-dynamo card-server" in printed
    assert doctor.examine(server="card")[-1].state == doctor.WRONG


def test_devices_lists_a_server(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", server.driver]) == 0
    assert f"tcp://127.0.0.1:{server.port}" in "".join(capsys.readouterr().out.split())
    with torch.no_grad():
        model = on_card(torch.nn.Linear(64, 64).eval(), strict=True, device=server.device())
        model(torch.ones(1, 64))
    (found,) = (report for report in fpga_dynamo.devices() if report.driver == parse(server.device()).driver)
    assert found.index == 0 and found.compute_units and 0 < found.memory_used < found.memory_total
    with pytest.raises(OptionError, match="no address of a card"):
        fpga_dynamo.devices("card")
    with pytest.raises(DeviceError, match="cannot be reached"):
        fpga_dynamo.devices(f"tcp://127.0.0.1:1?token-file={server.token_file}")


def test_a_server_that_has_gone_is_not_listed(tmp_path: Path) -> None:
    with serving(tmp_path) as gone, torch.no_grad():
        torch._dynamo.reset()
        model = on_card(torch.nn.Linear(64, 64).eval(), strict=True, device=gone.device())
        model(torch.ones(1, 64))
        assert [report for report in fpga_dynamo.devices() if report.driver == parse(gone.device()).driver]
    assert not [report for report in fpga_dynamo.devices() if report.driver == parse(gone.device()).driver]


def test_a_trace_has_the_commands_in_their_launch(server: Served) -> None:
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Softmax(-1)).eval()
    with torch.no_grad():
        compiled = on_card(model, strict=True, device=server.device())
        compiled(torch.ones(4, 64))
        with fpga_dynamo.trace() as trace:
            compiled(torch.ones(4, 64))
    (task,) = (event for event in trace.tasks if event.pe.startswith("sequencer"))
    commands = trace.commands
    assert commands and all(task.start <= c.start <= c.stop <= task.stop for c in commands)


@torch.no_grad()
def test_cycles_are_counted_at_the_server(server: Served) -> None:
    options = {"xclbin": str(xclbin_build.cached(engine_kit.recipe(), "cycles", platform="u250"))}
    model, image = torch.nn.Conv2d(3, 20, 3, padding=1).eval(), torch.randn(1, 3, 12, 12)
    quantised = quantize(model, [(image,)], scales="pow2", bias="int32", progress=False)
    found = []
    for device in (0, server.device()):
        torch._dynamo.reset()
        compiled = on_card(quantised, device=device, **options)
        compiled(image)
        before = fpga_dynamo.stats()["card_cycles"]
        result = compiled(image)
        found.append((result, fpga_dynamo.stats()["card_cycles"] - before))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1] > 0


def test_run_from_the_command_line(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    torch._dynamo.reset()
    assert main(["run", "squeezenet1_1", "--options", f"device={server.device()}"]) == 0
    assert "launches on the card per call" in capsys.readouterr().out
