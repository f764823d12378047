"""Recurrent layers: all steps in one launch, as products and element-wise groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from tests.lowering.lowering_cases import Case, check

LAYERS = {
    "LSTM, batch first, two layers, both ways": Case(
        nn.LSTM(8, 17, 2, batch_first=True, bidirectional=True), (2, 2, 8)
    ),
    "GRU": Case(nn.GRU(8, 17), (2, 2, 8)),
    "RNN": Case(nn.RNN(8, 17, nonlinearity="relu"), (2, 2, 8)),
    "LSTM cell": Case(nn.LSTMCell(8, 17), (2, 8)),
    "GRU cell": Case(nn.GRUCell(8, 17), (2, 8)),
}


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    """Dynamo leaves recurrent layers to eager unless it is told to look into them."""
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


@pytest.mark.parametrize("case", LAYERS.values(), ids=LAYERS)
def test_a_recurrent_layer_is_one_launch(case: Case) -> None:
    check(case)
