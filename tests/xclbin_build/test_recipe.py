"""Recipes, platforms and kernel signatures: what is understood, and what the errors say."""

from __future__ import annotations

from pathlib import Path

import pytest

from xclbin_build import RecipeError, RecordError
from xclbin_build import platform as platforms
from xclbin_build import recipe as recipes
from xclbin_build.build import load_design
from xclbin_build.signature import parse_kernel, register_offsets

DATA = Path(__file__).parent / "data"


def recipe(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "my.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tile = 3", "unknown key 'tile'; did you mean 'tiles'?"),
        ('[kernel.k]\ncore = ["gemm"]', "[kernel.k]: unknown key 'core'; did you mean 'cores'?"),
        ('[kernel.k]\ncores = ["gem"]', "unknown core 'gem'; did you mean 'gemm'?"),
        ('[kernel.k]\ncores = "gemm"', "'cores' must be a list, not 'gemm'"),
        ("[kernel.k]\ncores = [3]", "'cores' must be a string, not 3"),
        ('[kernel.k]\ncores = ["pool", "pool"]', "lists a core twice"),
        ('[kernel.k]\ncores = ["pool"]\ncu = 0', "must be 1 to 60, not 0"),
        ('[kernel.k]\ncores = ["pool"]\ncu = true', "'cu' must be an integer"),
        ('[kernel.k]\ncores = ["pool"]\ncu = 2\nslr = ["SLR0"]', "one region for each of the 2"),
        ("[kernel.k]\ncu = 1", "give either 'cores'"),
        ('[kernel.k]\ncores = ["gemm"]\nengine = "8x16x16"', "give either 'cores'"),
        ('[kernel.k]\ncores = ["gemm"]\nlanes = 16', "'lanes' is a size of an engine"),
        ('[kernel.k]\nengine = "8x16"', "pixels x output channels x input channels"),
        ('[kernel.k]\nengine = "17x16x16"', "1 to 16 pixels, not 17"),
        ('[kernel.k]\nengine = "8x24x16"', "16 or 32 output channels, not 24"),
        ('[kernel.k]\nengine = "8x16x8"', "an array of int8 must have 16 input channels, not 8"),
        ('[kernel.k]\nengine = "8x16x16"\nelement = "int4"', "unknown 'element' 'int4'"),
        ('[kernel.k]\nengine = "8x16x16"\nelement = "float32"\nlanes = 32', "must be 16 of float32 with 8 pixels"),
        ('[kernel.k]\nengine = "8x16x16"\nwindow = 1000', "'window' must be a power of two"),
        ('[kernel.k]\nengine = "8x16x16"\ntaps = 0', "'taps' must be from 1 to 65536, not 0"),
        ('[kernel.k]\nengine = "8x16x8"\nelement = "float32"\nactivations = true', "a float32 engine does not have"),
        ('[kernel.k]\nengine = "8x16x16"\nactivations = false', "'activations' of int8 are always there"),
        ('[kernel.k]\nengine = "8x16x16"\n[kernel.l]\nengine = "7x16x16"', "the engines of 'k' and 'l' differ"),
        ('[kernel.k]\ncores = ["gemm"]\ntogether = true', "'together' is supported for the compute units of an engine"),
        ('[kernel.k]\nengine = "8x16x16"\ntogether = true\n[kernel.k.memory]\narena = "DDR"', "leave out 'memory'"),
        ('[kernel.k]\nengine = "8x16x16"\ntogether = true\n[kernel.l]\ncores = ["gemm"]', "a card without other"),
        ('[kernel."k-1"]\ncores = ["pool"]', "C identifier"),
        ('[kernel.k]\ncores = ["none.hpp"]', "does not exist"),
        ('[kernel.k]\nsource = "none.cpp"', "cannot be read"),
        (
            '[kernel.k]\ncores = ["pool"]\nmemory = { arean = "DDR[0]" }',
            "not a pointer argument; did you mean 'arena'?",
        ),
        ('[kernel.k]\ncores = ["pool"]\nmemory = { arena = "DDR[9]" }', "no bank 'DDR[9]'; did you mean 'DDR["),
        ('[kernel.k]\ncores = ["pool"]\n[tiles]\nROW = 3', "unknown tile constant 'ROW'; did you mean 'ROWS'?"),
        ('[kernel.k]\ncores = ["pool"]\n[tiles]\nROWS = 0', "must be at least 1"),
        ('platform = "u251"\n[kernel.k]\ncores = ["pool"]', "unknown platform 'u251'; did you mean 'u250'?"),
        ('[kernel.a]\ncores = ["pool"]\ncu = 40\n[kernel.b]\ncores = ["pool"]\ncu = 40', "80 compute units"),
        ('[kernel.k]\ncores = ["pool"]\nmemory = { arena = "DDR[9]" }', "It has DDR[0], DDR[1]"),
        ('[kernel.k]\ncores = ["pool"]\nslr = ["SRL0"]', "'SRL0' in 'slr' is not a region of a card"),
        (
            'platform = "u250"\n[kernel.k]\ncores = ["pool"]\nslr = ["SLR4"]',
            "'u250' has no region 'SLR4'; it has SLR0, SLR1, SLR2, SLR3.",
        ),
        (
            'platform = "zcu102"\n[kernel.k]\ncores = ["pool"]\nslr = ["SLR1"]',
            "'zcu102' has no region 'SLR1'; it has SLR0.",
        ),
        ('platform = "u55c"\n[kernel.k]\ncores = ["pool"]\nmemory = { arena = "HBM[32]" }', "It has HBM[0] … HBM[31]."),
        ('[kernel.int]\ncores = ["pool"]', "'int' cannot be the name of a C++ function"),
        ('[kernel.main]\nsource = "main.cpp"', "'main' cannot be the name of a C++ function"),
        ('name = "a\\nb"\n[kernel.k]\ncores = ["pool"]', "'name' must be one line of printable characters"),
        ('name = ""\n[kernel.k]\ncores = ["pool"]', "'name' must be one line of printable characters, not ''"),
        ("", "at least one [kernel.NAME]"),
        ("[kernel", "not valid TOML"),
    ],
)
def test_bad_recipe_is_an_error_that_names_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(RecipeError) as error:
        load_design(recipe(tmp_path, text))
    assert words in str(error.value)


def test_unknown_recipe_names_a_known_one() -> None:
    with pytest.raises(RecipeError, match="unknown recipe 'emulatr'; did you mean 'emulator'"):
        recipes.load("emulatr")


# Recipes for the emulator fit every platform, those for a card that one.
PLACES = [
    (name, platform)
    for name in recipes.names()
    for platform in platforms.names()
    if recipes.load(name).platform in ("emu", platform)
]


@pytest.mark.parametrize(("name", "platform"), PLACES)
def test_every_recipe_fits_its_platforms(name: str, platform: str) -> None:
    design = load_design(name, platform=platform)
    tags = {bank.tag for bank in design.platform.banks}
    for kernel in design.kernels:
        assert kernel.opcodes
        offsets = [("commands", 0x10), ("count", 0x1C), ("arena", 0x24), ("weights", 0x30)]
        if kernel.engine:
            offsets += [("arena_residual", 0x3C), ("arena_output", 0x48)]
        assert [(bound.argument.name, bound.offset) for bound in kernel.arguments] == offsets
        assert {bound.bank for bound in kernel.arguments if bound.argument.kind == "global"} <= tags


def test_compute_units_lie_apart_and_can_be_overridden() -> None:
    design = load_design(DATA / "user.toml", cu={"engine": 5})
    units = [unit for kernel in design.kernels for unit in kernel.compute_units]
    assert [unit.name for unit in units] == [f"engine_{i}" for i in range(1, 6)] + ["vadd_1"]
    assert len({unit.base >> 16 for unit in units}) == 6
    assert recipes.parse_compute_units(["a=2", "b=3"]) == {"a": 2, "b": 3}


def test_figures_of_the_host_are_those_of_its_instruction_set_and_a_card_has_none() -> None:
    emu = platforms.load("emu")
    assert emu.tuning_for("x86-64-v3")["winograd"]["step"] == 1 < emu.tuning_for("x86-64-v4")["winograd"]["step"]
    assert emu.tuning_for("x86-64-v2") == {k: v for k, v in emu.tuning.items() if k != "winograd"}
    for name in set(platforms.names()) - {"emu"}:
        assert platforms.load(name).tuning_for("x86-64-v4") == {}


@pytest.mark.parametrize("word", ["engine", "engine=", "=2", "engine=two", "engine=-1", "engine=0"])
def test_bad_cu_option_is_an_error(word: str) -> None:
    with pytest.raises(RecipeError, match="--cu"):
        recipes.parse_compute_units([word])


def test_cu_of_an_unknown_kernel_is_an_error() -> None:
    with pytest.raises(RecipeError, match="no kernel 'engin' in recipe 'user'; did you mean 'engine'"):
        load_design(DATA / "user.toml", cu={"engin": 2})


def test_user_opcodes_begin_behind_the_known_ones() -> None:
    design = load_design(DATA / "user.toml")
    assert (design.opcodes["accumulate"], design.opcodes["negate"]) == (64, 65)
    assert design.tiles["ROWS"] == 5


def test_user_core_may_not_take_a_known_opcode(tmp_path: Path) -> None:
    (tmp_path / "mine.hpp").write_text("// core: mine; opcodes: gemm\n")
    with pytest.raises(RecipeError, match=r"opcode 'gemm' is already used by command\.hpp"):
        load_design(recipe(tmp_path, '[kernel.k]\ncores = ["mine.hpp"]'))


def test_user_core_needs_its_record(tmp_path: Path) -> None:
    (tmp_path / "mine.hpp").write_text("// core: mine; opcodes: fir\n")
    with pytest.raises(RecipeError, match="no 'struct fir_command'"):
        load_design(recipe(tmp_path, '[kernel.k]\ncores = ["mine.hpp"]'))


def test_user_core_needs_its_core_line(tmp_path: Path) -> None:
    (tmp_path / "mine.hpp").write_text("#pragma once\n")
    with pytest.raises(RecordError, match=r"mine\.hpp: the line '// core:"):
        load_design(recipe(tmp_path, '[kernel.k]\ncores = ["mine.hpp"]'))


def test_kernel_signature() -> None:
    arguments = parse_kernel(DATA / "vadd.cpp", "vadd")
    assert [(a.name, a.kind, a.type, a.bytes, a.const) for a in arguments] == [
        ("a", "global", "float", 8, True),
        ("b", "global", "float", 8, True),
        ("out", "global", "float", 8, False),
        ("n", "scalar", "int", 4, False),
        ("scale", "scalar", "float", 4, False),
        ("offset", "scalar", "uint64_t", 8, False),
        ("shift", "scalar", "double", 8, False),
        ("step", "scalar", "unsigned int", 4, False),
    ]
    assert register_offsets(arguments) == [0x10, 0x1C, 0x28, 0x34, 0x3C, 0x44, 0x50, 0x5C]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('extern "C" void other(int n) {}', "does not define"),
        ("void k(int n) {}", "does not define"),
        ('extern "C" void k(widget w) {}', "'widget w'"),
        ('extern "C" void k(float** rows) {}', "neither a pointer to data nor a scalar"),
        ('extern "C" void k(int) {}', "needs a type and a name"),
        ('extern "C" void k(int a, float a) {}', "the same name"),
        ('extern "C" void k(' + ", ".join(f"int a{i}" for i in range(33)) + ") {}", "at most 32"),
    ],
)
def test_bad_kernel_source_is_an_error(tmp_path: Path, code: str, words: str) -> None:
    (tmp_path / "k.cpp").write_text(code)
    with pytest.raises(RecipeError, match="kernel 'k'") as error:
        parse_kernel(tmp_path / "k.cpp", "k")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("launch_us = 2 ", "lunch_us = 2 "), "did you mean 'launch_us'?"),
        (("clock_mhz = 165", "clock_mhz = 0"), "'clock_mhz' must be above 0"),
        (("clock_mhz = 165", "clock_mhz = inf"), "'clock_mhz' must be above 0 and at most 1e+18, not inf"),
        (('kind = "ddr4"', 'count = 0\nkind = "ddr4"'), "'count' of bank 'DDR[0]' must be from 1 to 256, not 0"),
        (('kind = "ddr4"', 'kind = "dd4"'), "did you mean 'ddr4'?"),
        (('tag = "DDR[1]"', 'tag = "DDR[0]"'), "must differ"),
        (
            ('tag = "DDR[1]"', 'tag = "a234567890123456"'),
            "at most 15 char",
        ),
        (("base = 0x0000_0050_0000_0000", "base = 0xFFFF_FFFF_0000_0000"), "'DDR[1]' goes beyond 64 bits of address"),
        (("base = 0x0000_0050_0000_0000", "base = 0x0000_0040_0000_0000"), "'DDR[0]' and 'DDR[1]' overlap"),
        (("slice_work = ", "slice_wrok = "), "[tuning]: unknown key 'slice_wrok'; did you mean 'slice_work'?"),
        (("slice_work = 100_000", "slice_work = 0"), "[tuning]: 'slice_work' must be from 1 to"),
        (("band = 589_824", "band = -1"), "[tuning.bands]: 'band' must be from 0 to"),
        (("[tuning.bands]", "[tuning.bonds]"), "unknown key 'bonds'; did you mean 'bands'?"),
        (("exposed = 0.25", ""), "[winograd.x86-64-v3]: key 'exposed' is missing"),
        (('part = "none"', 'part = "xcu250"'), "[tuning] describes the host of the emulator; leave it out for a card"),
    ],
)
def test_bad_platform_is_an_error(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    text = (platforms.DIRECTORY / "emu.toml").read_text()
    assert change[0] in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(*change))
    with pytest.raises(RecipeError) as error:
        platforms.load(path)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('name = "SLR1"', 'name = "SLR2"'), "called SLR0, SLR1 and so on, in that order, not 'SLR2'"),
        (('banks = ["DDR[1]"]', 'banks = ["DDR[4]"]'), "no bank 'DDR[4]'; did you mean 'DDR["),
        (("dsp = 2877", "dps = 2877"), "[[slr]] 0: unknown key 'dps'; did you mean 'dsp'?"),
        (("dsp = 2877", "dsp = -1"), "'dsp' must be from 0 to 1e+18, not -1"),
        (("uram = 1280", ""), "[resources]: key 'uram' is missing"),
        (("[usable]\nsource = ", "[usable]\nsauce = "), "[usable]: unknown key 'sauce'; did you mean 'source'?"),
    ],
)
def test_bad_region_is_an_error(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    text = (platforms.DIRECTORY / "u250.toml").read_text()
    assert change[0] in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(*change, 1))
    with pytest.raises(RecipeError) as error:
        platforms.load(path)
    assert words in str(error.value)


@pytest.mark.parametrize("name", [name for name in platforms.names() if name != "emu"])
def test_regions_of_a_card_hold_no_more_than_its_device(name: str) -> None:
    platform = platforms.load(name)
    assert platform.regions
    assert platform.source
    for resource in platforms.RESOURCES:
        assert sum(region.usable[resource] for region in platform.regions) <= platform.resources[resource]
    assert all(any(region.beside(bank.tag) for region in platform.regions) for bank in platform.banks)
