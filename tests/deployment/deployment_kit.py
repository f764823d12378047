"""What the tests of exported models share: small models, exported and loaded, beside what torch.compile computes."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

import fpga_dynamo
from fpga_dynamo.testing.reference import assert_close_to_eager


class SmallCnn(nn.Module):
    """A convolution with batch norm, a residual, pooling and a linear layer; results in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor | None = None) -> dict[str, Any]:
        y = torch.relu(self.norm(self.first(x)))
        y = torch.relu(self.second(y) + y)
        features = y.mean((2, 3))
        return {"logits": self.head(features), "turned": features.transpose(0, 1), "nothing": None}


class Encoder(nn.Module):
    """A transformer's encoder layer over tokens, with learned positions: its sequence length may change."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, width)
        self.places = nn.Embedding(64, width)
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, 7)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.layer(self.tokens(tokens) + self.places(places)))


class Reordered(nn.Module):
    """Results that are copies of a launch's result in another order, and of an input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        halves = self.layer(x).unflatten(1, (2, 4)).transpose(0, 1)
        return halves.reshape(-1, 4), halves.reshape(-1)[1:], x.T.reshape(-1)


def exported(model: nn.Module, path: Path, *args: Any, **settings: Any) -> fpga_dynamo.LoadedModel:
    """The model, exported with these arguments as the example call, and loaded."""
    return fpga_dynamo.load(fpga_dynamo.export(model, args, path, **settings))


def assert_same(loaded: Any, model: nn.Module, *args: Any, compiled: Any = None) -> None:
    """The exported model's results: bit for bit those of torch.compile, in its strides, and as near to float64 as eager
    mode's."""
    compiled = (
        compiled if compiled is not None else torch.compile(model, backend="fpga", options={"partition": "greedy"})
    )
    exact_model = copy.deepcopy(model).double() if not isinstance(model, torch.fx.GraphModule) else None
    with torch.no_grad():
        expected, eager = compiled(*args), model(*args)
        exact = exact_model(*in_float64(args)) if exact_model is not None else eager
    answer = loaded(*args)
    same, theirs = tree_leaves(answer), tree_leaves(expected)
    assert len(same) == len(theirs)
    for mine, other in zip(same, theirs, strict=True):
        if isinstance(other, torch.Tensor):
            assert mine.dtype is other.dtype
            assert mine.stride() == other.stride()
            assert torch.equal(mine, other)
        else:
            assert mine == other
    assert_close_to_eager(answer, eager, exact)


def reseal(directory: Path, document: Mapping[str, Any]) -> None:
    """Writes model.json with a checksum that is right."""
    from fpga_dynamo.deployment.document import sealed

    (directory / "model.json").write_text(sealed(document))


def read_document(directory: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((directory / "model.json").read_text())
    return document


def in_float64(structure: Any) -> Any:
    """The same with floating-point tensors of any type in float64."""

    def one(leaf: Any) -> Any:
        return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return tree_map(one, structure)


def poison_new_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has torch.empty_strided and numpy.empty give memory full of NaN, or of the largest integer."""
    empty_strided = torch.empty_strided

    def poisoned(*args: Any, **settings: Any) -> torch.Tensor:
        made = empty_strided(*args, **settings)
        return made.fill_(float("nan") if made.is_floating_point() else torch.iinfo(made.dtype).max)

    def poisoned_array(shape: Any, dtype: Any) -> Any:
        return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max, dtype)

    monkeypatch.setattr(torch, "empty_strided", poisoned)
    monkeypatch.setattr(np, "empty", poisoned_array)
