"""Models through stock XRT: the same bits as through the emulated driver, whichever way XRT reaches the card."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.driver.apart import run_apart
from tests.driver.xrt_kit import needs

SCRIPT = """
import copy, sys, torch, fpga_dynamo
from fpga_dynamo.tools import zoo
from fpga_dynamo.runtime.cards.card import opened_cards
from fpga_dynamo.runtime.drivers import select
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
    card = next(card for card in opened_cards() if card.driver is select("xrt"))
    buffers, moved = [bank["buffers"] for bank in card.device.memory()], card.device.counters()
    compiled(*inputs)
    assert [bank["buffers"] for bank in card.device.memory()] == buffers, "a call allocates"
    grown = {name: value - moved[name] for name, value in card.device.counters().items()}
    assert grown["runs"] >= 1, grown
    if grown["runs"] == 1:  # nothing but the input and the output crosses
        assert grown["bytes_to_device"] == inputs[0].nbytes and grown["bytes_from_device"] == results[0].nbytes, grown
assert torch.equal(*results), (results[0] - results[1]).abs().max()
assert torch.isfinite(results[0]).all() and results[0].std() > 0
"""

DIRECT = """
import torch
from fpga_dynamo._native import direct_totals
def every_kind(x, wanted, half, places):
    return torch.where(wanted, x * 2, x - 1), x > 0, torch.relu(half) + half, x.argmax(-1), x[places]
x = torch.randn(64, 128)
inputs = (x, x > 1, torch.randn(64, 128).half(), torch.randint(0, 64, (30,)))
compiled = torch.compile(every_kind, backend="fpga", options={"driver": "xrt", "partition": "greedy"})
with torch.no_grad():
    compiled(*inputs)
    before = direct_totals()[0]
    for step in range(2):
        inputs = (inputs[0] + step, *(torch.roll(tensor, 1, 0) for tensor in inputs[1:]))
        for actual, wanted in zip(compiled(*inputs), every_kind(*inputs), strict=True):
            torch.testing.assert_close(actual, wanted)
    assert direct_totals()[0] - before == 2, direct_totals()
"""


# As if the xclbin were a card's: nothing but the status record then says how a list of commands has ended.
STATUS = """
import torch
from fpga_dynamo._native import direct_totals
from fpga_dynamo.ir.target import Target
from fpga_dynamo.runtime.cards.card import opened_cards
Target.is_hardware = True
model, x = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU()).eval(), torch.randn(8, 64)
compiled = torch.compile(model, backend="fpga", options={"driver": "xrt", "partition": "greedy", "strict": True})
with torch.no_grad():
    compiled(x)
    (card,) = opened_cards()
    direct, moved = direct_totals()[0], card.device.counters()
    torch.testing.assert_close(compiled(x), model(x))
    grown = {name: value - moved[name] for name, value in card.device.counters().items()}
    assert direct_totals()[0] - direct == 1
    assert grown["bytes_from_device"] == 64 + 8 * 32 * 4, grown
"""

BY_TURNS = """
import logging, torch, fpga_dynamo
from fpga_dynamo._native import direct_totals
from fpga_dynamo.runtime.cards.card import log
said = []
log.warning = lambda text, *values: said.append(text % values)
models = [torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU()).eval() for _ in range(2)]
options = {"driver": "xrt", "partition": "greedy", "strict": True}
compiled = [
    torch.compile(model, backend="fpga", options={**options, "recipe": recipe})
    for model, recipe in zip(models, ("emulator", "single"))
]
with torch.no_grad():
    for step in range(3):
        for model, call in zip(models, compiled):
            before, direct = fpga_dynamo.stats(), direct_totals()[0]
            for repeated in range(3):
                x = torch.randn(16, 64)
                torch.testing.assert_close(call(x), model(x))
            after = fpga_dynamo.stats()
            assert after["pl_launches"] - before["pl_launches"] == 3 and after["ps_fallbacks"] == 0, after
            assert direct_totals()[0] - direct == 2, "after a reload calls go the direct way again"
    fpga_dynamo.explain(models[0], x, options={**options, "recipe": "split"})
    torch.testing.assert_close(compiled[0](x), models[0](x))
assert fpga_dynamo.stats()["ps_fallbacks"] == 0
assert len(said) == 1 and "alternates between" in said[0] and "Option 'device'" in said[0], said
"""


@pytest.mark.slow
def test_two_xclbins_by_turns_on_one_card(tmp_path: Path) -> None:
    needs("inproc")
    code, output = run_apart(["-c", BY_TURNS], "inproc", tmp_path)
    assert code == 0, output[-4000:]


def test_direct_calls_move_every_kind_of_slot(tmp_path: Path) -> None:
    needs("inproc")
    code, output = run_apart(["-c", DIRECT], "inproc", tmp_path)
    assert code == 0, output[-4000:]


def test_a_direct_call_on_a_card_reads_its_status(tmp_path: Path) -> None:
    needs("inproc")
    code, output = run_apart(["-c", STATUS], "inproc", tmp_path)
    assert code == 0, output[-4000:]


@pytest.mark.parametrize("driver", ["inproc", pytest.param("process", marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", ["block", pytest.param("resnet18", marks=pytest.mark.slow)])
def test_same_bits(model: str, driver: str, tmp_path: Path) -> None:
    needs(driver)
    code, output = run_apart(["-c", SCRIPT, model], driver, tmp_path)
    assert code == 0, output[-4000:]
