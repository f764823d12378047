"""Signatures of plain kernels, drawn at random with what they mean; and sources that check what arrives in them."""

from __future__ import annotations

import string
from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Meaning:
    """What one argument is: `type` as C++ without qualifiers, its bytes, and whether what it points to is constant."""

    name: str
    kind: str
    type: str
    bytes: int
    const: bool = False


# Every spelling of a type that a card can be given as a value -> its bytes.
SCALARS = {
    "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "int8_t": 1, "std::uint8_t": 1,
    "short": 2, "short int": 2, "int signed short": 2, "unsigned short int": 2, "uint16_t": 2, "_Float16": 2,
    "int": 4, "signed": 4, "unsigned": 4, "int unsigned": 4, "::std::int32_t": 4, "float": 4, "char32_t": 4, "mode": 4,
    "enum mode": 4, "count_t": 4, "ap_uint<24>": 4, "ap_int<32>": 4, "WORD": 4,
    "long": 8, "long int": 8, "unsigned long int": 8, "long long int": 8, "int long unsigned long": 8, "double": 8,
    "std::size_t": 8, "uint64_t": 8, "intptr_t": 8, "ap_uint<64>": 8, "wide_t": 8, "std::ptrdiff_t": 8,
}  # fmt: skip

# Types of elements that only compile where their headers are, or that need the preamble.
ELEMENTS = [
    "float", "unsigned char", "long long int", "std::complex<float>", "hls::vector<float, 16>", "std::pair<int, float>",
    "struct point", "point", "ap_uint<512>", "std::array<std::array<short, 2>, (3 > 2) ? 4 : 1>", "count_t", "mode",
]  # fmt: skip

# What the types above are; a stand-in for ap_int.h, of which Vitis has the real one.
PREAMBLE = """\
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include "types.hpp"
/* extern "C" void kernel(int not_this_one) { */
const char* const TEXT = "extern \\"C\\" void kernel(long nor_this) {";
enum mode { FAST, EXACT };
"""
TYPES_HEADER = """\
#ifndef TYPES_HPP
#define TYPES_HPP
#define WORD unsigned \\
    int
#define DEPTH 16
typedef unsigned int count_t;
using wide_t = long long;
struct point { float x, y; };
template <int W> struct bits_of { using type = uint64_t; };
template <> struct bits_of<24> { using type = uint32_t; };
template <> struct bits_of<32> { using type = uint32_t; };
template <int W> struct ap_uint { typename bits_of<W>::type value; };
template <> struct ap_uint<512> { uint64_t value[8]; };
template <int W> struct ap_int : ap_uint<W> {};
namespace hls {
template <class T, size_t N> struct alignas(sizeof(T) * N) vector { T lanes[N]; };
}
#endif
"""

_gaps = st.sampled_from([" ", " ", " ", "\n    ", " /* , int a */ ", " // ) {\n", "\t", " \\\n"])


@st.composite
def _spaced(draw: st.DrawFn, words: list[str]) -> str:
    """Tokens with blanks, comments and line breaks between them."""
    return "".join(draw(_gaps) + word for word in words)


def _words(type_: str) -> list[str]:
    """Pieces of a type between which blanks may stand."""
    for mark in "<>,()?":
        type_ = type_.replace(mark, f" {mark} ")
    return type_.replace("::", " :: ").split()


@st.composite
def parameters(draw: st.DrawFn, name: str) -> tuple[list[str], Meaning]:
    """A parameter's tokens and its meaning."""
    attribute = draw(st.sampled_from([[], [], ["[[maybe_unused]]"]]))
    if draw(st.booleans()):
        type_ = draw(st.sampled_from(sorted(SCALARS)))
        words = [*attribute, *draw(st.sampled_from([[], ["const"], ["volatile"]])), *_words(type_)]
        if draw(st.integers(0, 5)) == 0 and "_" not in type_ and type_ not in ("mode", "enum mode"):
            return [*words, "(", name, ")"], Meaning(name, "scalar", type_, SCALARS[type_])
        return [*words, name], Meaning(name, "scalar", type_, SCALARS[type_])
    type_ = draw(st.sampled_from(ELEMENTS))
    const = draw(st.booleans())
    words = ["const", *_words(type_)] if draw(st.booleans()) else [*_words(type_), "const"]
    if not const:
        words.remove("const")
    meaning = Meaning(name, "global", type_, 8, const)
    form = draw(st.sampled_from(["pointer", "pointer", "array", "rows", "pointer to rows"]))
    if form == "pointer":
        qualifiers = draw(st.sampled_from([[], ["const"], ["__restrict__"], ["__restrict", "const"], ["volatile"]]))
        return [*attribute, *words, "*", *qualifiers, name], meaning
    if form == "array":
        extent = draw(st.sampled_from(["", "8", "DEPTH", "DEPTH < 3 ? 1 : 2"]))
        return [*attribute, *words, name, "[", extent, "]"], meaning
    if form == "rows":
        return [*attribute, *words, name, "[", "2", "]", "[", "DEPTH", "]"], meaning
    return [*attribute, *words, "(", "*", name, ")", "[", "DEPTH", "]"], meaning


@st.composite
def signatures(
    draw: st.DrawFn, kernel: str = "kernel", first: tuple[tuple[list[str], Meaning], ...] = ()
) -> tuple[str, list[Meaning]]:
    """The head of a kernel's definition, up to its parameters' closing bracket, and the meanings of its arguments.

    first: parameters before those that are drawn.
    """
    count = draw(st.integers(0, 6))
    pairs = [*first, *(draw(parameters(f"{letter}_{kernel}")) for letter in string.ascii_lowercase[:count])]
    inner = draw(st.sampled_from([[], ["void"]])) if not pairs else []
    defaults = draw(st.booleans())
    for i, (words, meaning) in enumerate(pairs):
        inner += [*([","] if i else []), *words]
        if defaults and i >= len(first):
            inner += ["=", draw(st.sampled_from(_defaults(meaning)))]
    attribute = draw(st.sampled_from([[], ["__attribute__((noinline))"]]))
    head = ["void", *attribute, kernel, "(", *inner, ")"]
    form = draw(st.sampled_from(["single", "block", "declared"]))
    if form == "single":
        return draw(_spaced(['extern "C"', *head])), [meaning for _, meaning in pairs]
    plain = draw(_spaced(head))
    if form == "block":
        return f'#ifdef __cplusplus\nextern "C" {{\n#endif\n{plain}', [meaning for _, meaning in pairs]
    without = [word for words, _ in pairs for word in (*words, ",")][:-1]
    declared = " ".join(["void", kernel, "(", *without, ")"])
    return f'extern "C" {{ {declared}; }}\n{plain}', [meaning for _, meaning in pairs]


def closing(head: str) -> str:
    """What ends the block that a signature is in."""
    return "\n#ifdef __cplusplus\n}\n#endif\n" if head.startswith("#ifdef __cplusplus") else "\n"


def _defaults(meaning: Meaning) -> list[str]:
    """Default arguments that compile; some look as if they went on behind their comma."""
    if meaning.kind == "global":
        return ["nullptr", "0"]
    if meaning.type.startswith("ap_"):
        return ["{ }"]
    if "mode" in meaning.type:
        return ["EXACT"]
    templates = ["std::pair<char, int>{1, 2}.first", "std::tuple_size<std::array<int, 3>>::value"]
    return ["1", "(1, 2)", "DEPTH < 3", "2 > 1", *templates]
