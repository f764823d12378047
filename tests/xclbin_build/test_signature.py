"""Arguments of plain kernels: what is read from a signature, and that the compiler and the kernel see the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import xclbin_build
from fpga_dynamo.runtime.drivers import emulated as pyxrt
from tests.xclbin_build.signatures import ELEMENTS, PREAMBLE, SCALARS, TYPES_HEADER, Meaning, closing, signatures
from xclbin_build import RecipeError, ToolchainError
from xclbin_build.signature import Argument, parse_kernel

BUFFER = 256
LONG = 0x0123_4567_89AB_CDEF
VERDICT = (["uint32_t", "*", "verdict"], Meaning("verdict", "global", "uint32_t", 8))

in_tmp_path = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def parsed(directory: Path, code: str, kernel: str = "k") -> list[Argument]:
    (directory / "k.cpp").write_text(code)
    return parse_kernel(directory / "k.cpp", kernel)


def same(type_: str) -> str:
    return type_.replace(" ", "").removeprefix("::")


@settings(in_tmp_path, max_examples=300)
@given(signatures())
def test_what_a_signature_means(tmp_path: Path, signature: tuple[str, list[Meaning]]) -> None:
    head, meanings = signature
    (tmp_path / "types.hpp").write_text(TYPES_HEADER)
    found = parsed(tmp_path, f"{PREAMBLE}{head} {{ for (;;) {{ }} }}{closing(head)}", "kernel")
    assert [(a.name, a.kind, a.bytes, a.const) for a in found] == [(m.name, m.kind, m.bytes, m.const) for m in meanings]
    resolved = {"count_t": "unsignedint", "wide_t": "longlong", "WORD": "unsignedint"}
    for argument, meaning in zip(found, meanings, strict=True):
        wanted = same(meaning.type)
        assert same(argument.type) in (wanted, resolved.get(wanted))


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("hls::stream<float> s", "must be a reference to a stream"),
        ("hls::stream<ap_axiu<32, 0, 0, 0>> s", "must be a reference to a stream"),
        ("long double& n", "is a reference to what no register holds; pass a pointer"),
        ("const float (&x)[16]", "is a reference to what no register holds; pass a pointer"),
        ("float** rows", "pass a pointer to the data, and offsets"),
        ("float* rows[4]", "pass a pointer to the data, and offsets"),
        ("row_t* rows[4]", "pass a pointer to the data, and offsets"),
        ("void* data", "give the type of the elements"),
        ("void (*call)(int)", "is a function"),
        ("int call(int)", "is a function"),
        ("long double x", "has more than 64 bits; pass it by a pointer"),
        ("unsigned __int128 x", "has more than 64 bits; pass it by a pointer"),
        ("ap_uint<512> x", "a width given as a number of at most 64 bits"),
        ("ap_int<WIDTH> x", "a width given as a number of at most 64 bits"),
        ("std::complex<float> z", "pass a structure by a pointer, or its members one by one"),
        ("struct point p", "pass a structure by a pointer, or its members one by one"),
        ("PARAMETER(float, x)", "uses the macro PARAMETER(...), and macros are not expanded here"),
        ("const float*", "needs a type and a name"),
        ("ns::width", "needs a type and a name"),
        ("...", "needs a type and a name"),
    ],
)
def test_what_no_host_can_hand_over_is_refused_rightly(tmp_path: Path, parameter: str, words: str) -> None:
    before = "typedef float row_t[8];\n#define PARAMETER(t, n) t n\nstruct point { float x, y; };\n"
    with pytest.raises(RecipeError, match="kernel 'k'") as error:
        parsed(tmp_path, f'{before}extern "C" void k(const int* first, {parameter}) {{}}')
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("void k(int n) {}", "its k lacks 'extern \"C\"'"),
        (
            'extern "C" int k(int n) { return n; }',
            "it returns 'int', and a kernel returns void and writes through pointers",
        ),
        ('extern "C" void k(int n);', "it only declares the function"),
        ('#if 0\nextern "C" void k(int n) {}\n#endif', "does not define 'extern \"C\" void k(...)'."),
        ('#ifdef OTHER\nextern "C" void k(int n) {}\n#endif', "does not define 'extern \"C\" void k(...)'."),
        ('namespace n { extern "C" void k(int n) {} }', "does not define 'extern \"C\" void k(...)'."),
        ('// extern "C" void k(int n) {}\nconst char* s = R"(extern "C" void k(int n) {})";', "does not define"),
        ("template <class T> void k(T n) {}", "it only declares the function"),
    ],
)
def test_a_source_without_the_kernel_says_what_it_lacks(tmp_path: Path, code: str, words: str) -> None:
    with pytest.raises(RecipeError, match="does not define") as error:
        parsed(tmp_path, code)
    assert words in str(error.value)


def test_the_branch_that_the_compiler_takes_counts(tmp_path: Path) -> None:
    code = '#define WIDE 1\n#if defined(WIDE)\nextern "C" void k(long n)\n#else\nextern "C" void k(int n)\n#endif\n{}'
    assert parsed(tmp_path, code) == [Argument("n", "scalar", "long", 8)]
    assert parsed(tmp_path, code.replace("#define WIDE 1", "")) == [Argument("n", "scalar", "int", 4)]


@pytest.mark.parametrize("head", ["\ufeff", "\r\n", '#define EXTERN extern \\\r\n "C"\r\n'])
def test_sources_of_other_systems_are_read(tmp_path: Path, head: str) -> None:
    linkage = "EXTERN" if "EXTERN" in head else 'extern "C"'
    code = f"{head}#include <cstdint>\r\n{linkage} void k(const int* x, // of\r\n int64_t n) {{\r\n}}\r\n"
    (tmp_path / "k.cpp").write_bytes(code.encode())
    assert [(a.name, a.kind, a.bytes) for a in parse_kernel(tmp_path / "k.cpp", "k")] == [
        ("x", "global", 8), ("n", "scalar", 8),
    ]  # fmt: skip


# --- what arrives -----------------------------------------------------------------------------------------------------


def source_of(head: str, meanings: list[Meaning]) -> str:
    """A kernel that sets a bit of `verdict` for each argument that arrives as `values` gives it."""
    lines = ["uint32_t right = 0;"]
    for i, (meaning, value) in enumerate(zip(meanings[1:], values(meanings), strict=True)):
        wanted = ", ".join(map(str, image(value, meaning)[:16]))
        lines.append(f"{{ const unsigned char wanted[] = {{{wanted}}};")
        if meaning.kind == "scalar":
            # By its address: of a volatile argument of a class there is no copy.
            lines.append(f"  right |= uint32_t(!std::memcmp((const void*)&{meaning.name}, wanted, {meaning.bytes})")
            lines.append(f"  && sizeof {meaning.name} == {meaning.bytes}) << {i}; }}")
        else:
            lines.append(f"  right |= uint32_t(!std::memcmp((const void*){meaning.name}, wanted, 16)) << {i}; }}")
            if not meaning.const:
                lines.append(f"((unsigned char*){meaning.name})[{BUFFER - 1}] = {i + 1};")
    body = "\n    ".join([*lines, "verdict[0] = right;"])
    return f"{PREAMBLE}{head} {{\n    {body}\n}}{closing(head)}"


def values(meanings: list[Meaning]) -> list[Any]:
    """What the host passes, behind the verdict: bytes of a buffer, a float or an int."""
    given: list[Any] = []
    for i, meaning in enumerate(meanings[1:]):
        if meaning.kind == "global":
            given.append(bytes((7 * i + 3 * j + 1) % 251 for j in range(BUFFER - 1)) + b"\xff")
        elif meaning.type in ("float", "double"):
            given.append(i - 0.375)
        else:
            only_one = meaning.type in ("bool", "mode", "enum mode")
            given.append(1 if only_one else (LONG + i) % (1 << 8 * meaning.bytes - 1))
    return given


def image(value: Any, meaning: Meaning) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, float):
        return np.array(value, np.float32 if meaning.bytes == 4 else np.float64).tobytes()
    return int(value).to_bytes(meaning.bytes, "little")


def check_on_the_software_card(directory: Path, kernels: dict[str, tuple[str, list[Meaning]]]) -> None:
    """Builds the kernels, starts each with buffers and values, and asks them what arrived."""
    (directory / "types.hpp").write_text(TYPES_HEADER)
    recipe = ""
    for name, (head, meanings) in kernels.items():
        (directory / f"{name}.cpp").write_text(source_of(head, meanings))
        recipe += f'[kernel.{name}]\nsource = "{name}.cpp"\n'
    (directory / "signatures.toml").write_text(recipe)
    device = pyxrt.device(0)
    path = xclbin_build.build("emu", directory / "signatures.toml", output=directory / "signatures.xclbin")
    uuid = device.load_xclbin(str(path))
    into, back = pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE
    for name, (_, meanings) in kernels.items():
        kernel = pyxrt.kernel(device, uuid, name)
        given = [b"\xff" * BUFFER, *values(meanings)]
        for i, value in enumerate(given):
            if isinstance(value, bytes):
                given[i] = pyxrt.bo(device, BUFFER, pyxrt.bo.flags.normal, kernel.group_id(i))
                given[i].write(value, 0)
                given[i].sync(into, BUFFER, 0)
        assert kernel(*given).wait(1000) == pyxrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED
        for i, (value, meaning) in enumerate(zip(given, meanings, strict=True)):
            if meaning.kind == "global":
                value.sync(back, BUFFER, 0)
                last = bytes(value.read(BUFFER, 0))[-1]
                assert last == (0xFF if meaning.const or i == 0 else i), meaning
        verdict = int(np.frombuffer(given[0].read(4, 0), np.uint32)[0])
        wrong = [meaning for i, meaning in enumerate(meanings[1:]) if not verdict >> i & 1]
        assert not wrong and verdict < 1 << len(meanings), (name, wrong)


def test_every_type_arrives(tmp_path: Path) -> None:
    scalars = [Meaning(f"a{i}", "scalar", type_, size) for i, (type_, size) in enumerate(SCALARS.items())]
    pointers = [Meaning(f"p{i}", "global", type_, 8) for i, type_ in enumerate(ELEMENTS)]
    kernels = {}
    groups = {"few": scalars[:16], "some": scalars[16:32], "more": scalars[32:], "pointers": pointers}
    for name, group in groups.items():
        inner = ", ".join(f"{m.type}{'*' if m.kind == 'global' else ''} {m.name}" for m in group)
        kernels[name] = (f'extern "C" void {name}(uint32_t* verdict, {inner})', [VERDICT[1], *group])
    classes = [meaning for meaning in scalars if "<" in meaning.type][:16]
    inner = ", ".join(f"volatile {m.type} {m.name}" for m in classes)
    kernels["changing"] = (f'extern "C" void changing(uint32_t* verdict, {inner})', [VERDICT[1], *classes])
    check_on_the_software_card(tmp_path, kernels)


@settings(in_tmp_path, max_examples=3, phases=[Phase.generate])
@given(st.tuples(*(signatures(f"k{i}", (VERDICT,)) for i in range(6))))
def test_what_is_passed_arrives(tmp_path: Path, drawn: tuple[tuple[str, list[Meaning]], ...]) -> None:
    check_on_the_software_card(tmp_path, {f"k{i}": signature for i, signature in enumerate(drawn)})


def test_a_type_that_is_another_to_the_compiler_ends_the_build_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(
        "#include <cstdint>\n#if UINTPTR_MAX < 5\ntypedef int number;\n#else\ntypedef long number;\n#endif\n"
        'extern "C" void k(uint32_t* out, number n) { out[0] = n; }'
    )
    (tmp_path / "k.toml").write_text('[kernel.k]\nsource = "k.cpp"\n')
    with pytest.raises(ToolchainError, match=r"argument n of kernel k is no value of 4 byte\(s\) for the compiler"):
        xclbin_build.build("emu", tmp_path / "k.toml", output=tmp_path / "k.xclbin")
