"""Targets without a device: of an xclbin, and of a recipe and a platform."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import fpga_dynamo
from fpga_dynamo import FpgaError, OptionError, Options, XclbinError
from fpga_dynamo.frontend.capture import capture
from fpga_dynamo.lowering.passes.pipeline import lower
from fpga_dynamo.runtime.cards import card
from fpga_dynamo.runtime.cards.card import open_card


@pytest.fixture
def without_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object) -> None:
        raise AssertionError("a device was opened")

    monkeypatch.setattr(card, "select", refused)
    monkeypatch.setattr(card, "Card", refused)


def test_a_recipe_s_target_is_that_of_the_xclbin_built_from_it() -> None:
    opened = open_card(Options())
    alone = replace(opened.target, uuid="", lanes=0, windows=None)
    assert fpga_dynamo.target_of() == alone
    assert fpga_dynamo.target_of(opened.path) == replace(alone, uuid=opened.target.uuid)


@pytest.mark.usefixtures("without_cards")
def test_a_graph_is_lowered_for_a_board_that_is_not_there() -> None:
    target = fpga_dynamo.target_of(platform="u250", recipe="engine-u250", build="hw")
    assert target.is_hardware and target.engine is not None and target.platform.name == "u250"
    found = capture(nn.Sequential(nn.Conv2d(16, 16, 3), nn.ReLU()).eval(), (torch.randn(1, 16, 8, 8),))
    program = lower(found.module, fpga_dynamo.target_of(), Options(partition="greedy"), found.static)
    assert next(command.opcode for task in program.card_tasks for command in task.commands) == "conv2d"


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"xclbin": "a.xclbin", "recipe": "emulator"}, OptionError, "give the file or these"),
        ({"xclbin": "no.xclbin"}, XclbinError, "cannot be read"),
        ({"recipe": "engine-u251"}, XclbinError, "engine-u250"),
        ({"platform": "u251"}, XclbinError, "u250"),
        ({"build": "hv"}, XclbinError, "hw"),
    ],
)
def test_a_target_that_cannot_be_had_is_refused(
    given: dict[str, str], kind: type[FpgaError], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=words):
        fpga_dynamo.target_of(**given)
