"""Configuration files of v++: link.cfg, one for the synthesis of each kernel, and package.cfg."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..design import Design
from ..errors import BuildError
from ..escape import config_value, cpp_comment
from ..peers import Peers
from .tools import Release


def clock_mhz(design: Design) -> float:
    """The clock that kernels are synthesized and linked for."""
    return design.platform.speeds["clock_mhz"]


def link_config(design: Design) -> str:
    """link.cfg: how many compute units of each kernel, which memory bank each argument has, in which SLR they lie, and
    streams between them.

    The clock is `kernel_frequency` for a data-centre card; an embedded platform has fixed clocks, which v++ scales.
    """
    embedded = design.platform.embedded
    frequency = f"kernel_frequency={clock_mhz(design):g}"
    lines = [f"# Made by xclbin_build from recipe '{cpp_comment(design.recipe.name)}': do not edit."]
    lines += ["[clock]", f"defaultFreqHz={round(clock_mhz(design) * 1e6)}"] if embedded else [frequency]
    lines += ["", "[connectivity]"]
    for kernel in design.kernels:
        units = ".".join(unit.name for unit in kernel.compute_units)
        lines.append(f"nk={kernel.name}:{len(kernel.compute_units)}:{units}")
        if kernel.peers > 1:
            lines += Peers.of(kernel, design).connectivity()
        else:
            lines += [
                f"sp={unit.name}.{kernel.arguments[index].argument.name}:{config_value(_bank_range(banks))}"
                for unit in kernel.compute_units
                for index, banks in unit.banks.items()
            ]
        lines += [f"slr={unit.name}:{config_value(unit.slr)}" for unit in kernel.compute_units if unit.slr]
    lines += [f"stream_connect={stream.text}" for stream in design.recipe.streams]
    return "\n".join(lines) + "\n"


def hls_config(
    design: Design, kernel: str, sources: Sequence[str], flags: Sequence[str], release: Release | None
) -> str:
    """The file for `v++ -c --mode hls` and `vitis-run --mode hls` of one kernel.

    release: of Vitis; None where it is not known yet, so that `flow_target` is left to the script that runs it.
    """
    target = [] if release is None else [flow_line(release)]
    return "\n".join([
        f"# Made by xclbin_build from recipe '{cpp_comment(design.recipe.name)}': do not edit.",
        f"part={config_value(design.platform.part)}",
        "",
        "[hls]",
        *target,
        f"clock={clock_mhz(design):g}MHz",
        f"syn.top={kernel}",
        *(f"syn.file={_path(source)}" for source in sources),
        f"syn.cflags={' '.join(_path(flag) for flag in flags)}",
        "package.output.format=xo",
        "package.output.syn=false",
        f"package.output.file={kernel}.xo",
        "",
    ])  # fmt: skip


def flow_line(release: Release) -> str:
    """What makes pointers m_axi ports: newer releases have no flow_target."""
    return "flow_target=vitis" if release.has_flow_target else "syn.interface.default_axi=1"


def package_config(folder: Path | str, linux: Path | None) -> str:
    """package.cfg for the SD card of an embedded board. linux: a folder with rootfs.ext4 and Image; None: no Linux."""
    lines = ["[package]", f"out_dir={_path(str(folder))}", "boot_mode=sd"]
    if linux is None:
        lines.append("no_image=true")
    else:
        lines += [
            "image_format=ext4",
            f"rootfs={_path(str(linux / 'rootfs.ext4'))}",
            f"kernel_image={_path(str(linux / 'Image'))}",
        ]
    return "\n".join(lines) + "\n"


def _path(text: str) -> str:
    """A path or flag in a list that v++ cuts at spaces and ends at the line."""
    if any(c.isspace() or c in "\"';#" for c in text):
        raise BuildError(
            f"{text!r} has a space, a quote, ';' or '#', which a configuration file of v++ cannot contain; move the "
            "folder."
        )
    return text


def _bank_range(banks: Sequence[str]) -> str:
    """Neighbouring banks as v++ spells them: HBM[0:3]."""
    if len(banks) == 1:
        return banks[0]
    return f"{banks[0].removesuffix(']')}:{banks[-1].partition('[')[2]}"
