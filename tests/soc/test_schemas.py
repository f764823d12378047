"""The JSON schemas of systems, workloads and sweeps accept what the readers accept, and refuse what those refuse."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.runtime.application import CPU_CLASSES
from fpga_dynamo.runtime.scheduling.decisions import DECISIONS
from fpga_dynamo.tools.soc import sweep, system, workload
from tests.malformed_input.test_study_files import GRAPH, SWEEP, SYSTEM, WORKLOAD
from xclbin_build.documents import read_toml

Document = dict[str, Any]
SCHEMAS = {
    path.name: json.loads(path.read_text()) for path in Path(system.__file__).with_name("schemas").glob("*.json")
}
EXAMPLES = Path(__file__).parents[2] / "examples/soc"
SOUND: dict[str, Document] = {"system": SYSTEM, "workload": WORKLOAD, "sweep": SWEEP}


def validator(name: str) -> Draft202012Validator:
    schema = SCHEMAS[f"{name}.schema.json"]
    Draft202012Validator.check_schema(schema)
    resources = [(file, Resource.from_contents(other)) for file, other in SCHEMAS.items()]
    return Draft202012Validator(schema, registry=Registry().with_resources(resources))


@pytest.mark.parametrize("name", SOUND)
def test_shipped_files_are_valid(name: str) -> None:
    assert not list(validator(name).iter_errors(SOUND[name]))
    paths = [path for path in EXAMPLES.rglob("*.toml") if path.stem == name]
    assert paths and not [path for path in paths if list(validator(name).iter_errors(read_toml(path)))]


def test_keys_are_those_of_the_readers() -> None:
    every = {name: SCHEMAS[f"{name}.schema.json"] for name in SOUND}
    found = every["system"]["properties"]
    shared = every["system"]["$defs"]
    assert tuple(found) == system.SYSTEM_KEYS
    assert tuple(found["classes"]["additionalProperties"]["properties"]) == system.CLASS_KEYS
    assert found["classes"]["propertyNames"]["not"]["enum"] == list(CPU_CLASSES)
    assert tuple(shared["group"]["properties"]) == system.UNIT_KEYS
    assert tuple(found["transfer"]["properties"]) == system.TRANSFER_KEYS
    assert tuple(found["scheduler"]["properties"]) == system.SCHEDULER_KEYS
    assert tuple(shared["decision"]["properties"]) == system.DECISION_KEYS
    assert found["scheduler"]["properties"]["decision"]["oneOf"][0]["enum"] == list(DECISIONS)
    assert tuple(every["workload"]["properties"]) == workload.KEYS
    assert set(every["workload"]["$defs"]["application"]["properties"]) == set(workload.APPLICATION_KEYS)
    assert tuple(every["sweep"]["properties"]) == sweep.KEYS


def test_defaults_are_those_of_the_readers() -> None:
    plain = workload.Workload({"application": [{"program": "tests.soc.test_schemas:application"}]})
    for key, given in SCHEMAS["workload.schema.json"]["properties"].items():
        if key not in ("seeds", "application") and "default" in given:
            assert getattr(plain, key) == given["default"], key
    transfer = SCHEMAS["system.schema.json"]["properties"]["transfer"]["properties"]
    defaults = {key: given["default"] for key, given in transfer.items() if "default" in given}
    assert defaults | {"channels": 0} == vars(system.Transfer())


def application() -> Any:
    from fpga_dynamo.runtime.application import Application, ApplicationTask

    return Application("one", [ApplicationTask("t", {"a53": 1e-3})])


FAULTS: dict[str, dict[str, Callable[[Document], object]]] = {
    "system": {
        "an unknown key": lambda d: d.update(cpu={}),
        "a count below 0": lambda d: d["cpus"].update(a53=-1),
        "half a core": lambda d: d["cpus"].update(a53=1.5),
        "an unknown key of a group": lambda d: d["cpus"].update(a53={"counts": 1}),
        "no channel": lambda d: d["transfer"].update(channels=0),
        "no bandwidth": lambda d: d["transfer"].update(bandwidth=0),
        "text for true": lambda d: d["transfer"].update(resident="yes"),
        "an unknown cost of decisions": lambda d: d["scheduler"].update(decision="slow"),
        "a class that is built in": lambda d: d.update(classes={"a53": {"clock": 1e9, "speed": 1}}),
        "a class without a clock": lambda d: d.update(classes={"u74": {"speed": 1}}),
        "a class of speed 0": lambda d: d.update(classes={"u74": {"clock": 1e9, "speed": 0}}),
    },
    "workload": {
        "an unknown key": lambda d: d.update(rates=[1]),
        "no application": lambda d: d.update(application=[]),
        "two ends": lambda d: d.update(until=1.0),
        "no instance": lambda d: d.update(instances=0),
        "no seed": lambda d: d.update(seeds=[]),
        "only warm-up": lambda d: d.update(warm_up=1.0),
        "no source": lambda d: d["application"][0].pop("graph"),
        "two sources": lambda d: d["application"][0].update(program="a:b"),
        "a platform of a graph": lambda d: d["application"][0].update(platform="zcu102"),
        "a deadline of 0": lambda d: d["application"][0].update(deadline=0),
        "a share of 0": lambda d: d["application"][0].update(share=0),
        "unknown arrivals": lambda d: d["application"][0].update(arrivals="often"),
        "a burst of 0": lambda d: d["application"][0].update(arrivals={"bursts": 0}),
    },
    "sweep": {
        "an unknown key": lambda d: d.update(polices=[]),
        "rates and loads": lambda d: d.update(loads=[0.5]),
        "a rate of 0": lambda d: d.update(rates=[0]),
        "no policy": lambda d: d.update(policies=[]),
        "an axis without values": lambda d: d["grid"].update({"cpus.a53": []}),
        "a fault of its system": lambda d: d["system"].update(cpu={}),
        "a fault of its workload": lambda d: d["workload"].update(instances=0),
    },
}


@pytest.mark.parametrize(("name", "fault"), [(name, fault) for name, faults in FAULTS.items() for fault in faults])
def test_reader_and_schema_refuse_the_same(name: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    (tmp_path / "times.txt").write_text("0.001\n")
    readers: dict[str, Callable[[Document], object]] = {
        "system": system.System,
        "workload": lambda document: workload.Workload(document, tmp_path),
        "sweep": lambda document: sweep.Sweep(document, tmp_path),
    }
    document = copy.deepcopy(SOUND[name])
    readers[name](document)
    FAULTS[name][fault](document)
    assert list(validator(name).iter_errors(document))
    with pytest.raises(FpgaError):
        readers[name](document)
