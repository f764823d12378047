"""Plain kernels as operators through stock XRT: a card holds one xclbin, which a model and its kernel share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.driver.apart import run_apart
from tests.driver.xrt_kit import ROOT, needs

SCRIPT = f"""
import sys, torch, fpga_dynamo, xclbin_build
sys.path.insert(0, {str(ROOT)!r})
from tests.backend.plain_kit import RECIPE, axpy, fail, split

def model(a):
    low, high = split(a * 2)
    return torch.relu(high) - low

a, (x, y) = torch.randn(6, 50), torch.randn(2, 10)
options = {{"xclbin": str(xclbin_build.cached(RECIPE)), "driver": "xrt", "partition": "greedy", "strict": True}}
compiled = torch.compile(model, backend="fpga", options=options)
with fpga_dynamo.trace() as trace:
    assert torch.equal(compiled(a), 2 * a.abs())
assert [task.pe for task in trace.tasks] == ["sequencer_1", "split_1", "sequencer_1"], trace.tasks
for _ in range(2):  # each loads its xclbin again
    assert torch.equal(sum(split(a.t())), a.t()) and torch.equal(compiled(a), 2 * a.abs())
expected = y + 0.5 * x
axpy(x, y, 0.5)
torch.testing.assert_close(y, expected)
for trigger, words in ((13.0, "crashed"), (7.0, "'timeout' allows more than 0.5 s")):
    try:
        fail(torch.tensor([trigger]))
    except fpga_dynamo.DeviceError as error:
        assert words in str(error), error
    else:
        raise AssertionError(trigger)
torch.testing.assert_close(fail(x), x + 1)
"""


@pytest.mark.parametrize("driver", ["inproc", pytest.param("process", marks=pytest.mark.slow)])
def test_kernels_in_eager_mode_and_compiled(driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs(driver)
    monkeypatch.setenv("FPGA_DYNAMO_DRIVER", "xrt")
    code, output = run_apart(["-W", "ignore", "-c", SCRIPT], driver, tmp_path)
    assert code == 0, output[-4000:]
