"""The memory model against what was measured on cards, and `[memory]` of the platforms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hls_kernels.test_sim import build, run
from xclbin_build import RecipeError, memory
from xclbin_build import platform as platforms

SHUHAI = "Wang et al., Shuhai, FCCM 2020: Alveo U280, at the controller's port"
TUTORIAL = "Vitis-Tutorials, 07-using-hbm/3_BW_Explorations.md: Alveo U50, from a kernel"
# Name in the bench, what was measured (ns, or GB/s), and how far the model may be from it, as a share.
MEASURED = {
    SHUHAI: {
        "ddr4_latency_hit": (73.3, 0.02), "ddr4_latency_closed": (89.9, 0.05), "ddr4_latency_miss": (106.6, 0.06),
        "hbm_latency_hit": (106.7 + 15.6, 0.02), "hbm_latency_closed": (122.2 + 15.6, 0.05),
        "hbm_latency_miss": (137.8 + 15.6, 0.06),
        "ddr4_sequential": (18.0, 0.03), "hbm_sequential": (13.27, 0.03),
        "hbm_4k_stride_in_8k": (6.7, 0.05), "hbm_4k_stride_in_256m": (2.4, 0.1),
    },
    TUTORIAL: {
        "hbm_kernel_read_16": (13.05, 0.05), "hbm_kernel_read_64": (13.1, 0.05),
        # The widest miss is that of accesses of 64 bytes, which the card serves more slowly.
        "hbm_kernel_random_64": (4.754, 0.25), "hbm_kernel_random_128": (9.599, 0.15),
        "hbm_kernel_random_256": (12.616, 0.15), "hbm_kernel_random_512": (13.134, 0.15),
        "hbm_kernel_random_1024": (13.155, 0.1),
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """What sim/tb/memory.cpp finds, with the memories of the U280."""
    directory = tmp_path_factory.mktemp("memory")
    (directory / memory.HEADER).write_text(platforms.load("u280").memory_header(300))
    result = run(build("memory", directory, counting=True, flags=("-O1",)))
    assert result.returncode == 0, result.stderr
    return {name: float(value) for name, value in (line.split() for line in result.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.parametrize("source", MEASURED)
def test_measured(source: str, figures: dict[str, float]) -> None:
    off = {
        name: (figures[name], measured)
        for name, (measured, share) in MEASURED[source].items()
        if abs(figures[name] / measured - 1) > share
    }
    assert not off, f"{source}: {off}"


@pytest.mark.slow
@pytest.mark.extended
def test_what_nobody_measured(figures: dict[str, float]) -> None:
    """Bounds of reason for what no publication was found for: bursts pay, and turning the bus round costs."""
    for kind, peak in (("ddr4", 19.2), ("hbm", 14.4)):
        assert figures[f"{kind}_kernel_read_1"] < 0.5 * figures[f"{kind}_kernel_read_16"]
        assert figures[f"{kind}_kernel_read_16"] <= figures[f"{kind}_kernel_read_64"] < 0.96 * peak
        assert 0.85 * peak < figures[f"{kind}_kernel_write_64"] < 0.96 * peak
        assert figures[f"{kind}_kernel_mixed_16"] < figures[f"{kind}_kernel_mixed_64"]
        assert 0.5 * peak < figures[f"{kind}_kernel_mixed_16"]
        assert figures[f"{kind}_kernel_mixed_64"] < figures[f"{kind}_kernel_write_64"]


@pytest.mark.parametrize("name", [n for n in platforms.names() if n not in ("emu", "vck190")])
def test_cards_say_how_their_memory_behaves(name: str) -> None:
    platform = platforms.load(name)
    assert all(bank.tag in platform.memory_header(300) for bank in platform.banks)
    for kind, of in platform.memories.items():
        gigabytes = of.figures["data_mtps"] * of.figures["bus_bits"] / 8000
        assert gigabytes == pytest.approx({"ddr4": 19.2, "hbm": 14.4}[kind])


def test_platform_that_does_not_say() -> None:
    with pytest.raises(RecipeError, match=r"'emu' has no memory model.* add to its file a table \[memory.ddr4\]"):
        platforms.load("emu").memory_header(300)


DRAM = (memory.DIRECTORY / "ddr4_2400.toml").read_text()


@pytest.mark.parametrize(
    ("table", "dram", "words"),
    [
        ('[memory.ddr5]\ndram = "ddr4_2400"', DRAM, "the platform has no bank of kind 'ddr5'; did you mean 'ddr4'?"),
        ('[memory.ddr4]\ndram = "ddr4_2401"', DRAM, "unknown memory 'ddr4_2401'; did you mean 'ddr4_2400'?"),
        ('[memory.ddr4]\ndram = "my.toml"\nlinks = 3', DRAM, "unknown key 'links'"),
        ('[memory.ddr4]\ndram = "my.toml"\nlink_bits = 512', DRAM, "key 'path_ns' is missing"),
        ('[memory.ddr4]\ndram = "my.toml"\npath_ns = -1', DRAM, "'path_ns' must be 0 or more and finite, not -1.0."),
        (
            '[memory.ddr4]\ndram = "my.toml"',
            DRAM.replace("g2 b2 c7", "g2 b2 c6"),
            "6 bits 'c' for the accesses of a row",
        ),
        ('[memory.ddr4]\ndram = "my.toml"', DRAM.replace("g2 b2 c7", "g2 x2 c7"), "'map' must be fields such as"),
        ('[memory.ddr4]\ndram = "my.toml"', DRAM.replace("rfc_ns = 350", "rfc_ns = 9000"), "refreshes all the time"),
        (
            '[memory.ddr4]\ndram = "my.toml"',
            DRAM.replace("queue = 16", "queue = 0"),
            "'queue' must be at least 1, not 0.",
        ),
        ('[memory.ddr4]\ndram = "my.toml"', DRAM.replace("rcd_ns", "trcd_ns"), "unknown key 'trcd_ns'; did you mean"),
    ],
)
def test_memory_that_is_wrong(table: str, dram: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(dram)
    card = (platforms.DIRECTORY / "u250.toml").read_text()
    card = card[: card.index("[memory.ddr4]")] + table + "\n"
    if "path_ns" not in words and "links" not in words:
        for line in ("path_ns = 100", "link_bits = 512", "link_mhz = 300"):
            if line.split()[0] not in table:
                card += line + "\n"
    path = tmp_path / "card.toml"
    path.write_text(card)
    with pytest.raises(RecipeError) as error:
        platforms.load(path)
    assert words in str(error.value)
