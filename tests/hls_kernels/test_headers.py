"""What stands in for AMD's headers of numbers, as g++ compiles it, beside Python's integers and fractions."""

import math
import random
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from hls_kernels import STAND_INS
from tests.hls_kernels.bench_kit import SANITIZERS
from tests.marks import EXTENDED
from xclbin_build.toolchain.gxx import find_compiler

PAIRS = [
    (1, 0, 1, 1), (7, 1, 8, 0), (8, 1, 8, 1), (16, 0, 31, 1), (32, 1, 33, 0), (63, 1, 64, 1), (64, 0, 64, 0),
    (65, 1, 5, 0), (5, 1, 65, 1), (100, 0, 40, 1), (128, 1, 128, 0), (200, 1, 130, 1), (512, 0, 37, 1),
]  # fmt: skip
"""Width and sign of the first integer, and of the second."""
SOURCE = r"""
#define N 64  // as kernels have in front of their includes
#define W 8
#define T 3
#define DEPTH 2
#include <ap_int.h>
#include <iostream>
#include <string>

template <int A, bool SA> using number = std::conditional_t<SA, ap_int<A>, ap_uint<A>>;

template <int A, bool SA, int B, bool SB>
void operate(const std::string& first, const std::string& second, int n) {
    const number<A, SA> a(first.c_str());
    const number<B, SB> b(second.c_str());
    std::cout << (a + b) << ' ' << (a - b) << ' ' << (a * b) << ' ';
    std::cout << (a & b) << ' ' << (a | b) << ' ' << (a ^ b) << ' ';
    if (b == 0) std::cout << "- - "; else std::cout << (a / b) << ' ' << (a % b) << ' ';
    std::cout << (a < b) << (a <= b) << (a > b) << (a >= b) << (a == b) << (a != b) << ' ';
    std::cout << (a << n) << ' ' << (a >> n) << ' ' << -a << ' ' << ~a << ' ' << number<B, SB>(a) << ' ';
    std::cout << (a, b) << ' ' << a.range(A - 1, A / 2) << ' ' << a[A / 3] << ' ';
    number<A, SA> c = a;
    c.range(A - 1, A / 2) = b;
    number<A, SA> d = a;
    d.reverse();
    number<A, SA> e = a;
    e += b;
    std::cout << c << ' ' << d << ' ' << e << ' ' << a.countLeadingZeros() << ' ' << a.xor_reduce() << ' ';
    std::cout.precision(17);
    std::cout << a.to_double() << ' ' << number<A, SA>(b.to_double()) << ' ' << (a + 5 == a + ap_int<4>(5)) << '\n';
}

int main() {
    std::string a, b;
    for (int pair, n; std::cin >> pair >> a >> b >> n;) switch (pair) {
        CASES
    }
}
"""


def wrapped(x: int, width: int, signed: bool | int) -> int:
    x &= (1 << width) - 1
    return x - (1 << width) if signed and x >> (width - 1) else x


def towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def expected(pair: tuple[int, int, int, int], a: int, b: int, n: int) -> list[str]:
    width, signed, other, other_signed = pair
    bits = a & ((1 << width) - 1)
    half = width // 2
    replaced = bits & ((1 << half) - 1) | (b & ((1 << (width - half)) - 1)) << half
    quotient = towards_zero(a, b) if b else 0
    found = [str(x) for x in (a + b, a - b, a * b, a & b, a | b, a ^ b)]
    found += [str(quotient), str(a - b * quotient)] if b else ["-", "-"]
    x, y, equal = a, b, a == b
    if signed != other_signed and max(width, other) >= 32 and (other >= width if signed else width >= other):
        x, y = (value & ((2 << max(width, other)) - 1) for value in (a, b))  # AMD's rule, near C's for int and unsigned
        equal = (a ^ b) & ((1 << max(width, other)) - 1) == 0
    found.append("".join(str(int(x)) for x in (x < y, x <= y, x > y, x >= y, equal, not equal)))
    found += [str(wrapped(a << n, width, signed)), str(a >> n), str(-a), str(wrapped(~a, width, signed))]
    found += [str(wrapped(a, other, other_signed)), str(bits << other | b & ((1 << other) - 1))]
    found += [str(bits >> half), str(bits >> (width // 3) & 1), str(wrapped(replaced, width, signed))]
    found += [str(wrapped(int(f"{bits:0{width}b}"[::-1], 2), width, signed)), str(wrapped(a + b, width, signed))]
    found += [str(width - bits.bit_length()), str(bits.bit_count() & 1), f"{float(a):.17g}"]
    return [*found, str(wrapped(int(float(b)), width, signed)), "1"]


def program(directory: Path, source: str, *, sanitized: bool = True) -> Path:
    (directory / "source.cpp").write_text(source)
    command = [
        *find_compiler().command, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas",
        *(SANITIZERS if sanitized else ()), f"-I{STAND_INS}", "source.cpp", "-o", "program",
    ]  # fmt: skip
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    return directory / "program"


def interesting(width: int, signed: int, source: random.Random) -> int:
    """A number of a random length, or one beside a limit."""
    near = source.choice([0, 1 << (width - 1), 1 << width, -1, 1 << source.randrange(width)]) + source.randint(-1, 1)
    return wrapped(
        source.choice([near, source.getrandbits(source.randint(1, width)), -source.getrandbits(width)]), width, signed
    )


@pytest.mark.parametrize("sanitized", [pytest.param(False, marks=EXTENDED), pytest.param(True, marks=pytest.mark.slow)])
def test_integers(tmp_path: Path, sanitized: bool) -> None:
    cases = "".join(
        f"case {i}: operate<{a}, {'true' if s else 'false'}, {b}, {'true' if t else 'false'}>(a, b, n); break;\n"
        for i, (a, s, b, t) in enumerate(PAIRS)
    )
    source = random.Random(7)
    lines, wanted = [], []
    for i, pair in enumerate(PAIRS):
        for _ in range(150):
            a, b = interesting(pair[0], pair[1], source), interesting(pair[2], pair[3], source)
            n = source.randrange(pair[0] + 3)
            lines.append(f"{i} {a} {b} {n}\n")
            wanted.append(expected(pair, a, b, n))
    bench = program(tmp_path, SOURCE.replace("CASES", cases), sanitized=sanitized)
    result = subprocess.run([bench], input="".join(lines), text=True, capture_output=True)
    assert result.returncode == 0, result.stderr[-2000:]
    found = [line.split() for line in result.stdout.splitlines()]
    assert len(found) == len(wanted)
    for line, ours, theirs in zip(lines, found, wanted, strict=True):
        assert ours == theirs, f"{PAIRS[int(line.split()[0])]}: {line}"


ROUNDING: dict[str, Callable[[Fraction], int]] = {
    "AP_TRN": lambda x: x.__floor__(),
    "AP_TRN_ZERO": lambda x: int(x),
    "AP_RND": lambda x: (x + Fraction(1, 2)).__floor__(),
    "AP_RND_MIN_INF": lambda x: (x - Fraction(1, 2)).__ceil__(),
    "AP_RND_ZERO": lambda x: (x - Fraction(1, 2)).__ceil__() if x > 0 else (x + Fraction(1, 2)).__floor__(),
    "AP_RND_INF": lambda x: (x + Fraction(1, 2)).__floor__() if x > 0 else (x - Fraction(1, 2)).__ceil__(),
    "AP_RND_CONV": round,
}
OVERFLOW = ("AP_WRAP", "AP_SAT", "AP_SAT_ZERO", "AP_SAT_SYM")
FIXED = r"""
#include <ap_fixed.h>
#include <iostream>

template <class To>
void convert(int raw, bool last) {
    ap_fixed<14, 7> wide;
    wide.range() = ap_int<14>(raw);
    To direct = wide, of_float = wide.to_float(), added = 0, of_int = wide.to_int();
    added += wide;
    std::cout << direct << ' ' << of_float << ' ' << added << ' ' << of_int << (last ? '\n' : ' ');
}

int main() {
    std::cout.precision(17);
    for (int raw = -(1 << 13); raw < 1 << 13; raw++) {
        CONVERSIONS
    }
}
"""


def kept(x: int, overflow: str, width: int, signed: bool) -> int:
    most = (1 << (width - signed)) - 1
    least = -most - (overflow != "AP_SAT_SYM") if signed else 0
    if least <= x <= most:
        return x
    if overflow == "AP_WRAP":
        return wrapped(x, width, signed)
    return 0 if overflow == "AP_SAT_ZERO" else min(max(x, least), most)


@pytest.mark.slow
@pytest.mark.extended
def test_modes_of_fixed_point(tmp_path: Path) -> None:
    """All numbers of 14 bits, 7 behind the point, to 8 bits with 3 behind the point."""
    kinds = [(name, q, o) for name in ("ap_fixed", "ap_ufixed") for q in ROUNDING for o in OVERFLOW]
    conversions = "".join(
        f"convert<{name}<8, 5, {q}, {o}>>(raw, {int(i == len(kinds) - 1)});\n" for i, (name, q, o) in enumerate(kinds)
    )
    result = subprocess.run(
        [program(tmp_path, FIXED.replace("CONVERSIONS", conversions))], text=True, capture_output=True
    )
    assert result.returncode == 0, result.stderr[-2000:]
    lines = result.stdout.splitlines()
    assert len(lines) == 1 << 14
    for raw, line in zip(range(-(1 << 13), 1 << 13), lines, strict=True):
        found = iter(map(float, line.split()))
        for name, q, o in kinds:
            signed = name == "ap_fixed"
            number = kept(ROUNDING[q](Fraction(raw, 16)), o, 8, signed) / 8
            whole = kept(int(Fraction(raw, 128)) * 8, o, 8, signed) / 8
            assert [next(found) for _ in range(4)] == [number, number, number, whole], (name, q, o, raw / 128)


ARITHMETIC = r"""
#include <ap_fixed.h>
#include <iostream>

int main() {
    std::cout.precision(17);
    for (int x = -128; x < 128; x++)
        for (int y = -64; y < 64; y++) {
            ap_fixed<8, 3> a;
            ap_fixed<7, 5> b;
            a.range() = ap_int<8>(x), b.range() = ap_int<7>(y);
            std::cout << (a + b) << ' ' << (a - b) << ' ' << (a * b) << ' ' << (a < b) << (a == b) << ' ';
            std::cout << -a << ' ' << (y ? (a / b).to_double() : 0.0) << ' ' << (a + 1) << ' ' << (3 * b) << ' ';
            ap_ufixed<8, 3> c;
            ap_ufixed<7, 5> d;
            c.range() = ap_uint<8>(x), d.range() = ap_uint<7>(y);
            std::cout << (a < 0.51) << (0.49f <= a) << ' ' << (a - -0.3) << ' ' << (c - d) << '\n';
        }
}
"""


def test_arithmetic_of_fixed_point(tmp_path: Path) -> None:
    result = subprocess.run([program(tmp_path, ARITHMETIC)], text=True, capture_output=True)
    assert result.returncode == 0, result.stderr[-2000:]
    lines = iter(result.stdout.splitlines())
    for x in range(-128, 128):
        for y in range(-64, 64):
            a, b = Fraction(x, 32), Fraction(y, 4)
            # Behind the point as many bits as the dividend has there.
            quotient = int(a / b * 2**5) / Fraction(2**5) if y else Fraction(0)
            sums, differences, products, compared, negative, divided, one, thrice, above, less, unsigned = next(
                lines
            ).split()
            assert [Fraction(sums), Fraction(differences), Fraction(products)] == [a + b, a - b, a * b]
            assert compared == f"{int(a < b)}{int(a == b)}" and above == f"{int(a < 0.51)}{int(a >= 0.49)}"
            assert [Fraction(negative), Fraction(one), Fraction(thrice)] == [-a, a + 1, 3 * b]
            assert Fraction(divided) == quotient
            assert Fraction(less) == a - Fraction(
                math.floor(-0.3 * 32), 32
            )  # a constant is rounded down, as AP_TRN has it
            assert Fraction(unsigned) == Fraction(x % 256, 32) - Fraction(y % 128, 4)


@pytest.mark.parametrize("digits", ["12x", "0b2", "--3"])
def test_what_is_no_number(tmp_path: Path, digits: str) -> None:
    source = "#include <ap_int.h>\nint main(int, char** v) { return ap_int<70>(v[1]) != 0; }\n"
    result = subprocess.run([program(tmp_path, source), digits], text=True, capture_output=True)
    assert f"'{digits}' is no number of radix" in result.stderr
