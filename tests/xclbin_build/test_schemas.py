"""The JSON schemas of recipes and platforms accept what the readers accept, and refuse what those refuse."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hls_kernels import RECIPES
from xclbin_build import engine, platform, recipe
from xclbin_build.documents import read_toml
from xclbin_build.errors import RecipeError

SCHEMAS = Path(recipe.__file__).parent / "schemas"
Document = dict[str, Any]


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def files(name: str) -> list[Path]:
    return sorted((RECIPES if name == "recipe" else platform.DIRECTORY).glob("*.toml"))


@pytest.mark.parametrize("name", ["recipe", "platform"])
def test_shipped_files_are_valid(name: str) -> None:
    checked = validator(name)
    assert files(name)
    for path in files(name):
        assert not list(checked.iter_errors(read_toml(path))), path.name


def test_keys_are_those_of_the_readers() -> None:
    kernel = validator("recipe").schema["$defs"]["kernel"]["properties"]
    assert set(kernel) == set(recipe._KERNEL_KEYS) >= set(engine.KEYS)
    card = validator("platform").schema["properties"]
    assert set(card) == {*platform._KEYS, *platform._SPEEDS, *platform._OPTIONAL_SPEEDS}
    assert tuple(card["resources"]["required"]) == platform.RESOURCES
    assert set(card["tuning"]["properties"]) == {*platform._TUNING, *platform._TUNING_TABLES}
    assert card["bank"]["items"]["properties"]["kind"]["enum"] == list(platform.BANK_KINDS)


def kernel_of(document: Document) -> Document:
    return next(iter(document["kernel"].values()))


RECIPE_FAULTS: dict[str, Callable[[Document], object]] = {
    "an unknown key": lambda d: d.update(kernels={}),
    "no kernel": lambda d: d.update(kernel={}),
    "two kinds of kernel": lambda d: kernel_of(d).update(source="a.cpp"),
    "too many compute units": lambda d: kernel_of(d).update(cu=61),
    "no compute unit": lambda d: kernel_of(d).update(cu=0),
    "an array that is no array": lambda d: kernel_of(d).update(engine="8x32"),
    "another element": lambda d: kernel_of(d).update(element="int4"),
    "an odd port": lambda d: kernel_of(d).update(port_bits=100),
    "text for a number": lambda d: kernel_of(d).update(window="2048"),
    "an unknown key of a kernel": lambda d: kernel_of(d).update(lane=16),
}
PLATFORM_FAULTS: dict[str, Callable[[Document], object]] = {
    "an unknown key": lambda d: d.update(clock=300),
    "no clock": lambda d: d.pop("clock_mhz"),
    "a clock of 0": lambda d: d.update(clock_mhz=0),
    "no bank": lambda d: d.update(bank=[]),
    "a bank of another kind": lambda d: d["bank"][0].update(kind="ddr5"),
    "too many banks": lambda d: d["bank"][0].update(count=10**9),
    "half a KiB": lambda d: d["bank"][0].update(bytes=4608),
    "a region without DSPs": lambda d: d["slr"][0].pop("dsp"),
    "a resource below 0": lambda d: d["resources"].update(lut=-1),
    "a path without a length": lambda d: d["memory"]["ddr4"].pop("path_ns"),
}


def toml(document: Document) -> str:
    """A document as TOML; nested tables are written inline."""
    return "".join(f"{key} = {_value(value)}\n" for key, value in document.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)


@pytest.mark.parametrize(
    ("name", "file", "fault"),
    [("recipe", "engine-kv260", fault) for fault in RECIPE_FAULTS]
    + [("platform", "kv260", fault) for fault in PLATFORM_FAULTS],
)
def test_reader_and_schema_refuse_the_same(name: str, file: str, fault: str, tmp_path: Path) -> None:
    load: Callable[[Path], object] = recipe.load if name == "recipe" else platform.load
    (path,) = (path for path in files(name) if path.stem == file)
    document = copy.deepcopy(read_toml(path))
    target = tmp_path / "mine.toml"
    target.write_text(toml(document))
    load(target)
    (RECIPE_FAULTS if name == "recipe" else PLATFORM_FAULTS)[fault](document)
    assert list(validator(name).iter_errors(document))
    target.write_text(toml(document))
    with pytest.raises(RecipeError):
        load(target)
