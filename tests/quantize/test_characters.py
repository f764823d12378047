"""The harder task: what quantising after training and in training costs, with float scales and powers of two.

Part of ``make quantised``, which writes the table of docs/evaluation/int8.md.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

pytest.importorskip("torchao")
pytest.importorskip("matplotlib")

from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

from fpga_dynamo.quantize import FPGAQuantizer, quantize, round_biases
from tests.quantize.characters import BATCH, Characters, characters, network

EPOCHS, FINE_EPOCHS = 12, 2
RATE, FINE_RATE = 5e-3, 3e-4


def trained_further(task: Characters, model: nn.Module, scales: Any) -> Any:
    exported = torch.export.export(copy.deepcopy(model).train(), (task.train[0][:BATCH],)).module()
    prepared = prepare_qat_pt2e(exported, FPGAQuantizer(scales, bias="int32", training=True))
    task.learn(prepared, FINE_EPOCHS, FINE_RATE)
    move_exported_model_to_eval(prepared)
    converted = convert_pt2e(prepared)
    # What a batch norm leaves is float32, which training does not round to units of the sums: without that the bits of
    # eager mode depend on the order of its additions (docs/int8.md).
    assert round_biases(converted) > 0
    return converted


@pytest.mark.slow
def test_characters() -> None:
    task = characters()
    torch.manual_seed(0)
    model = network()
    task.learn(model.train(), EPOCHS, RATE)
    model.eval()
    scores = {"float32": task.score(model)}
    graphs: dict[str, Any] = {}
    for scales in ("float", "pow2"):
        graphs[f"after training, {scales}"] = quantize(model, task.calibration, scales, bias="int32", progress=False)
        graphs[f"in training, {scales}"] = trained_further(task, model, scales)
    scores |= {name: task.score(graph) for name, graph in graphs.items()}
    rows = [f"| {name} | {score:.1f} % |" for name, score in scores.items()]
    Path("out").mkdir(exist_ok=True)
    Path("out/characters.md").write_text("\n".join(rows) + "\n")
    print("\n".join(["", *rows]))
    # Far from solved, so that there is room for a network in 8 bits to be worse, and far from guessed (1.6 %).
    assert 50 < scores["float32"] < 95
    for name in graphs:
        assert scores[name] >= scores["float32"] - 2, name
    torch._dynamo.reset()
    image = task.test[0][:BATCH]
    with torch.no_grad():
        for name in ("after training, pow2", "in training, pow2"):
            compiled = torch.compile(graphs[name], backend="fpga", options={"strict": True})
            assert torch.equal(compiled(image), graphs[name](image)), name
