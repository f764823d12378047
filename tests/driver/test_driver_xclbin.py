"""Loading: what is refused and in which words, and what a card does with a second file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fpga_dynamo.errors import DeviceError
from fpga_dynamo.runtime.drivers import emulated as xrt
from tests.driver.card_kit import BANKS, KERNELS, MIB, SLEEP, Bank, Card, Kernel

Pack = Callable[..., Path]


def test_description(test_xclbin: Path) -> None:
    file = xrt.xclbin(str(test_xclbin))
    assert [(k.get_name(), k.get_num_args()) for k in file.get_kernels()] == [
        ("vadd", 4), ("empty", 0), ("steps", 4), ("misbehave", 4), ("pair", 4), ("deep", 1),
    ]  # fmt: skip
    assert file.get_kernels()[0].get_cus() == ["vadd_1", "vadd_2"]
    assert [(m.get_tag(), m.get_base_address(), m.get_size_kb(), m.get_used()) for m in file.get_mems()] == [
        (b.tag, b.base, b.size // 1024, b.used) for b in BANKS
    ]
    assert file.get_xsa_name() == "test_platform"
    assert json.loads(file.get_manifest())["fpga_dynamo"]["target"] == "emu"
    assert file.get_uuid() == xrt.uuid(file.get_uuid().to_string())
    assert xrt.uuid("0" * 32) != file.get_uuid()


def test_every_truncation_is_an_error(test_xclbin: Path, tmp_path: Path) -> None:
    data = test_xclbin.read_bytes()
    for size in {0, 7, 100, 455, 456, 500, len(data) // 2, len(data) - 1}:
        broken = tmp_path / "broken.xclbin"
        broken.write_bytes(data[:size])
        with pytest.raises(xrt.XclbinError, match=r"not an xclbin file|truncated|does not fit|damaged"):
            xrt.xclbin(str(broken))


def test_a_flipped_byte_is_an_error(test_xclbin: Path, tmp_path: Path) -> None:
    data = test_xclbin.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(700, len(data), 40):  # behind the headers: sections and the padding between them
        broken = bytearray(data)
        broken[position] ^= 0x55
        (tmp_path / "broken.xclbin").write_bytes(broken)
        try:
            xrt.xclbin(str(tmp_path / "broken.xclbin"))
        except xrt.XclbinError:
            continue
        assert data[position] == 0, "a change of content was not noticed"  # padding is not content


def test_random_bytes_never_crash(test_xclbin: Path, tmp_path: Path) -> None:
    data = test_xclbin.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(300):
        broken = bytearray(data)
        for position in rng.integers(304, 700, 3):  # header, section table
            broken[position] = rng.integers(256)
        (tmp_path / "broken.xclbin").write_bytes(broken)
        try:
            xrt.xclbin(str(tmp_path / "broken.xclbin"))
        except DeviceError:
            continue


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "hw"}, "built for target 'hw', but the emulator runs 'emu'"),
        ({"isa": "x86-64-v9"}, r"compiled for x86-64-v9, this CPU has .*; build it on this machine"),
        ({"manifest_version": 2}, "manifest has version 2, this release supports 1"),
        ({"kernels": []}, "the manifest names no kernel"),
        ({"kernels": [*KERNELS, Kernel("absent", "")]}, "symbol fpga_cu_absent is missing"),
        ({"kernels": [Kernel("vadd", "a* b* out* n", [])]}, "kernel 'vadd' has no compute unit"),
        ({"target": 5}, "the JSON value 'target' is not of type string"),
        ({"code": b"no shared object"}, "BITSTREAM holds no shared object"),
        ({"code": b"\x7fELF, but only so far"}, "its kernels cannot be loaded"),
        ({"banks": [*BANKS, Bank("HBM[0]", 4096, MIB)]}, r"banks 'DDR\[0\]' and 'HBM\[0\]' overlap"),
    ],
)
def test_refused_files(pack: Pack, changes: dict[str, object], message: str) -> None:
    with pytest.raises(xrt.XclbinError, match=message):
        xrt.device(10).load_xclbin(str(pack(**changes)))


def test_wrong_abi(pack: Pack, compiled: Callable[..., bytes]) -> None:
    path = pack(code=compiled("-DWRONG_ABI"), kernels=[Kernel("wrong", "")])
    with pytest.raises(xrt.XclbinError, match=r"kernel 'wrong' has card ABI \d+, this release has \d+") as refused:
        xrt.device(10).load_xclbin(str(path))
    found, own = re.findall(r"(?:ABI|has) (\d+)", str(refused.value))
    assert int(found) == int(own) + 1


def copies_of_kernels() -> set[str]:
    """The shared objects of kernels that this process has loaded, by inode."""
    return {line.split()[4] for line in Path("/proc/self/maps").read_text().splitlines() if "xclbin-kernels" in line}


def test_a_unit_has_its_code_loaded_when_it_is_used(pack: Pack) -> None:
    before = copies_of_kernels()
    card = Card(10, pack(kernels=[Kernel("empty", "", [0] * 16, lanes=False)]))
    assert len(copies_of_kernels() - before) == 1, "units that are not used take nothing"
    for used, unit in enumerate((3, 3, 7, 16, 7), 1):
        assert card.kernel(f"empty:{{empty_{unit}}}")().wait(10000) == xrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED
        assert len(copies_of_kernels() - before) == {1: 1, 2: 1, 3: 2, 4: 3, 5: 3}[used]


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(xrt.XclbinError, match="cannot be opened: No such file"):
        xrt.xclbin(str(tmp_path / "none.xclbin"))
    with pytest.raises(xrt.XclbinError, match=r"cannot be read|not an xclbin file"):
        xrt.xclbin(str(tmp_path))


def test_same_uuid_again_changes_nothing(card: Card, test_xclbin: Path) -> None:
    buffer = card.array(np.arange(4, dtype=np.int32))
    assert card.device.load_xclbin(xrt.xclbin(str(test_xclbin))) == card.uuid
    np.testing.assert_array_equal(card.fetch(buffer, np.int32), np.arange(4))


def test_another_file_retires_what_was_opened(pack: Pack) -> None:
    card = Card(10, pack("first.xclbin", platform="first"))
    kernel, buffer = card.kernel("misbehave"), card.bo(4096)
    old = xrt.run(kernel)
    arguments: tuple[xrt.bo | int, ...] = (buffer, 0, 0, 0)
    for index, value in enumerate(arguments):
        old.set_arg(index, value)
    second = Card(10, pack("second.xclbin", platform="second"))
    assert second.uuid != card.uuid and second.device.get_info(xrt.xrt_info_device.name) == "second"
    with pytest.raises(DeviceError, match="loaded with another xclbin since kernel 'misbehave' was opened"):
        old.start()
    with pytest.raises(DeviceError, match="card 10 holds xclbin"):
        card.kernel("misbehave")
    with pytest.raises(DeviceError, match="another xclbin has been loaded since"):
        second.kernel("misbehave")(buffer, 0, 0, 0)
    second.check_works()


def test_a_context_leaves_the_card_as_it_is(pack: Pack) -> None:
    card = Card(10, pack("first.xclbin", platform="first"))
    beside = card.device.context()
    with pytest.raises(DeviceError, match="has no xclbin"):
        beside.lanes()
    uuid = beside.load_xclbin(str(pack("second.xclbin", platform="second")))
    assert (card.device.get_xclbin_uuid(), beside.get_xclbin_uuid()) == (card.uuid, uuid)
    names = [device.get_info(xrt.xrt_info_device.name) for device in (card.device, beside)]
    assert names == ["first", "second"]
    with pytest.raises(DeviceError, match="holds xclbin"):
        xrt.kernel(card.device, uuid, "misbehave")
    kernel = xrt.kernel(beside, uuid, "misbehave")
    buffer = xrt.bo(beside, 4096, xrt.bo.flags.normal, kernel.group_id(0))
    assert kernel(buffer, 0, 0, 0).wait(1000) == xrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED
    assert [sum(bank["buffers"] for bank in device.memory()) for device in (card.device, beside)] == [0, 1]
    card.check_works()


def test_no_load_while_a_run_is_under_way(pack: Pack) -> None:
    card = Card(10, pack("first.xclbin", platform="first"))
    run, _ = card.misbehaving(SLEEP, ms=300)
    run.start()
    with pytest.raises(DeviceError, match="while a run is under way"):
        card.device.load_xclbin(str(pack("second.xclbin", platform="second")))
    assert run.wait(10000) == xrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED


def test_nothing_loaded() -> None:
    device = xrt.device(11)
    assert device.get_xclbin_uuid() == xrt.uuid("0" * 32)
    with pytest.raises(DeviceError, match="card 11 has no xclbin"):
        xrt.bo(device, 64, xrt.bo.normal, 0)


def test_number_of_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FPGA_DYNAMO_EMULATED_CARDS", "2")
    assert xrt.enumerate_devices() == 2
    with pytest.raises(DeviceError, match="there is no card 2: this process has 2"):
        xrt.device(2)
    monkeypatch.setenv("FPGA_DYNAMO_EMULATED_CARDS", "many")
    with pytest.raises(DeviceError, match="FPGA_DYNAMO_EMULATED_CARDS='many' is not a whole number from 1 to 64"):
        xrt.device(0)


def test_two_cards_are_apart(test_xclbin: Path) -> None:
    first, second = Card(8, test_xclbin), Card(9, test_xclbin)
    a, b = first.array(np.full(4, 1, np.float32)), second.array(np.full(4, 2, np.float32))
    assert a.address() == b.address()
    assert first.fetch(a, np.float32)[0] == 1 and second.fetch(b, np.float32)[0] == 2
    with pytest.raises(DeviceError, match=r"argument 0 \('a'\) of kernel 'vadd': the buffer belongs to another card"):
        second.kernel("vadd")(a, b, b, 4)
    out = second.array(np.full(4, np.nan, np.float32))
    second.kernel("vadd")(b, b, out, 4).wait(10000)
    np.testing.assert_array_equal(second.fetch(out, np.float32), np.full(4, 4, np.float32))
