"""The calls of Vitis' tools for a design, by the release of Vitis: synthesis of each kernel, the link, the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..design import Design, Kernel
from ..generate import user_directories
from ..peers import Peers
from ..toolchain.gxx import INCLUDES
from . import config
from .tools import Release

LINKED, PACKAGED = "linked", "packaged.xclbin"
PACKAGE_FOLDER = "package"
LINK_CONFIG, PACKAGE_CONFIG = "link.cfg", "package.cfg"


@dataclass(frozen=True)
class Call:
    """A call of a tool, in the build directory. reads, writes: files and folders there, by name."""

    name: str
    command: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def kernels_of(design: Design) -> dict[str, list[str]]:
    """The sources of each kernel that is synthesized, in the build directory."""
    found = {kernel.name: _sources_of(kernel) for kernel in design.kernels}
    return found | {name: [f"{name}.cpp"] for name in _barriers(design)}


def flags_of(design: Design, kernel: str, directory: Path | None = None) -> list[str]:
    """Options of the compiler for a kernel's sources. directory: in front of relative folders."""
    own = next((each.flags for each in design.kernels if each.name == kernel), [])
    place = [f"-I{directory / flag.removeprefix('-I')}" if directory else flag for flag in INCLUDES]
    return [*place, *(f"-I{path}" for path in user_directories(design)), *own]


def linked_name(design: Design) -> str:
    """What the link writes: of a Versal, v++ packages an .xsa."""
    return f"{LINKED}.xsa" if design.platform.family == "versal" else f"{LINKED}.xclbin"


def classic(design: Design, target: str, kernel: str) -> Call:
    """Synthesis of a kernel by `v++ -c -k`, which all releases before 2023.2 have."""
    sources = kernels_of(design)[kernel]
    hertz = round(config.clock_mhz(design) * 1e6)
    command = [
        *_common(design, target), "-c", "-k", kernel, "--hls.clock", f"{hertz}:{kernel}", "--temp_dir", f"{kernel}.hls",
        *flags_of(design, kernel), "-o", f"{kernel}.xo", *sources,
    ]  # fmt: skip
    return Call(f"csynth {kernel}", tuple(command), tuple(sources), (f"{kernel}.xo",))


def unified(design: Design, kernel: str) -> list[Call]:
    """Synthesis of a kernel by `v++ -c --mode hls`, and its .xo by vitis-run."""
    sources = kernels_of(design)[kernel]
    file, work = f"{kernel}.hls.cfg", f"{kernel}.hls"
    options = ("--mode", "hls", "--config", file, "--work_dir", work)
    return [
        Call(f"csynth {kernel}", ("v++", "-c", *options), (file, *sources), (work,)),
        Call(
            f"xo {kernel}", ("vitis-run", *options[:2], "--package", *options[2:]), (file, *sources), (f"{kernel}.xo",)
        ),
    ]


def synthesis(design: Design, target: str, release: Release) -> list[Call]:
    """Calls that make the .xo of each kernel."""
    if release.unified:
        return [call for kernel in kernels_of(design) for call in unified(design, kernel)]
    return [classic(design, target, kernel) for kernel in kernels_of(design)]


def link(design: Design, target: str) -> Call:
    objects = [f"{name}.xo" for name in kernels_of(design)]
    output = linked_name(design)
    command = [*_common(design, target), "-l", "--config", LINK_CONFIG, "--temp_dir", "link", "-o", output, *objects]
    return Call("link", tuple(command), (LINK_CONFIG, *objects), (output,))


def package(design: Design, target: str, release: Release | None) -> Call:
    """`v++ -p` of an embedded platform: the files of an SD card, and of a Versal the xclbin.

    release: from 2026.1 on the platform of a Versal's package is the linked .xsa itself (UG1702).
    """
    linked = linked_name(design)
    own = design.platform.family == "versal" and release is not None and not release.has_flow_target
    source = ["v++", "-p", "-t", target, "--platform", linked] if own else [*_common(design, target), "-p", linked]
    command = [*source, "--config", PACKAGE_CONFIG, "-o", PACKAGED]
    return Call("package", tuple(command), (linked, PACKAGE_CONFIG), (PACKAGED, PACKAGE_FOLDER))


def emulation_platform(design: Design) -> Call:
    """emconfig.json, by which XRT's hardware emulation finds its card."""
    command = ("emconfigutil", "--platform", design.platform.xsa, "--od", ".")
    return Call("emconfig", command, (), ("emconfig.json",))


def _common(design: Design, target: str) -> list[str]:
    return ["v++", "-t", target, "--platform", design.platform.xsa]


def _sources_of(kernel: Kernel) -> list[str]:
    return [f"user/{path.name}" for path in kernel.files] or [f"{kernel.name}.cpp"]


def _barriers(design: Design) -> list[str]:
    return [Peers.of(kernel, design).barrier for kernel in design.kernels if kernel.peers > 1]
