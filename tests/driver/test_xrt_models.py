"""Models through stock XRT: the same bits as through the emulated driver, whichever way XRT reaches the card."""

from __future__ import annotations

from pathlib import Path

import pytest
from apart import run_apart
from xrt_kit import needs

SCRIPT = """
import copy, sys, torch, fpga_dynamo
from fpga_dynamo import zoo
torch.backends.mha.set_fastpath_enabled(False)
torch.manual_seed(0)
if sys.argv[1] == "block":
    model, inputs = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval(), (torch.randn(2, 16, 64),)
else:
    example = zoo.load(sys.argv[1])
    model, inputs = zoo.randomise_batch_norm(example.model), example.inputs
results = []
with torch.no_grad():
    for driver in ("emulated", "xrt"):
        torch._dynamo.reset()
        options = {"driver": driver, "partition": "greedy"}
        compiled = torch.compile(copy.deepcopy(model), backend="fpga", options=options)
        before = fpga_dynamo.stats()
        compiled(*inputs)
        results.append(compiled(*inputs))
        after = fpga_dynamo.stats()
        assert after["pl_launches"] - before["pl_launches"] >= 2 and after["ps_fallbacks"] == 0, after
assert torch.equal(*results), (results[0] - results[1]).abs().max()
assert torch.isfinite(results[0]).all() and results[0].std() > 0
"""


@pytest.mark.parametrize("driver", ["inproc", "process"])
@pytest.mark.parametrize("model", ["block", pytest.param("resnet18", marks=pytest.mark.slow)])
def test_same_bits(model: str, driver: str, tmp_path: Path) -> None:
    needs(driver)
    code, output = run_apart(["-c", SCRIPT, model], driver, tmp_path)
    assert code == 0, output[-4000:]
