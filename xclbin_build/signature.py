"""Reads the arguments of a plain kernel from its `extern "C"` definition, and lays out the register map.

Vitis HLS gives each argument of an `s_axilite` interface its value (8 bytes for a pointer or a 64-bit scalar, 4 for
anything shorter) and 4 bytes of control behind it, from CU_ARGUMENTS = 0x10 on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import RecipeError

FIRST_ARGUMENT = 0x10
MAX_ARGUMENTS = 32  # cu_call::scratch of card_abi.hpp keeps one word for each

# C spelling of a scalar -> bytes in the register map.
SCALARS = {
    "bool": 1, "char": 1, "int8_t": 1, "uint8_t": 1, "unsigned char": 1, "signed char": 1,
    "short": 2, "int16_t": 2, "uint16_t": 2, "unsigned short": 2,
    "int": 4, "unsigned": 4, "unsigned int": 4, "int32_t": 4, "uint32_t": 4, "float": 4,
    "long": 8, "unsigned long": 8, "long long": 8, "unsigned long long": 8, "size_t": 8, "int64_t": 8, "uint64_t": 8,
    "double": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel: a pointer to device memory (kind "global") or a value (kind "scalar")."""

    name: str
    kind: str
    type: str  # as C spells it: of the pointed-to element, or of the scalar
    bytes: int
    const: bool = False


def register_offsets(arguments: Sequence[Argument]) -> list[int]:
    """Offset of each argument in the CU's register map, in bytes."""
    offsets = []
    offset = FIRST_ARGUMENT
    for argument in arguments:
        offsets.append(offset)
        offset += (8 if argument.bytes == 8 else 4) + 4
    return offsets


def parse_kernel(source: Path, kernel: str) -> list[Argument]:
    """Arguments of `extern "C" void KERNEL(...)` as the file `source` defines it.

    Raises RecipeError when there is no such definition or an argument is neither a pointer nor a scalar of up to 64
    bits.
    """
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"kernel '{kernel}': source {source} cannot be read: {error}.") from error
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", " ", text)
    match = re.search(rf"\bvoid\s+{re.escape(kernel)}\s*\(([^)]*)\)\s*\{{", text)
    if not match or not re.search(r'extern\s+"C"', text[: match.start(1)]):
        raise RecipeError(f"kernel '{kernel}': {source} does not define 'extern \"C\" void {kernel}(...)'.")
    parts = [" ".join(part.split()) for part in match[1].split(",")]
    if parts in ([""], ["void"]):
        return []
    arguments = [_argument(part, kernel, source) for part in parts]
    if len(arguments) > MAX_ARGUMENTS:
        raise RecipeError(f"kernel '{kernel}': {len(arguments)} arguments; at most {MAX_ARGUMENTS} are possible.")
    names = [argument.name for argument in arguments]
    if len(set(names)) != len(names):
        raise RecipeError(f"kernel '{kernel}': two arguments in {source} have the same name.")
    return arguments


def _argument(text: str, kernel: str, source: Path) -> Argument:
    match = re.fullmatch(r"(?P<type>.*?[\s*])(?P<name>\w+)\s*(?P<array>(?:\[\s*\w*\s*\])?)", text)
    if not match:
        raise RecipeError(f"kernel '{kernel}': argument '{text}' in {source} needs a type and a name.")
    spelled = match["type"].replace("__restrict__", " ").replace("__restrict", " ").replace("restrict", " ")
    stars = spelled.count("*") + bool(match["array"])
    words = spelled.replace("*", " ").replace("std::", "").split()
    base = " ".join(word for word in words if word not in ("const", "volatile"))
    const = "const" in words
    if stars == 1 and base:
        return Argument(match["name"], "global", base, 8, const)
    if stars == 0 and base in SCALARS:
        return Argument(match["name"], "scalar", base, SCALARS[base])
    raise RecipeError(
        f"kernel '{kernel}': argument '{text}' in {source} is neither a pointer to data nor a scalar of up to 64 bits."
    )
