"""Manifests with one wrong value: `xclbin-build info`, the doctor and torch.compile give a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.target import Target
from fpga_dynamo.tools.doctor import examine
from tests.malformed_input.mutations import mutants, run
from tests.marks import EXTENDED
from xclbin_build.axlf import Axlf, Section, XclbinError, read
from xclbin_build.build import load_design
from xclbin_build.cli import main
from xclbin_build.metadata import container

RECIPES = {"emulator": "emu", "engine-u250-4cu": "hw", "split": "cycles"}
"""An xclbin of cores, one of engines that work together, and one with several kernels."""


def _axlf(recipe: str) -> Axlf:
    isa = "" if RECIPES[recipe] == "hw" else "x86-64-v3"
    return container(load_design(recipe), RECIPES[recipe], isa, isa, b"\x7fELF a stand-in for the shared object")


def _with_manifest(axlf: Axlf, manifest: Any) -> Axlf:
    made = axlf.with_section(Section.USER_METADATA, json.dumps({"fpga_dynamo": manifest}).encode())
    return replace(made, uuid=made.content_uuid())


def _one_of_each(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with the first command's record, and the first few of its long tables."""
    used = {opcode for kernel in manifest["kernels"] for opcode in kernel["opcodes"]}
    commands = {name: record[:3] for name, record in manifest["commands"].items() if name in used}
    enums = dict(list(manifest["enums"].items())[:2])
    return {**manifest, "commands": commands, "enums": enums}


@pytest.mark.parametrize(("every", "offset"), [(41, 0), pytest.param(1, 0, marks=EXTENDED)])
@pytest.mark.parametrize("recipe", RECIPES)
def test_each_field_of_a_manifest_with_a_wrong_value(
    recipe: str, every: int, offset: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    axlf = _axlf(recipe)
    path = tmp_path / "a.xclbin"
    statuses = []
    for what, manifest in mutants(_one_of_each(axlf.manifest), every, offset):
        path.write_bytes(_with_manifest(axlf, manifest).to_bytes())
        statuses.append(run(main, ["info", str(path)], capsys, what))
        try:
            found = read(path).manifest
        except XclbinError as error:
            assert str(path) in str(error) and str(error).isprintable()
            continue
        assert run(main, ["info", str(path), "--json"], capsys, what) == 0
        try:
            Target.from_manifest("", found)
        except FpgaError:
            pass
        except Exception as error:
            raise AssertionError(what) from error
    assert statuses.count(2) > 0.5 * len(statuses)
    assert examine(path)
