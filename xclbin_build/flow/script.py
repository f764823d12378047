"""build.sh: the calls of Vitis' tools for a machine elsewhere, whose release the script finds out."""

from __future__ import annotations

import shlex

from ..design import Design
from . import commands
from .tools import Release

_HEAD = """\
#!/bin/sh
# Made by xclbin_build; run it in this directory with Vitis' settings64.sh sourced.
set -e
release=$(v++ --version | sed -n 's/.*v\\{0,1\\}\\(20[0-9][0-9]\\.[0-9]\\).*/\\1/p' | head -n 1)
case "$release" in
2022.*|2023.1) unified=no ;;
2026.*) unified=yes; flow=syn.interface.default_axi=1 ;;
*) unified=yes; flow=flow_target=vitis ;;
esac

# Synthesis of one kernel: ./build.sh NAME. Of all, the link and the package: ./build.sh
"""


def build_script(design: Design, target: str) -> str:
    """The text of build.sh."""
    lines = [_HEAD]
    for kernel in commands.kernels_of(design):
        lines += _synthesis(design, target, kernel)
    lines.append('if [ -n "$1" ]; then exit 0; fi')
    lines.append(shlex.join(commands.link(design, target).command))
    xclbin = commands.linked_name(design)
    if target == "hw_emu" and not design.platform.embedded:
        lines.append(shlex.join(commands.emulation_platform(design).command))
    if design.platform.embedded:
        lines += _package(design, target)
        xclbin = commands.PACKAGED
    lines += [
        "# The manifest describes the kernels to fpga_dynamo.",
        f"xclbinutil --force --input {xclbin} --add-section USER_METADATA:RAW:manifest.json --output torch.xclbin",
    ]
    return "\n".join(lines) + "\n"


def _synthesis(design: Design, target: str, kernel: str) -> list[str]:
    classic = shlex.join(commands.classic(design, target, kernel).command)
    own = f"{kernel}.run.cfg"
    calls = [shlex.join(call.command).replace(f"{kernel}.hls.cfg", own) for call in commands.unified(design, kernel)]
    return [
        f'if [ -z "$1" ] || [ "$1" = {kernel} ]; then',
        'if [ "$unified" = yes ]; then',
        f'    {{ cat {kernel}.hls.cfg; echo "$flow"; }} > {own}',
        *(f"    {call}" for call in calls),
        "else",
        f"    {classic}",
        "fi; fi",
    ]


def _package(design: Design, target: str) -> list[str]:
    older = shlex.join(commands.package(design, target, Release(2022, 2)).command)
    newer = shlex.join(commands.package(design, target, Release(2026, 1)).command)
    if older == newer:
        return [older]
    return ['if [ "${release%%.*}" = 2026 ]; then', f"    {newer}", "else", f"    {older}", "fi"]
