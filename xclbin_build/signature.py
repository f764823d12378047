"""Reads the arguments of a plain kernel from its `extern "C"` definition, and lays out the register map.

Vitis HLS gives each argument of an `s_axilite` interface its value (8 bytes for a pointer or a 64-bit scalar, 4 for
anything shorter) and 4 bytes of control behind it, from CU_ARGUMENTS = 0x10 on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from . import cpp_source
from .declaration import (
    Declarator,
    Prototype,
    Statement,
    aliases,
    declarator,
    enumerations,
    function,
    statements,
)
from .errors import RecipeError

FIRST_ARGUMENT = 0x10
BEHIND_MAILBOX = 0x20
"""Where arguments begin if XRT's registers of a mailbox and of a counter of restarts lie in front of them."""
MAX_ARGUMENTS = 32  # cu_call::scratch of card_abi.hpp keeps one word for each

# C's words for integers, in any order, without `signed` and an `int` that is not alone -> bytes.
_INTEGERS = {
    ("char",): 1, ("char", "unsigned"): 1, ("short",): 2, ("short", "unsigned"): 2, (): 4, ("unsigned",): 4,
    ("long",): 8, ("long", "unsigned"): 8, ("long", "long"): 8, ("long", "long", "unsigned"): 8,
}  # fmt: skip
_INTEGER_WORDS = {"signed", "unsigned", "char", "short", "int", "long"}

# Names of scalar types, of C and of the HLS headers -> bytes, on 64-bit Linux.
_SCALARS = {
    "bool": 1, "_Bool": 1, "float": 4, "double": 8, "half": 2, "_Float16": 2,
    "char8_t": 1, "char16_t": 2, "char32_t": 4, "wchar_t": 4,
    "size_t": 8, "ssize_t": 8, "ptrdiff_t": 8, "intptr_t": 8, "uintptr_t": 8, "intmax_t": 8, "uintmax_t": 8,
    "ushort": 2, "uint": 4, "ulong": 8,
    **{f"{sign}int{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"{sign}int_least{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"{sign}int_fast{bits}_t": 1 if bits == 8 else 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_NUMBERS_OF_BITS = ("ap_int", "ap_uint", "ap_fixed", "ap_ufixed")
_BURSTS = "burst_maxi"  # an m_axi port whose bursts the kernel asks for itself
_STREAMS = ("stream", "stream_of_blocks", "task")

_TOO_WIDE = (["long", "double"], ["__int128"], ["unsigned", "__int128"])
MAX_VALUE_BYTES = 64  # of a structure; what the emulator's register maps take

_SCALAR_TYPES = "integers, floating-point numbers, bool, enumerations and ap_int of up to 64 bits"


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel: a pointer to device memory (kind "global"), a value ("scalar"), or a stream to or from
    another kernel ("stream"), which has no registers.

    same_as: the argument whose buffer it is to be given, too; a kernel's ports each have their own.
    output: a scalar that the kernel writes (`int& result`); the host reads its register.
    """

    name: str
    kind: str
    type: str  # as C spells it: of the pointed-to element, or of the scalar
    bytes: int
    const: bool = False
    same_as: str = ""
    burst: bool = False  # hls::burst_maxi<type> instead of a pointer
    output: bool = False


def register_offsets(arguments: Sequence[Argument], first: int = FIRST_ARGUMENT) -> list[int]:
    """Offset of each argument in the CU's register map, in bytes; `first`: of the first of them."""
    offsets = []
    offset = first
    for argument in arguments:
        offsets.append(offset)
        if argument.kind != "stream":
            offset += register_bytes(argument) + 4
    return offsets


def register_bytes(argument: Argument) -> int:
    """Bytes that an argument's value takes in the register map: whole registers of 32 bits."""
    return max(4, -(-argument.bytes // 4) * 4)


def parse_kernel(
    source: Path,
    kernel: str,
    include: Sequence[Path] = (),
    define: Sequence[str] = (),
    value_bytes: Callable[[int], int] = lambda number: 0,
) -> list[Argument]:
    """Arguments of `extern "C" void KERNEL(...)` as the file `source` defines it.

    include: folders of headers besides its own. define: macros, `NAME` or `NAME=VALUE`. value_bytes: the bytes of the
    argument of that number, which is passed by value and whose type is not one of C; 0: unknown.

    Raises RecipeError when there is no such definition, or an argument is nothing that a host can hand to a kernel: it
    is neither the address of data nor a value of up to 64 bits.
    """
    try:
        text = cpp_source.read(source, include, define)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"kernel '{kernel}': source {source} cannot be read: {error}.") from error
    found = list(statements(text.tokens))
    definition = _definition(found, source, kernel)
    types = _Types(aliases(found), enumerations(found))
    arguments = [
        _argument(
            tokens,
            types,
            text.functions,
            f"kernel '{kernel}': argument '{_text_of(tokens)}' in {source}",
            functools.partial(value_bytes, number),
        )
        for number, tokens in enumerate(definition.parameters)
    ]
    if len(arguments) > MAX_ARGUMENTS:
        raise RecipeError(f"kernel '{kernel}': {len(arguments)} arguments; at most {MAX_ARGUMENTS} are possible.")
    names = [argument.name for argument in arguments]
    if len(set(names)) != len(names):
        raise RecipeError(f"kernel '{kernel}': two arguments in {source} have the same name.")
    return arguments


def _definition(found: Sequence[Statement], source: Path, kernel: str) -> Prototype:
    functions = [known for statement in found if (known := function(statement, kernel)) is not None]
    linked = any(known.c_linkage for known in functions)  # a declaration in a header is enough
    definitions = [known for known in functions if known.defined and "template" not in known.result]
    chosen = next((known for known in definitions if known.c_linkage), next(iter(definitions), None))
    why = ""
    if chosen is None:
        why = ": it only declares the function" if functions else ""
    elif not linked:
        why = f": its {kernel} lacks 'extern \"C\"'"
    elif [word for word in chosen.result if word != "static"] != ["void"]:
        why = f": it returns '{_text_of(chosen.result)}', and a kernel returns void and writes through pointers"
    else:
        return chosen
    raise RecipeError(f"kernel '{kernel}': {source} does not define 'extern \"C\" void {kernel}(...)'{why}.")


@dataclass(frozen=True)
class _Types:
    """Types that a source gives names to."""

    aliases: Mapping[str, Declarator]
    enumerations: Mapping[str, tuple[str, ...]]

    def resolve(self, what: Declarator) -> Declarator:
        """`what` with aliases replaced by what they stand for."""
        for _ in range(len(self.aliases)):
            name = _unqualified(what.base)
            if len(name) != 1 or name[0] not in self.aliases:
                break
            what = what.of(self.aliases[name[0]])
        return what

    def scalar_bytes(self, base: Sequence[str]) -> int:
        """Bytes of a value of the type, 0 if a kernel does not support it."""
        words = _unqualified(base)
        if words[:1] == ["enum"]:
            words = words[1:]
        if words and set(words) <= _INTEGER_WORDS:
            rest = sorted(word for word in words if word not in ("int", "signed"))
            return _INTEGERS.get(tuple(rest), 0)
        if len(words) == 1 and words[0] in self.enumerations:
            under = self.enumerations[words[0]]
            return self.scalar_bytes(self.resolve(Declarator(under)).base) if under else 4
        if len(words) == 1:
            return _SCALARS.get(words[0], 0)
        if words[:1] and words[0] in _NUMBERS_OF_BITS and len(words) > 3 and words[2].isdigit():
            bits = int(words[2])
            return next((size for size in (1, 2, 4, 8) if bits <= 8 * size), 0)
        return 0


def _argument(
    tokens: Sequence[str], types: _Types, macros: set[str], where: str, value_bytes: Callable[[], int]
) -> Argument:
    called = [a for a, b in pairwise(tokens) if a in macros and b == "("]
    if called:
        raise RecipeError(f"{where} uses the macro {called[0]}(...), and macros are not expanded here; write it out.")
    given = declarator(tokens)
    what = types.resolve(given)
    if not given.base or not given.name:
        raise RecipeError(f"{where} needs a type and a name.")
    words = _unqualified(what.base)
    if what.is_pointer and words not in (["void"], ["auto"]) and words[:1] != [_BURSTS] and not _is_stream(words):
        element = given.base if given.is_pointer else what.base
        return Argument(given.name, "global", _text_of(element), 8, what.const)
    if what.is_value and words[:2] == [_BURSTS, "<"] and words[-1] == ">":
        return Argument(given.name, "global", _text_of(words[2:-1]), 8, burst=True)
    bare = not what.stars and not what.extents
    if what.reference and bare and words[:2] == ["stream", "<"]:
        return Argument(given.name, "stream", _text_of(what.base), 0)
    output = what.reference and not what.const and bare
    by_value = what.is_value or (what.reference and bare)
    size = types.scalar_bytes(what.base) if by_value else 0
    if by_value and not size and words[0] not in (*_NUMBERS_OF_BITS, *_STREAMS, _BURSTS) and words not in _TOO_WIDE:
        size = value_bytes()  # a structure's
    if 0 < size <= MAX_VALUE_BYTES:
        return Argument(given.name, "scalar", _text_of(what.base), size, output=output)
    raise RecipeError(f"{where} {_why_not(what, words)}")


def _why_not(what: Declarator, words: Sequence[str]) -> str:
    """Why a host cannot hand over such an argument, and what to write instead; continues a sentence."""
    if _is_stream(words):
        return "must be a reference to a stream, such as hls::stream<T>& name, to lead to another kernel."
    if what.function:
        return "is a function, which is not supported; pass a number that selects the function."
    if what.reference:
        return "is a reference to what no register holds; pass a pointer to data in device memory."
    if what.stars + bool(what.extents) > 1:
        return "is neither a pointer to data nor a scalar: a host cannot write addresses into device memory; pass a "\
            "pointer to the data, and offsets into it as numbers."  # fmt: skip
    if words[:1] == [_BURSTS]:
        return "is not passed by value; write hls::burst_maxi<T> without a pointer or an extent."
    if what.stars or what.extents:
        return "does not say what it points to; give the type of the elements."
    if words[:1] and words[0] in _NUMBERS_OF_BITS:
        return "must have a width given as a number of at most 64 bits; pass wider values by a pointer."
    if words in _TOO_WIDE:
        return "has more than 64 bits; pass it by a pointer."
    return (
        f"is neither a pointer to data nor a scalar of a known type ({_SCALAR_TYPES}); pass a structure by a pointer, "
        "or its members one by one."
    )


def _is_stream(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[0] in _STREAMS and words[1] == "<"


def _unqualified(tokens: Sequence[str]) -> list[str]:
    """A type's tokens without the namespaces in front of its name."""
    words = list(tokens)
    while "::" in words and "<" not in words[: words.index("::")]:
        words = words[words.index("::") + 1 :]
    return words


def _text_of(tokens: Sequence[str]) -> str:
    """Tokens as one would write them."""
    text = ""
    for before, token in zip(("", *tokens), tokens, strict=False):
        between = before and before[-1] not in "(<[:" and token[0] not in ")>],:([<*&"
        text += (" " if between else "") + token
    return text.removeprefix("::")
