"""The order in which patterns are asked, on each machine; a new pattern stands in its list exactly once."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fpga_dynamo.lowering import ops
from fpga_dynamo.lowering.engine_patterns import EnginePattern
from fpga_dynamo.lowering.order import CORES, ENGINE_FLOATS, ENGINE_INT8
from fpga_dynamo.lowering.patterns import TABLE, Pattern
from fpga_dynamo.tools import cli

GOLDEN = (Path(__file__).parent / "order.txt").read_text()
"""For each machine the names of its patterns in order. Whoever changes the order says why in lowering/order.py."""


def test_the_order_is_this() -> None:
    machines = {
        "cores": CORES,
        "int8 engine": [row.pattern for row in ENGINE_INT8],
        "bfloat16 and float32 engines": [row.pattern for row in ENGINE_FLOATS],
    }
    found = ("\n".join([f"{machine}:", *(p.name for p in patterns), ""]) for machine, patterns in machines.items())
    assert "\n".join(found) == GOLDEN


def test_the_table_of_the_cores_has_that_order() -> None:
    assert TABLE.patterns() == CORES
    assert not any(map(TABLE.is_users, CORES))


def test_every_exported_pattern_is_in_one_list_once() -> None:
    exported = Counter(map(id, _exported()))
    listed = Counter(map(id, (*CORES, *ENGINE_INT8, *ENGINE_FLOATS)))
    assert exported == listed
    assert set(listed.values()) == {1}


def test_every_pattern_of_a_module_is_exported() -> None:
    """A pattern that a module names and does not export would never be asked."""
    exported = set(map(id, _exported()))
    for module in _modules():
        for name, found in vars(module).items():
            if isinstance(found, (Pattern, EnginePattern)):
                assert id(found) in exported, f"{module.__name__}.{name}"


def test_the_engine_computes_core_patterns_that_the_cores_have() -> None:
    own = {row.pattern.name for row in ENGINE_INT8 if row.pattern.opcodes}
    assert own == {row.pattern.name for row in ENGINE_INT8 if any(row.pattern is core for core in CORES)}
    assert len(own) == 9


def test_the_command_prints_the_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ops", "--patterns"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    names = [line[1] for line in lines if line and line[0].isdigit()]
    assert names == [line for line in GOLDEN.splitlines() if line and not line.endswith(":")]
    assert ["10", "channel_shuffle", "cat"] in lines


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        yield importlib.import_module(found.name)


def _exported() -> list[Pattern | EnginePattern]:
    return [pattern for module in _modules() for pattern in getattr(module, "PATTERNS", ())]
