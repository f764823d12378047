"""What this machine lacks for which way of running a model, and what to do about it."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import xclbin_build
from fpga_dynamo.device_address import parse
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.runtime.drivers import select, xrt_environment
from fpga_dynamo.torch_internals import versions
from xclbin_build.toolchain import gxx

_ROUND_TRIPS = 5

GOOD, MISSING, WRONG = "good", "missing", "wrong"
"""`missing` keeps one way of running from being used; `wrong` keeps everything from it."""


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is (`good`, `missing`, `wrong`), what was found, and what to do if it is not good."""

    subject: str
    state: str
    found: str
    remedy: str = ""


def examine(xclbin: Path | None = None, server: str | None = None) -> list[Finding]:
    """Looks at the compiler, XRT and its drivers, the cards and their permissions, an xclbin, and a card server."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        _pytorch,
        _compiler,
        _software_card,
        _xrt,
        _emulation,
        _pyxrt,
        _nodes,
        _cards,
    ]
    findings = [finding for check in checks for finding in check()]
    if xclbin is not None:
        findings += _xclbin(xclbin)
    if server is not None:
        findings.append(_server(server))
    return findings


def _pytorch() -> Iterator[Finding]:
    told = versions.describe()
    if told is None:
        yield Finding("PyTorch", GOOD, f"{torch.__version__}, a tested version")
    else:
        yield Finding("PyTorch", MISSING, told, f"for all features install torch {versions.tested()}")


def _compiler() -> Iterator[Finding]:
    try:
        compiler = gxx.find_compiler()
    except xclbin_build.BuildError as error:
        yield Finding("compiler", WRONG, str(error), "install g++ (apt-get install g++), or set CXX")
    else:
        yield Finding("compiler", GOOD, f"{' '.join(compiler.command)}: {compiler.version}")


def _software_card() -> Iterator[Finding]:
    try:
        count = select("emulated").enumerate_devices()
        yield Finding("emulator", GOOD, f"{count} in this process")
    except FpgaError as error:
        yield Finding("emulator", WRONG, str(error), "set the variable to a number, or unset it")


def _binding() -> Path | None:
    """Where what was built for XRT lies; None if nothing was."""
    try:
        return Path(importlib.import_module("fpga_dynamo._xrt").__file__ or "").parent
    except ImportError:
        return None


def _xrt() -> Iterator[Finding]:
    try:
        importlib.import_module("fpga_dynamo._xrt")
    except ModuleNotFoundError:
        remedy = (
            "install XRT (Debian 12: apt-get install libxrt-dev uuid-dev; else AMD's package), then fpga_dynamo again"
        )
        yield Finding("driver xrt", MISSING, "fpga_dynamo was built without XRT's headers", remedy)
    except ImportError as error:
        remedy = "install XRT again, or, if the release of XRT changed, install fpga_dynamo again"
        yield Finding("driver xrt", WRONG, f"XRT's libraries cannot be loaded: {error}", remedy)
    else:
        yield Finding("driver xrt", GOOD, f"FPGA_DYNAMO_XRT={xrt_environment.mode()}")


def _emulation() -> Iterator[Finding]:
    place = _binding()
    files = {"inproc": f"lib{xrt_environment.DRIVER}.so.{xrt_environment.MAJOR}", "process": "genericpciemodel"}
    for mode, name in files.items():
        subject = f"emulator under XRT, {mode}"
        if place is not None and (place / "xrt_lib" / name).exists():
            yield Finding(subject, GOOD, f"FPGA_DYNAMO_XRT={mode} selects it")
        else:
            remedy = "Debian 12: apt-get install libxrt-dev uuid-dev, then install fpga_dynamo again"
            yield Finding(
                subject, MISSING, f"{name} was not built: it requires XRT 2.13 with its static libraries", remedy
            )


def _pyxrt() -> Iterator[Finding]:
    try:
        importlib.import_module("pyxrt")
    except ImportError as error:
        remedy = "not needed by driver 'xrt'; otherwise source /opt/xilinx/xrt/setup.sh of AMD's XRT package"
        yield Finding("driver pyxrt", MISSING, str(error), remedy)
    else:
        yield Finding("driver pyxrt", GOOD, "importable")


def _nodes() -> Iterator[Finding]:
    nodes = sorted(Path("/dev/dri").glob("renderD*")) if Path("/sys/bus/pci/drivers/xocl").exists() else []
    if not nodes:
        remedy = "for an Alveo card: AMD's XRT package builds the kernel modules xocl and xclmgmt (dkms status)"
        yield Finding("kernel driver xocl", MISSING, "not loaded, or no card is bound to it", remedy)
    for node in nodes:
        if os.access(node, os.R_OK | os.W_OK):
            yield Finding(f"permission for {node}", GOOD, "readable and writable")
        else:
            yield Finding(
                f"permission for {node}", WRONG, "denied", "add the user to the group 'render', and log in again"
            )


def _cards() -> Iterator[Finding]:
    try:
        count = select("xrt").enumerate_devices()
    except FpgaError as error:
        yield Finding("cards that XRT sees", MISSING, str(error).split(";")[0], "see driver xrt")
        return
    if count:
        yield Finding("cards that XRT sees", GOOD, str(count))
    else:
        yield Finding(
            "cards that XRT sees", MISSING, "none", "see kernel driver xocl; without a card: FPGA_DYNAMO_XRT=inproc"
        )


def _server(text: str) -> Finding:
    """A card server, and how long it takes to answer."""
    subject = f"card server {text}"
    try:
        driver: Any = select(parse(text).driver)
        link = driver.link()
        seconds = []
        for _ in range(_ROUND_TRIPS):
            start = time.perf_counter()
            status = driver.status()
            seconds.append(time.perf_counter() - start)
    except FpgaError as error:
        return Finding(subject, WRONG, str(error), "start one there: fpga-dynamo card-server")
    found = (
        f"{link.devices} card(s), {link.description}, round trip {min(seconds) * 1e3:.2f} ms; {status['clients']} "
        f"client(s), {status['bytes']:,} bytes of device memory in use"
    )
    return Finding(subject, GOOD, found)


def _xclbin(path: Path) -> list[Finding]:
    try:
        content = xclbin_build.axlf.read(path)
        target, platform = content.manifest["target"], content.platform
    except (xclbin_build.XclbinError, KeyError) as error:
        return [Finding(str(path), WRONG, str(error), "build it with xclbin-build")]
    runs = "for the emulator" if target in ("emu", "sw_emu", "cycles") else "for a card with this shell"
    return [Finding(str(path), GOOD, f"target {target}, platform {platform}: {runs}")]
