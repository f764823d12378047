"""The axlf container: what is written is read back, and nothing but XclbinError comes of a damaged file."""

from __future__ import annotations

import json
import struct
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xclbin_build
from xclbin_build import XclbinError
from xclbin_build.axlf import Axlf, Mode, Section, read, write
from xclbin_build.build import load_design
from xclbin_build.manifest import decode, encode
from xclbin_build.metadata import container

DATA = Path(__file__).parent / "data"
DESIGN = load_design(DATA / "user.toml")
EMULATION = container(DESIGN, "emu", "x86-64-v4", "x86-64-v4", b"\x7fELF a stand-in for the shared object")
SMALL = replace(EMULATION, uuid=EMULATION.content_uuid()).to_bytes()


def changed(change: dict[str, Any], drop: str = "") -> bytes:
    """The small file with another manifest; its UUID is right."""
    manifest = EMULATION.manifest | change
    manifest.pop(drop, None)
    axlf = EMULATION.with_section(Section.USER_METADATA, encode(manifest))
    return replace(axlf, uuid=axlf.content_uuid()).to_bytes()


def test_round_trip(tmp_path: Path) -> None:
    identifier = write(tmp_path / "a.xclbin", EMULATION)
    back = read(tmp_path / "a.xclbin")
    assert back.sections == EMULATION.sections
    assert (back.mode, back.platform, back.uuid) == (Mode.SW_EMU, "fpga_dynamo_emu_1_202610_1", identifier)
    assert back.to_bytes() == (tmp_path / "a.xclbin").read_bytes()
    assert back.manifest["recipe"] == "user"


@settings(max_examples=50, deadline=None)
@given(
    sections=st.dictionaries(st.integers(0, 2**32 - 1), st.binary(max_size=50), max_size=6),
    mode=st.sampled_from(Mode),
    platform=st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=63),
    timestamp=st.integers(0, 2**64 - 1),
    identifier=st.uuids(),
)
def test_round_trip_of_any_content(
    sections: dict[int, bytes], mode: Mode, platform: str, timestamp: int, identifier: uuid.UUID
) -> None:
    axlf = Axlf(sections, mode, platform, identifier, timestamp)
    back = read(axlf.to_bytes(), foreign=True)
    assert back == replace(axlf, names=back.names)


def test_layout_is_that_of_xclbin_h() -> None:
    """Offsets are counted from the struct definitions of the public header, not from our own writer."""
    assert SMALL[:8] == b"xclbin2\0"
    assert struct.unpack_from("<i", SMALL, 8) == (-1,)
    length, _time, _rom, patch, major, minor, mode = struct.unpack_from("<QQQHBBH", SMALL, 304)
    assert (length, major, minor, patch, mode) == (len(SMALL), 2, 13, 466, 5)
    assert SMALL[352:416].rstrip(b"\0") == b"fpga_dynamo_emu_1_202610_1"
    (count,) = struct.unpack_from("<I", SMALL, 448)
    for index in range(count):
        kind, offset, size = struct.unpack_from("<I20xQQ", SMALL, 456 + 40 * index)
        assert offset % 8 == 0
        assert SMALL[offset : offset + size] == EMULATION.sections[kind]


def test_sections_tell_xrt_of_the_design() -> None:
    sections = EMULATION.sections
    (count,) = struct.unpack_from("<i", sections[Section.IP_LAYOUT])
    units = [struct.unpack_from("<IIQ64s", sections[Section.IP_LAYOUT], 8 + 80 * i) for i in range(count)]
    assert [(unit[0], unit[2], unit[3].rstrip(b"\0")) for unit in units] == [
        (1, 0x1400000, b"engine:engine_1"), (1, 0x1410000, b"engine:engine_2"), (1, 0x1420000, b"vadd:vadd_1"),
    ]  # fmt: skip
    (count,) = struct.unpack_from("<i", sections[Section.MEM_TOPOLOGY])
    banks = [struct.unpack_from("<BB6xQQ16s", sections[Section.MEM_TOPOLOGY], 8 + 40 * i) for i in range(count)]
    assert [bank[1] for bank in banks] == [1, 1, 1, 0]
    assert [(bank[2] * 1024, bank[4].rstrip(b"\0")) for bank in banks][3] == (16 << 30, b"DDR[3]")
    (count,) = struct.unpack_from("<i", sections[Section.CONNECTIVITY])
    connections = [struct.unpack_from("<iii", sections[Section.CONNECTIVITY], 4 + 12 * i) for i in range(count)]
    engine = [(0, 0), (2, 1), (3, 2)]
    assert connections == [
        *((argument, unit, bank) for unit in (0, 1) for argument, bank in engine),
        (0, 2, 0), (1, 2, 0), (2, 2, 0),
    ]  # fmt: skip
    assert len(sections[Section.CLOCK_FREQ_TOPOLOGY]) == 2 + 2 * 136


def test_xml_gives_arguments_and_addresses() -> None:
    root = ElementTree.fromstring(EMULATION.sections[Section.EMBEDDED_METADATA])
    kernel = root.find(".//kernel[@name='engine']")
    assert kernel is not None
    arguments = [(a.get("name"), a.get("addressQualifier"), a.get("offset"), a.get("port")) for a in kernel.iter("arg")]
    assert arguments == [
        ("commands", "1", "0x10", "M_AXI_GMEM0"),
        ("count", "0", "0x1c", "S_AXI_CONTROL"),
        ("arena", "1", "0x24", "M_AXI_GMEM1"),
        ("weights", "1", "0x30", "M_AXI_GMEM2"),
    ]
    assert [remap.get("base") for remap in kernel.iter("addrRemap")] == ["0x1400000", "0x1410000"]


def test_json_has_what_xclbinutil_prints() -> None:
    document = json.loads(EMULATION.sections[Section.BUILD_METADATA])
    kernels = document["build_metadata"]["xclbin"]["user_regions"][0]["kernels"]
    assert [kernel["name"] for kernel in kernels] == ["engine", "vadd"]
    for kernel in kernels:
        assert all({"name", "type", "offset", "port"} <= set(argument) for argument in kernel["arguments"])
        assert all({"name", "mode", "range", "data_width", "port_type"} <= set(port) for port in kernel["ports"])
    assert [unit["name"] for unit in kernels[0]["instances"]] == ["engine_1", "engine_2"]


def test_time_is_reproducible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a", EMULATION)
    assert read(tmp_path / "a").timestamp == 0
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1234567890")
    write(tmp_path / "b", EMULATION)
    assert read(tmp_path / "b").timestamp == 1234567890
    assert read(tmp_path / "a").uuid == read(tmp_path / "b").uuid
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(XclbinError, match="SOURCE_DATE_EPOCH"):
        write(tmp_path / "c", EMULATION)


def test_every_truncation_is_an_error() -> None:
    for length in range(len(SMALL)):
        with pytest.raises(XclbinError):
            read(SMALL[:length])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, len(SMALL) * 8 - 1), min_size=1, max_size=4), st.booleans())
def test_flipped_bits_are_an_error_or_do_no_harm(bits: list[int], foreign: bool) -> None:
    data = bytearray(SMALL)
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    try:
        axlf = read(bytes(data), foreign=foreign)
    except XclbinError:
        return
    if not foreign:  # what the UUID covers must have come through
        assert axlf.sections == EMULATION.sections
        assert (axlf.mode, axlf.platform) == (EMULATION.mode, EMULATION.platform)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1000), st.binary(min_size=1, max_size=16))
def test_overwritten_headers_are_an_error_or_do_no_harm(offset: int, junk: bytes) -> None:
    data = SMALL[:offset] + junk + SMALL[offset + len(junk) :]
    try:
        axlf = read(data)
    except XclbinError:
        return
    assert axlf.sections == EMULATION.sections


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_manifest_is_an_error_or_a_sound_manifest(data: st.DataObject) -> None:
    """Without the UUID's protection, as in a hardware file: the manifest's own checks must hold."""
    section = bytearray(EMULATION.sections[Section.USER_METADATA])
    for _ in range(data.draw(st.integers(1, 3))):
        bit = data.draw(st.integers(0, len(section) * 8 - 1))
        section[bit // 8] ^= 1 << bit % 8
    try:
        manifest = decode(bytes(section))
    except XclbinError:
        return
    for kernel in manifest["kernels"]:
        assert all(isinstance(argument["offset"], int) for argument in kernel["args"])
        assert all(isinstance(unit["base"], int) for unit in kernel["compute_units"])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not an xclbin"),
        (b"\x7fELF" + bytes(2000), "not an xclbin"),
        (SMALL + b"x", "damaged"),
        (SMALL[:-8], "cut off"),
        (changed({"manifest_version": 2}), "manifest_version 2, this software supports up to 1"),
        (changed({"command_version": 99}), "command_version 99, this software supports up to 2"),
        (changed({"manifest_version": "1"}), "not a version"),
        (changed({"target": "gpu"}), "'target' must be one of emu, sw_emu, cycles, hw_emu, hw, not 'gpu'"),
        (changed({}, drop="tiles"), "'tiles' is missing"),
        (changed({"kernels": [{"name": "k"}]}), "'kernels[0].lanes' is missing"),
        (changed({"banks": []}), "unknown bank"),
        (changed({"enums": {"activation": 3}}), "'enums.activation' must be a table, not 3"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(data: bytes, words: str) -> None:
    with pytest.raises(XclbinError) as error:
        read(data)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_foreign_file_is_refused_unless_asked_for() -> None:
    sections = {kind: data for kind, data in EMULATION.sections.items() if kind != Section.USER_METADATA}
    data = Axlf(sections, Mode.FLAT, "xilinx_u250").to_bytes()
    with pytest.raises(XclbinError, match="no USER_METADATA section with a manifest"):
        read(data)
    assert read(data, foreign=True).platform == "xilinx_u250"
    other = Axlf(sections | {Section.USER_METADATA: b'{"somebody": "else"}'}).to_bytes()
    with pytest.raises(XclbinError, match="only files made by xclbin-build"):
        read(other)


def test_error_of_a_file_names_it(tmp_path: Path) -> None:
    with pytest.raises(XclbinError, match=r"none\.xclbin cannot be read"):
        read(tmp_path / "none.xclbin")
    (tmp_path / "text.xclbin").write_text("hello")
    with pytest.raises(XclbinError, match=r"text\.xclbin: .* not an xclbin"):
        xclbin_build.read(tmp_path / "text.xclbin")


def test_unwritable_output_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(XclbinError, match="cannot be written"):
        write(tmp_path / "file" / "a.xclbin", EMULATION)


def test_overlong_platform_name_is_an_error() -> None:
    with pytest.raises(XclbinError, match="more than 63 bytes"):
        replace(EMULATION, platform="x" * 64).to_bytes()
