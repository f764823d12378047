"""The surroundings that XRT's own sw_emu driver wants: a Vitis installation with a device model, a card's description.

Here they are a private folder whose device model is the emulator; it goes with the process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import resource
import shutil
import tempfile
from pathlib import Path
from typing import Any

from xclbin_build.trusted_path import weakness

SOCKETS = Path("/tmp")
"""Where XRT puts its sockets."""
MODEL = "genericpciemodel"
_PLACE_OF_MODEL = f"data/emulation/unified/cpu_em/generic_pcie/model/{MODEL}"
STATUS_BYTES = 1 << 16
"""Room for ``status_page`` of native/xrt/model."""


def card_description(cards: int = 1, *, copies: bool = False) -> str:
    """Content of emconfig.json. copies: whether XRT may have the driver copy between buffers.

    The driver of XRT's package does that through memory on the stack, so a large copy would crash.
    """
    device: dict[str, Any] = {
        "Name": "fpga_dynamo_emu",
        "HalMajorVersion": "1",
        "HalMinorVersion": "0",
        "VendorId": "4334",  # decimal, of AMD
        "DeviceId": "20485",
        "DdrBanks": [{"Size": "16GB"}] * 4,
        "OclFreqency": "300",  # as XRT spells it
        "NumDevices": str(cards),
    }
    if copies:
        device["PlatformData"] = {"plp": {"m2m": "enabled"}}
    platform = {"UnifiedPlatform": "true", "ExpandedPR": "true", "Boards": [{"Devices": [device]}]}
    return json.dumps({"Version": {"FileVersion": "2.0", "ToolVersion": "2022.1"}, "Platform": platform})


def installation(folder: Path, installed: Path, description: str) -> dict[str, str]:
    """Writes a Vitis installation with the device model; returns the variables by which XRT's driver finds all of it.

    description: the content of emconfig.json. XILINX_OPENCL must not be set, or the driver prefers it to XILINX_VITIS.
    """
    model = folder / "vitis" / _PLACE_OF_MODEL
    model.parent.mkdir(parents=True)
    model.symlink_to(installed / MODEL)
    (folder / "emconfig.json").write_text(description, encoding="utf-8")
    return {
        "XILINX_VITIS": str(folder / "vitis"),
        "EMCONFIG_PATH": str(folder),
        "SDACCEL_EM_RUN_DIR": str(folder),
    }


def allow_open_files() -> None:
    """As many as this process may have: the driver keeps a descriptor of the memory of each run's command, forever."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def prepare(installed: Path) -> None:
    """Sets the environment up; `installed` is the folder with the device model."""
    folder = Path(tempfile.mkdtemp(prefix="fpga_dynamo_xrt_"))
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    status = folder / "status"
    with status.open("wb") as file:
        file.truncate(STATUS_BYTES)
    allow_open_files()
    os.environ.pop("XILINX_OPENCL", None)
    os.environ |= installation(folder, installed, card_description()) | {
        "USER": socket_folder(os.environ.get("USER", "")),
        "EMULATION_SOCKETID": f"fpga_dynamo_{owner}",
        "FPGA_DYNAMO_MODEL_STATUS": str(status),
    }


def socket_folder(user: str) -> str:
    """A value of $USER for which /tmp/$USER is a folder of this user's alone.

    The driver listens at /tmp/$USER/$EMULATION_SOCKETID, or connects to whoever listens there, and the device model
    loads the code that it is sent from there. Without USER that is one path for everybody.
    """
    if re.fullmatch(r"[\w.-]+", user):
        folder = SOCKETS / user
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            if folder.is_dir() and weakness(folder) is None:
                return user
    return Path(tempfile.mkdtemp(prefix="fpga_dynamo_", dir=SOCKETS)).name
