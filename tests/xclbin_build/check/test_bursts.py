"""Which accesses to ports are bursts, by the preconditions of UG1399 and the messages of UG1448."""

from __future__ import annotations

import pytest

from tests.xclbin_build.check.conftest import Load
from xclbin_build.check.bursts import Burst
from xclbin_build.check.loops import Check, check

PORTS = """
    struct point { int x, y, z; };
    int apart(const int* from, int i) {
    #pragma HLS inline off
        return from[i];
    }
    extern "C" void top(const int* a, const int* b, const int* c, const int* d, int* e, const int* f, const int* g,
                        const point* p, volatile int* v, int* w, int* z, int n) {
    #pragma HLS interface m_axi port = a bundle = shared
    #pragma HLS interface m_axi port = b bundle = shared
    #pragma HLS interface m_axi port = c bundle = channels channel = 0
    #pragma HLS interface m_axi port = d bundle = channels channel = 1
    #pragma HLS interface m_axi port = e bundle = e
    #pragma HLS interface m_axi port = f bundle = f
    #pragma HLS interface m_axi port = g bundle = g
    #pragma HLS interface m_axi port = p bundle = p
    #pragma HLS interface m_axi port = v bundle = v
    #pragma HLS interface m_axi port = w bundle = w
    #pragma HLS interface m_axi port = z bundle = z
    CODE
    }
"""

LOOPS = """
    one: for (int i = 0; i < n; i++) w[i] = a[i];
    two: for (int i = 0; i < n; i++) w[i] = a[i] + b[i];
    ways: for (int i = 0; i < n; i++) w[i] = c[i] + d[i];
    again: for (int i = 0; i < n; i++) e[i] += 3;
    triple: for (int i = 0; i < n; i++) w[i] = p[i].x + p[i].y + p[i].z;
    shy: for (int i = 0; i < n; i++) w[i] = v[i];
    until: for (int i = 0; i < n; i++) { int x = f[i]; if (x == 7) break; w[i] = x; }
    called: for (int i = 0; i < n; i++) w[i] = apart(g, i);
    region: for (int i = 0; i < n; i++) {
    #pragma HLS dataflow
        w[i] = f[i];
    }
"""


def bursts(found: Check, name: str = "") -> dict[tuple[str, str], str]:
    """Port and direction of the bursts of a loop, or of code outside of loops, and why accesses are not bursts."""
    there: list[Burst] = found.bursts
    if name:
        (there,) = [loop.bursts for loop in found.loops if loop.name == name]
    return {(burst.port, "write" if burst.write else "read"): burst.why for burst in there}


def test_what_comes_between_the_accesses_of_a_burst(load: Load) -> None:
    found = check(load(PORTS.replace("CODE", LOOPS)))
    assert bursts(found, "one") == {("a", "read"): "", ("w", "write"): ""}
    assert bursts(found, "two") == {
        ("a", "read"): "the loop also reads 'b' of the same bundle",
        ("b", "read"): "the loop also reads 'a' of the same bundle",
        ("w", "write"): "",
    }
    assert set(bursts(found, "ways").values()) == {""}
    assert bursts(found, "again") == {
        ("e", "read"): "the loop also writes the same port",
        ("e", "write"): "the loop also reads the same port",
    }
    assert bursts(found, "triple")["p", "read"] == "an element has 12 bytes, which is not a power of two"
    assert bursts(found, "shy")["v", "read"] == "the access is volatile"
    assert bursts(found, "until")["f", "read"] == "the trip count is not known before the loop starts"
    assert bursts(found, "called")["g", "read"] == "the access is in 'apart', which is not inlined"
    assert bursts(found, "region")["f", "read"] == "the loop is a dataflow region"


@pytest.mark.parametrize(
    ("inner", "why"),
    [("c", ""), ("b", "the loop also reads 'b' of the same bundle"), ("a", "an inner loop reads the same port")],
)
def test_a_burst_goes_on_around_loops_that_leave_its_bundle_alone(load: Load, inner: str, why: str) -> None:
    code = f"""
        rows: for (int i = 0; i < n; i++) {{
            int sum = a[i];
            columns: for (int j = 0; j < n; j++) sum += {inner}[j];
            w[i] = sum;
        }}
    """
    found = check(load(PORTS.replace("CODE", code)))
    assert bursts(found, "rows") == {("a", "read"): why, ("w", "write"): ""}
    # Neither of two that share a bundle is one: what goes on around the inner loop comes between that one's.
    taken_back = "the enclosing loop also reads 'a' of the same bundle" if inner == "b" else ""
    assert bursts(found, "columns") == {(inner, "read"): taken_back}


def test_what_lies_side_by_side_in_no_loop_is_a_burst(load: Load) -> None:
    code = """
        for (int i = 0; i < 8; i++) {
    #pragma HLS unroll
            w[i] = a[i] * n;
        }
        for (int i = 0; i < 4; i++) {
    #pragma HLS unroll
            e[2 * i] = n;
        }
        __builtin_memset(z, 0, 4096);
    """
    gaps = "it is not in a loop, and not adjacent to other accesses of its line or block"
    assert bursts(check(load(PORTS.replace("CODE", code)))) == {
        ("a", "read"): "",
        ("w", "write"): "",
        ("e", "write"): gaps,
        ("z", "write"): "",
    }


def test_a_port_narrower_than_its_bundle_has_no_bursts_unless_it_is_widened(load: Load) -> None:
    text = """
        extern "C" void top(const short* narrow, const int* wide, int* out, int n) {
        #pragma HLS interface m_axi port = narrow bundle = in
        #pragma HLS interface m_axi port = wide bundle = in
        #pragma HLS interface m_axi port = out bundle = out
            first: for (int i = 0; i < n; i++) out[i] = narrow[i];
            second: for (int i = 0; i < n; i++) out[i] = wide[i];
        }
    """
    vivado, vitis = check(load(text), memories=True), check(load(text))
    assert bursts(vivado, "first")["narrow", "read"] == "an element has 2 bytes, the bundle 'in' 4"
    assert bursts(vivado, "second")["wide", "read"] == bursts(vitis, "second")["wide", "read"] == ""
    assert bursts(vitis, "first")["narrow", "read"] == "its beats have 2 bytes, the bundle 'in' 4"
    widened = check(load(text.replace("i < n", "i < 1024")))
    assert bursts(widened, "first")["narrow", "read"] == bursts(widened, "second")["wide", "read"] == ""


@pytest.mark.parametrize(
    ("loop", "why"),
    [
        ("i < 1024; i++) out[i] = wide[i]", ""),
        ("i < n; i++) out[i] = wide[i]", "its beats have 4 bytes, the bundle 'in' 64"),
        ("i < 1023; i++) out[i] = wide[i]", "its beats have 4 bytes, the bundle 'in' 64"),
        ("i < 1024; i++) out[i] = wide[i + 1]", "its beats have 4 bytes, the bundle 'in' 64"),
        ("i < 1024; i++) out[i] = wide[i + 16]", ""),
        ("i < 1024; i++) out[i] = wide[1024 * n + i]", ""),
        ("i < 1024; i++) out[i] = wide[1000 * n + i]", "its beats have 32 bytes, the bundle 'in' 64"),
    ],
)
def test_a_burst_that_stays_narrower_than_its_bundle_is_taken_back(load: Load, loop: str, why: str) -> None:
    """A bundle is one interface: the number of elements and where they begin decide how wide a burst gets."""
    text = f"""
        extern "C" void top(const int* wide, int* out, int n) {{
        #pragma HLS interface m_axi port = wide bundle = in
        #pragma HLS interface m_axi port = out bundle = out
            first: for (int i = 0; i < 1024; i++) out[i] = wide[i];
            second: for (int i = 0; {loop};
        }}
    """
    found = check(load(text))
    assert bursts(found, "first")["wide", "read"] == ""
    assert bursts(found, "second")["wide", "read"] == why
