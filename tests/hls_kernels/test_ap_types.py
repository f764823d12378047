"""Our ap_int and ap_fixed beside AMD's own ap_types, which the PyPI package hls4ml carries.

Each program draws types of random widths and applies every operator to random values. It is built with both sets of
headers. Both builds must print the same text: values, and the widths of the types of expressions.

Left out is what AMD's simulation types compute otherwise than arithmetic does:

* xor_reduce of a signed number counts copies of its sign beyond its width;
* to_double of more than 64 bits reads the lowest 64;
* a division of different signs takes the sign of the wider operand for both;
* a comparison of fixed-point numbers of different signs may take the signed one as unsigned;
* to_int of a fixed-point number without integer bits is not 0;
* the most negative number divided by the least negative one may end the program.

Which of these hold for synthesis is not known.
"""

from __future__ import annotations

import importlib.util
import random
import subprocess
from pathlib import Path

import pytest

from hls_kernels import STAND_INS
from tests.marks import EXTENDED
from xclbin_build.toolchain.gxx import find_compiler

ROUNDING = ("AP_RND", "AP_RND_ZERO", "AP_RND_MIN_INF", "AP_RND_INF", "AP_RND_CONV", "AP_TRN", "AP_TRN_ZERO")
OVERFLOW = ("AP_SAT", "AP_SAT_ZERO", "AP_SAT_SYM", "AP_WRAP")
WIDTHS = (1, 2, 7, 8, 13, 31, 32, 33, 47, 63, 64, 65, 90, 128)
VALUES = 40

PROGRAM = r"""
#include <ap_int.h>
#include <ap_fixed.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

static uint64_t state = SEED;
static uint64_t draw() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

template <class T> T made() {
    T x = 0;
    const int few = draw() % 4 == 0 ? 2 : T::width;
    for (int i = 0; i < T::width; ++i) x[i] = i < few ? (draw() >> 20) & 1 : 0;
    return x;
}

template <class T> void show(const T& x) {
    std::printf("%d:", (int)T::width);
    for (int i = T::width - 1; i >= 0; --i) std::printf("%d", (int)(bool)x[i]);
    std::printf(" ");
}

// Whether the highest bit of a type is a sign.
template <class T> bool has_sign_bit() {
    T x = 0;
    x[T::width - 1] = 1;
    return x < 0;
}
#define SIGNED(T) has_sign_bit<T>()

template <class A, class B> void of_integers() {
    const A a = made<A>();
    const B b = made<B>();
    const bool has_sign = SIGNED(A), same_sign = has_sign == SIGNED(B);
    show(a + b);
    show(a - b);
    show(a * b);
    show(a & b);
    show(a | b);
    show(a ^ b);
    if (b != 0 && same_sign) {
        show(a / b);
        show(a % b);
    }
    const int n = draw() % A::width;
    show(A(a << n));
    show(A(a >> n));
    show(A(~a));
    show(A(-a));
    show(B(a));
    A c = a;
    c += b;
    show(c);
    c -= a;
    c *= b;
    show(c);
    c.range(A::width - 1, A::width / 2) = b;
    show(c);
    std::printf("%d%d%d%d%d%d ", a < b, a <= b, a > b, a >= b, a == b, a != b);
    std::printf("%d%d", (int)a.and_reduce(), (int)a.or_reduce());
    if (!has_sign) std::printf("%d", (int)a.xor_reduce());
    if (A::width <= 64) std::printf(" %.17g", a.to_double());
    std::printf("\n");
}

template <class A, class B> void of_fixed() {
    const A a = made<A>();
    const B b = made<B>();
    const bool has_sign = SIGNED(A), same_sign = has_sign == SIGNED(B);
    show(B(a));
    show(A(b));
    const auto sum = a + b;
    const auto difference = a - b;
    const auto product = a * b;
    show(sum);
    show(difference);
    show(product);
    bool least = has_sign;  // the least negative number
    for (int i = 0; i < B::width; ++i) least &= (bool)b[i];
    if (b != 0 && same_sign && !least) show(A(a / b));
    show(B(sum));
    show(A(product));
    show(B(-a));
    A c = a;
    c += b;
    show(c);
    c *= b;
    show(c);
    show(a << 2);
    show(a >> 2);
    if (same_sign) std::printf("%d%d%d%d ", a < b, a <= b, a == b, a != b);
    show(B(a.to_double()));
    std::printf("%.17g", a.to_double());
    if (A::iwidth > 0) std::printf(" %d", (int)a.to_int());
    std::printf("\n");
}

int main() {
    for (int i = 0; i < VALUES; ++i) {
CALLS
    }
}
"""


def ap_types() -> Path | None:
    """AMD's headers, where hls4ml is installed; it need not be importable."""
    found = importlib.util.find_spec("hls4ml")
    folder = Path(found.origin).parent / "templates/vivado/ap_types" if found and found.origin else None
    return folder if folder and folder.is_dir() else None


def calls(seed: int) -> str:
    """Calls with a few pairs of types each."""
    source = random.Random(seed)

    def integer() -> str:
        return f"ap_{source.choice(['', 'u'])}int<{source.choice(WIDTHS)}>"

    def fixed() -> str:
        width = source.randint(2, 30)
        modes = f"{source.choice(ROUNDING)}, {source.choice(OVERFLOW)}"
        return f"ap_{source.choice(['', 'u'])}fixed<{width}, {source.randint(-2, width)}, {modes}>"

    pairs = [f"of_integers<{integer()}, {integer()}>();" for _ in range(6)]
    pairs += [f"of_fixed<{fixed()}, {fixed()}>();" for _ in range(6)]
    return "\n".join(pairs)


def output(folder: Path, source: str, headers: Path) -> str:
    folder.mkdir()
    (folder / "source.cpp").write_text(source)
    include = ["-isystem", str(headers)]
    command = [*find_compiler().command, "-std=c++14", "-O1", "-w", *include, "source.cpp", "-o", "program"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr[-3000:]
    return subprocess.run([folder / "program"], capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.skipif(ap_types() is None, reason="needs hls4ml (pip install --no-deps hls4ml)")
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=EXTENDED) for seed in range(2, 13))])
def test_the_same_program_prints_the_same(seed: int, tmp_path: Path) -> None:
    theirs = ap_types()
    assert theirs is not None
    source = PROGRAM.replace("SEED", str(seed * 0x9E3779B97F4A7C15 % (1 << 64)) + "u").replace("VALUES", str(VALUES))
    source = source.replace("CALLS", calls(seed))
    ours, amd = output(tmp_path / "ours", source, STAND_INS), output(tmp_path / "amd", source, theirs)
    assert len(amd.splitlines()) == 12 * VALUES
    assert ours.splitlines() == amd.splitlines()
