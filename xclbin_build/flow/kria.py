"""The app folder of a Kria: NAME.bit.bin, NAME.dtbo, NAME.xclbin and shell.json, as `xmutil loadapp` reads it."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from .. import atomic_file
from ..axlf import read
from ..errors import ToolchainError, XclbinError
from ..schema import Closed, SchemaError, check
from ..trusted_path import printable
from .steps import Step, run_steps

_BIT_HEAD = bytes.fromhex("0009") + bytes.fromhex("0ff00ff00ff00ff000")
_SYNC = bytes.fromhex("aa995566")
_SYNC_SWAPPED = bytes.fromhex("665599aa")
_TREE = struct.Struct(">II")
_TREE_MAGIC = 0xD00DFEED
# Loads the bitstream, resets the logic, sets the widths of the AXI ports and starts zocl, XRT's driver for the chip.
# Names behind & are labels of the board's own device tree.
_OVERLAY = """\
// Made by xclbin_build: loads {name}.bit.bin and starts XRT's driver.
/dts-v1/;
/plugin/;

&fpga_full {{
    #address-cells = <2>;
    #size-cells = <2>;
    firmware-name = "{name}.bit.bin";
    resets = <&zynqmp_reset 116>, <&zynqmp_reset 117>, <&zynqmp_reset 118>, <&zynqmp_reset 119>;
}};

&amba {{
    #address-cells = <2>;
    #size-cells = <2>;

    afi0: afi0 {{
        compatible = "xlnx,afi-fpga";
        config-afi = <0 0>, <1 0>, <2 0>, <3 0>, <4 0>, <5 0>, <6 0>, <7 0>, <8 0>, <9 0>, <10 0>, <11 0>, <12 0>,
                     <13 0>, <14 0xa00>, <15 0>;
    }};

    clocking0: clocking0 {{
        #clock-cells = <0>;
        compatible = "xlnx,fclk";
        clocks = <&zynqmp_clk 71>;
        assigned-clocks = <&zynqmp_clk 71>;
        assigned-clock-rates = <99999001>;
        clock-output-names = "fabric_clk";
    }};

    zyxclmm_drm {{
        compatible = "xlnx,zocl";
        status = "okay";
    }};
}};
"""


@dataclass(frozen=True)
class Shell:
    """shell.json of an app: a bitstream of the whole fabric that XRT drives."""

    shell_type: Literal["XRT_FLAT"]
    num_slots: Literal["1"]


def write(folder: Path, name: str, bits: bytes, xclbin: Path, directory: Path, keep_open: Sequence[int] = ()) -> None:
    """Writes and checks the app folder. bits: the .bit. directory: of the build, in which bootgen and dtc run."""
    own = directory / "kria"
    own.mkdir(exist_ok=True)
    atomic_file.write(own / f"{name}.bit", bits)
    atomic_file.write(own / f"{name}.bif", f"all:\n{{\n    [destination_device = pl] {name}.bit\n}}\n")
    atomic_file.write(own / f"{name}.dtso", _OVERLAY.format(name=name))
    bootgen = ("bootgen", "-image", f"{name}.bif", "-arch", "zynqmp", "-process_bitstream", "bin", "-w", "on")
    dtc = ("dtc", "-@", "-I", "dts", "-O", "dtb", "-o", f"{name}.dtbo", f"{name}.dtso")
    steps = [
        Step("bootgen", bootgen, (own / f"{name}.bit", own / f"{name}.bif"), (own / f"{name}.bit.bin",)),
        Step("dtc", dtc, (own / f"{name}.dtso",), (own / f"{name}.dtbo",)),
    ]
    run_steps(steps, own, keep_open=keep_open)
    for kind in ("bit.bin", "dtbo"):
        shutil.copyfile(own / f"{name}.{kind}", folder / f"{name}.{kind}")
    atomic_file.write(folder / f"{name}.xclbin", xclbin.read_bytes())
    atomic_file.write(folder / "shell.json", json.dumps({"shell_type": "XRT_FLAT", "num_slots": "1"}, indent=4) + "\n")
    check_app(folder, name)


def check_app(folder: Path, name: str) -> None:
    """Raises ToolchainError unless the folder is what `xmutil loadapp NAME` reads."""
    files = {kind: folder / f"{name}.{kind}" for kind in ("bit.bin", "dtbo", "xclbin")} | {"": folder / "shell.json"}
    for path in files.values():
        if not path.is_file() or not path.stat().st_size:
            raise _refused(path, "it is missing or empty")
    bits = files["bit.bin"].read_bytes()
    if is_bit(bits) or _SYNC_SWAPPED not in bits[:4096]:
        raise _refused(files["bit.bin"], "it is not a bitstream with swapped bytes, as bootgen writes it")
    tree = files["dtbo"].read_bytes()
    if len(tree) < _TREE.size or _TREE.unpack_from(tree) != (_TREE_MAGIC, len(tree)):
        raise _refused(files["dtbo"], "it is not a device tree blob of its own length")
    if f"{name}.bit.bin\0".encode() not in tree:
        raise _refused(files["dtbo"], f"it does not load {name}.bit.bin")
    try:
        assert read(files["xclbin"]).manifest
        check(json.loads(files[""].read_text()), Annotated[Shell, Closed()], "shell.json")
    except (XclbinError, SchemaError, ValueError) as error:
        raise _refused(files[""] if not isinstance(error, XclbinError) else files["xclbin"], str(error)) from error


def is_bit(data: bytes) -> bool:
    """Whether data is a .bit: a header of Vivado's before the bitstream."""
    return data.startswith(_BIT_HEAD) and _SYNC in data


def _refused(path: Path, why: str) -> ToolchainError:
    return ToolchainError(f"{printable(path)} cannot be loaded by a Kria: {why}; delete the folder and build again.")
