"""Recipes, platforms, memories and contracts with one wrong value: a sentence, or a design whose manifest is sound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hls_kernels import RECIPES
from tests.malformed_input.mutations import mutants, run, to_toml
from tests.marks import EXTENDED
from xclbin_build import memory, platform
from xclbin_build.build import load_design
from xclbin_build.cli import main
from xclbin_build.errors import BuildError
from xclbin_build.manifest import decode, describe, encode
from xclbin_build.toml_table import load

ENGINE = Path(__file__).parents[2] / "hls_kernels" / "engine"


def _documents(path: Path, every: int) -> Iterator[tuple[str, str]]:
    for what, document in mutants(load(path).values, every):
        try:
            yield what, to_toml(document)
        except ValueError:
            continue


EVERY = [pytest.param(29), pytest.param(1, marks=EXTENDED)]


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("recipe", ["emulator", "engine-u250-4cu", "signal"])
def test_each_field_of_a_recipe(recipe: str, every: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "recipe.toml"
    for what, text in _documents(RECIPES / f"{recipe}.toml", every):
        path.write_text(text, encoding="utf-8")
        arguments = ["--target", "hw", "--no-fit-check", "-q", "--recipe", str(path), "--platform", "u250"]
        run(main, [*arguments, "--sources-only", str(tmp_path / "out")], capsys, what)
        _manifest_is_sound(what, path, "u250")


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("name", ["emu", "u250", "u55c"])
def test_each_field_of_a_platform(name: str, every: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "platform.toml"
    recipe = "single" if name == "emu" else f"engine-{name}"
    for what, text in _documents(platform.DIRECTORY / f"{name}.toml", every):
        path.write_text(text, encoding="utf-8")
        arguments = ["--target", "hw", "--no-fit-check", "-q", "--recipe", recipe, "--platform", str(path)]
        run(main, [*arguments, "--sources-only", str(tmp_path / "out")], capsys, what)
        _manifest_is_sound(what, recipe, path)


def _manifest_is_sound(what: str, recipe: str | Path, platform_: str | Path) -> None:
    """What a build writes, a reader accepts."""
    try:
        made: dict[str, Any] = describe(load_design(recipe, platform=platform_), "emu", "x86-64-v3", "x86-64-v3")
    except BuildError as error:
        assert str(error).isprintable(), what
        return
    try:
        decode(encode(made))
    except Exception as error:
        raise AssertionError(what) from error


@pytest.mark.parametrize("every", EVERY)
def test_each_field_of_a_memory(every: int, tmp_path: Path) -> None:
    path, timing = tmp_path / "platform.toml", tmp_path / "timing.toml"
    values = load(platform.DIRECTORY / "u250.toml").values
    values["memory"]["ddr4"]["dram"] = "timing.toml"
    path.write_text(to_toml(values), encoding="utf-8")
    for what, text in _documents(memory.DIRECTORY / "ddr4_2400.toml", every):
        timing.write_text(text, encoding="utf-8")
        try:
            platform.load(path).memory_header(300.0)
        except BuildError as error:
            assert str(error).isprintable() and "timing.toml" in str(error), what
        except Exception as error:
            raise AssertionError(what) from error


@pytest.mark.parametrize("every", EVERY)
def test_each_field_of_a_contract(every: int, tmp_path: Path) -> None:
    from xclbin_build import qor

    path = tmp_path / "qor.toml"
    for what, text in _documents(ENGINE / "qor.toml", every):
        path.write_text(text, encoding="utf-8")
        try:
            qor.header(qor.load(path))
        except BuildError as error:
            assert str(error).isprintable() and "qor.toml" in str(error), what
        except Exception as error:
            raise AssertionError(what) from error
