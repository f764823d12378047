"""Adds the line of each check for uninitialized reads to the assembly of a kernel.

`python places.py FILE.s` rewrites the file. hls_kernels/lib/uninitialized.cpp looks a check up by its return address.
The section `fpga_places` has the address, the name of the file and the line of each check. Address and name are
relative to the place of the entry. This runs as a program of its own between two calls of clang, so it imports nothing
of this package.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_CALL = re.compile(r"\s+(?:callq?|bl)\s+__msan_(?:warning|chain_origin)(?:@PLT)?\s*(?:#.*|//.*)?$")
_FILE = re.compile(r'\s+\.file\s+(\d+)\s+((?:"(?:[^"\\]|\\.)*"\s*)+)')
_LINE = re.compile(r"\s+\.loc\s+(\d+)\s+(\d+)")
_SECTION = re.compile(r"\s+\.(?:section|text|data|bss)\b")
_GROUP = re.compile(r"\s+\.section\s.*,([^,\s]+),comdat")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def with_places(assembly: str) -> str:
    """The assembly with a table of its checks."""
    lines: list[str] = []
    files: dict[str, str] = {}
    table: dict[str, list[tuple[int, str, str]]] = {}
    file, line, group, count = "0", "0", "", 0
    for text in assembly.splitlines():
        lines.append(text)
        if match := _LINE.match(text):
            file, line = match[1], match[2]
        elif match := _FILE.match(text):
            files[match[1]] = _QUOTED.findall(match[2])[:2][-1]
        elif _SECTION.match(text):
            found = _GROUP.match(text)
            group = found[1] if found else ""
        elif _CALL.match(text):
            lines.append(f".Lfpga_place_{count}:")
            if line != "0":  # what the optimizer has made of several lines has none
                table.setdefault(group, []).append((count, file, line))
            count += 1
    for group, places in table.items():
        # An entry goes where its code goes: of an inline function the linker keeps one.
        flags = f'"aG",@progbits,{group},comdat' if group else '"a",@progbits'
        lines += [f"\t.section\tfpga_places,{flags}", "\t.p2align\t2"]
        for number, own, at in places:
            if own in files:
                lines += [f"\t.long\t.Lfpga_place_{number}-.", f"\t.long\t.Lfpga_file_{own}-.", f"\t.long\t{at}"]
    for own, name in files.items():
        lines += ['\t.section\t.rodata.fpga_files,"a",@progbits', f".Lfpga_file_{own}:", f'\t.asciz\t"{name}"']
    return "\n".join(lines) + "\n"


def main(path: str) -> None:
    assembly = Path(path)
    # Names of files are bytes.
    text = assembly.read_text(encoding="utf-8", errors="surrogateescape")
    assembly.write_text(with_places(text), encoding="utf-8", errors="surrogateescape")


if __name__ == "__main__":
    main(sys.argv[1])
