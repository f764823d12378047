"""The stubs of the native modules, which mypy believes, against the modules themselves."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import fpga_dynamo
from tests.driver.stub_surface import Surface, differences, of_module, of_stub

PACKAGE = Path(fpga_dynamo.__file__ or "").parent


def surfaces(name: str, old: str = "", new: str = "") -> tuple[Surface, Surface]:
    """Of a stub in which one text stands for another, and of its module."""
    text = (PACKAGE / f"{name}.pyi").read_text()
    assert text.count(old) == 1 or not old
    return of_stub(text.replace(old, new) if old else text, PACKAGE), of_module(
        importlib.import_module(f"fpga_dynamo.{name}")
    )


@pytest.mark.parametrize("name", ["_native", "_xrt"])
def test_a_stub_is_what_its_module_has(name: str) -> None:
    if name == "_xrt":
        pytest.importorskip("fpga_dynamo._xrt", reason="no XRT", exc_type=ImportError)
    stub, binary = surfaces(name)
    assert len(binary) > 100 and not differences(stub, binary)


LIES = {
    "a method that there is not": ("def leave(self)", "def leave_it(self)", "bypass.leave_it is only in the stub"),
    "a method that is left out": ("    def leave(self) -> None: ...\n", "", "bypass.leave is only in the binary"),
    "a function that is left out": ("def direct_totals()", "def _totals()", "direct_totals is only in the binary"),
    "another parameter": ("samples: int) -> list[int]", "every: int) -> list[int]", "fingerprints takes"),
    "another default": (
        "execute(self, timeout_ms: int = 0)",
        "execute(self, timeout_ms: int = 1)",
        "run.execute takes",
    ),
    "a default that there is not": ("def populate(self)", "def populate(self, nbytes: int = 0)", "bo.populate takes"),
    "another type of a parameter": ("trace_steps(self, wanted: bool)", "trace_steps(self, wanted: str)", "trace_steps"),
    "another result": ("def lanes(self) -> int", "def lanes(self) -> str", "device.lanes"),
    "another result of a property": ("step_times(self) -> list", "step_times(self) -> dict", "run.step_times"),
    "a name that is not imported": ("import uuid as uuid", "import device as _", "uuid is only in the binary"),
    "another base": ("CommandError(DeviceError)", "CommandError(ValueError)", "CommandError is class of"),
    "what the common part does not have": ("(_pyxrt.bo)", "(_pyxrt.uuid)", "bo.write is only in the binary"),
}


@pytest.mark.parametrize(("old", "new", "sentence"), LIES.values(), ids=LIES)
def test_a_stub_that_lies_is_found(old: str, new: str, sentence: str) -> None:
    assert any(found.startswith(sentence) or sentence in found for found in differences(*surfaces("_native", old, new)))


def test_members_of_enums_are_compared_by_value() -> None:
    stub, binary = surfaces("_native")
    stub["bo.flags.p2p"] = "member 7"
    assert differences(stub, binary) == [f"bo.flags.p2p is member 7 in the stub, member {1 << 30} in the binary"]
