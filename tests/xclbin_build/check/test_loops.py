"""What the checker says of loops: intervals, what limits them, bursts, latencies; and that changes change it."""

from __future__ import annotations

import pytest

from tests.xclbin_build.check.conftest import Load
from xclbin_build.check.loops import Check, Loop, check

ACCUMULATE = """
    #define PHASES 8
    extern "C" void top(const float* x, const float* y, float* out, int n) {
    #pragma HLS interface m_axi port = x bundle = left
    #pragma HLS interface m_axi port = y bundle = right
    #pragma HLS interface m_axi port = out bundle = left
        float phase[PHASES];
    #pragma HLS array_partition variable = phase complete
        for (int p = 0; p < PHASES; p++) {
    #pragma HLS unroll
            phase[p] = 0;
        }
    products:
        for (int i = 0; i < 1024; i += PHASES) {
    #pragma HLS pipeline II = PHASES
            for (int p = 0; p < PHASES; p++) phase[p] += x[i + p] * y[i + p];
        }
        float sum = 0;
        for (int p = 0; p < PHASES; p++) {
    #pragma HLS unroll
            sum += phase[p];
        }
        out[0] = sum;
    }
"""
BLOCK = """
    #define PITCH 16
    extern "C" void top(const int* in, int* out, int pitch) {
    #pragma HLS interface m_axi port = in bundle = a
    #pragma HLS interface m_axi port = out bundle = b
        int block[1024];
    #pragma HLS array_partition variable = block cyclic factor = 16
    fill:
        for (int i = 0; i < 1024; i++) {
    #pragma HLS pipeline II = 1
            block[i] = in[i];
        }
    rows:
        for (int i = 0; i < 64; i++) {
    #pragma HLS pipeline II = 1
            int sum = 0;
            for (int lane = 0; lane < 16; lane++) sum += block[i * PITCH + lane];
            out[i] = sum;
        }
    }
"""


def loop(found: Check, name: str) -> Loop:
    return next(loop for loop in found.loops if loop.name == name)


def test_a_sum_waits_for_its_adder_and_phases_hide_that(load: Load) -> None:
    one = check(load(ACCUMULATE.replace("PHASES 8", "PHASES 1")))
    products = loop(one, "products")
    assert (products.ii, products.target_ii, products.kind) == (6, 1, "recurrence")
    assert "fadd (6 cycles)" in products.limit
    eight = loop(check(load(ACCUMULATE)), "products")
    assert (eight.ii, eight.kind) == (8, "pragma")
    halved = loop(check(load(ACCUMULATE.replace("PHASES 8", "PHASES 4"))), "products")
    assert halved.ii == 6


def test_the_adder_is_as_slow_as_the_clock_makes_it(load: Load) -> None:
    kernel = load(ACCUMULATE.replace("PHASES 8", "PHASES 1"))
    kernel.clock_ns = 10.0
    assert loop(check(kernel), "products").ii == 3


def test_banks_count(load: Load) -> None:
    found = check(load(BLOCK))
    assert [(found_loop.name, found_loop.ii, found_loop.kind) for found_loop in found.loops] == [
        ("fill", 1, ""),
        ("rows", 1, ""),
    ]


@pytest.mark.parametrize(
    ("mutation", "expected"),
    [
        (("cyclic factor = 16", "cyclic factor = 4"), 2),  # four lanes a bank, two ports each
        (("    #pragma HLS array_partition variable = block cyclic factor = 16\n", ""), 8),
        (("i * PITCH + lane", "i * pitch + lane"), 8),  # the bank depends on a run-time value
        (("sum += block[i * PITCH + lane]", "sum += block[i * PITCH + lane] + block[(i ^ 1) * PITCH]"), 1),
    ],
)  # fmt: skip
def test_a_mutation_changes_the_verdict(load: Load, mutation: tuple[str, str], expected: int) -> None:
    """By the sources alone, as contracts do; what Vitis HLS divides of its own accord is in test_scheduling.py."""
    assert mutation[0] in BLOCK
    rows = loop(check(load(BLOCK.replace(*mutation)), inferred=False), "rows")
    assert rows.ii == expected
    assert rows.kind == ("memory" if expected > 1 else "")
    if expected > 1:
        assert "'block'" in rows.limit


def test_a_third_read_of_one_port_makes_it_two_cycles(load: Load) -> None:
    text = """
        extern "C" void top(int* out) {
        #pragma HLS interface m_axi port = out
            int table[64];
            for (int i = 0; i < 64; i++) table[i] = out[i];
        reads:
            for (int i = 0; i < 32; i++) {
        #pragma HLS pipeline II = 1
                out[i] = table[i] ^ table[63 - i];
            }
        }
    """
    assert loop(check(load(text)), "reads").ii == 1
    third = loop(check(load(text.replace("table[63 - i]", "table[63 - i] ^ table[2 * i]"))), "reads")
    assert (third.ii, third.kind) == (2, "memory")


def test_what_an_address_may_meet_is_waited_for_unless_a_pragma_says_that_it_does_not(load: Load) -> None:
    text = """
        extern "C" void top(const int* keys, int* out, int n) {
        #pragma HLS interface m_axi port = keys bundle = a
        #pragma HLS interface m_axi port = out bundle = b
            int count[256];
            for (int i = 0; i < 256; i++) count[i] = 0;
        histogram:
            for (int i = 0; i < n; i++) {
        #pragma HLS pipeline II = 1
                count[keys[i] & 255] += 1;
            }
            for (int i = 0; i < 256; i++) out[i] = count[i];
        }
    """
    waits = loop(check(load(text)), "histogram")
    assert waits.ii == 2
    assert waits.kind == "recurrence" and "through 'count'" in waits.limit
    pragma = "II = 1\n        #pragma HLS dependence variable = count inter false"
    assert loop(check(load(text.replace("II = 1", pragma))), "histogram").ii == 1


def test_distance_in_iterations_hides_latency(load: Load) -> None:
    text = """
        extern "C" void top(float* out) {
        #pragma HLS interface m_axi port = out
            float line[256];
            for (int i = 0; i < 256; i++) line[i] = out[i];
        filter:
            for (int i = DISTANCE; i < 256; i++) {
        #pragma HLS pipeline II = 1
                line[i] = line[i - DISTANCE] + 1.0f;
            }
            for (int i = 0; i < 256; i++) out[i] = line[i];
        }
    """
    next_one, near, far = (loop(check(load(text.replace("DISTANCE", n))), "filter") for n in ("1", "2", "16"))
    assert near.ii is not None and 2 * near.ii >= 7  # the adder and the memory, every other iteration
    assert "load" in near.limit and far.ii == 1
    assert next_one.ii in (4, 6) and "load" not in next_one.limit  # a register keeps it: the adder alone


ROWS = """
    extern "C" void top(const int* in, int* out, long begin) {
    #pragma HLS interface m_axi port = in bundle = m0
    #pragma HLS interface m_axi port = out bundle = m1
        int block[16][64];
    #pragma HLS array_partition variable = block dim = 1 complete
    #pragma HLS bind_storage variable = block type = ram_1p
        for (int i = 0; i < 1024; i++) block[i / 64][i % 64] = in[i];
    sums:
        for (int n = 0; n < 64; n++) {
    #pragma HLS pipeline II = 1
            int sum = 0;
            for (int lane = 0; lane < 8; lane++) {
    #pragma HLS unroll
                sum += block[begin + lane][n];
            }
            out[n] = sum;
        }
    }
"""


@pytest.mark.parametrize(
    ("change", "ii"),
    [
        (("", ""), 1),  # whatever `begin` is, each lane has a bank of its own
        (("dim = 1 complete", "dim = 1 cyclic factor = 4"), 2),
        (("dim = 1 complete", "dim = 1 cyclic factor = 3"), 3),
        (("dim = 1 complete", "dim = 2 cyclic factor = 4"), 8),  # all lanes in one column
        (("begin + lane", "begin * lane"), 8),
    ],
)
def test_lanes_at_run_time_places_go_to_different_banks(load: Load, change: tuple[str, str], ii: int) -> None:
    found = loop(check(load(ROWS.replace(*change)), inferred=False), "sums")
    assert (found.ii, found.kind) == (ii, "memory" if ii > 1 else "")


def test_bursts_and_what_prevents_them(load: Load) -> None:
    found = check(
        load("""
        extern "C" void top(const int* a, const int* b, const int* c, int* d, int n) {
        #pragma HLS interface m_axi port = a bundle = m0
        #pragma HLS interface m_axi port = b bundle = m1
        #pragma HLS interface m_axi port = c bundle = m2
        #pragma HLS interface m_axi port = d bundle = m3
        copy:
            for (int i = 0; i < n; i++) {
        #pragma HLS pipeline II = 1
                int x = a[i] + b[3 * i] + c[a[i] & 7];
                if (x > 0) d[i] = x;
            }
        }
    """)
    )
    why = {burst.port: burst.why for burst in loop(found, "copy").bursts}
    assert why == {
        "a": "",
        "b": "an iteration accesses 4 bytes and advances by 12",
        "c": "the address does not advance by a constant step per iteration",
        "d": "the access depends on a condition",
    }
    assert loop(found, "copy").trips is None and found.latency is None


def test_two_reads_of_one_bundle_take_two_cycles(load: Load) -> None:
    text = """
        extern "C" void top(const int* a, const int* b, int* c) {
        #pragma HLS interface m_axi port = a bundle = m0
        #pragma HLS interface m_axi port = b bundle = OTHER
        #pragma HLS interface m_axi port = c bundle = m2
        sum:
            for (int i = 0; i < 64; i++) {
        #pragma HLS pipeline II = 1
                c[i] = a[i] + b[i];
            }
        }
    """
    assert loop(check(load(text.replace("OTHER", "m1"))), "sum").ii == 1
    shared = loop(check(load(text.replace("OTHER", "m0"))), "sum")
    assert (shared.ii, shared.kind) == (2, "m_axi") and "'m0'" in shared.limit


def test_latency_is_depth_and_interval_times_iterations(load: Load) -> None:
    found = check(load(BLOCK))
    fill, rows = loop(found, "fill"), loop(found, "rows")
    assert fill.trips == (1024, 1024) and fill.latency == fill.depth + 1023
    assert rows.trips == (64, 64) and rows.latency == rows.depth + 63
    assert found.latency is not None and 0 < found.latency - fill.latency - rows.latency < 10


LANES = """
    extern "C" void top(const unsigned* in, int* out, int n) {
    #pragma HLS interface m_axi port = in bundle = a
    #pragma HLS interface m_axi port = out bundle = b
        int bins[4][256];
    #pragma HLS array_partition variable = bins complete dim = 1
        for (int i = 0; i < 256; i++)
            for (int lane = 0; lane < 4; lane++) bins[lane][i] = 0;
    counts:
        for (int i = 0; i < n; i++) {
    #pragma HLS pipeline II = 2
            for (int lane = 0; lane < 4; lane++) bins[OF_LANE][(in[i] >> (8 * lane)) & 255]++;
        }
        for (int i = 0; i < 256; i++) out[i] = bins[0][i] + bins[1][i] + bins[2][i] + bins[3][i];
    }
"""


@pytest.mark.parametrize(("of_lane", "ii"), [("lane", 2), ("in[i] >> (8 * lane + 6) & 3", 8)])
def test_lanes_of_a_divided_array_do_not_meet_whatever_their_other_index(load: Load, of_lane: str, ii: int) -> None:
    """A lane that is known at run time only may be that of any other access."""
    assert loop(check(load(LANES.replace("OF_LANE", of_lane))), "counts").ii == ii


EITHER = """
    extern "C" void top(const int* left, const int* right, int* out, int choice, int n) {
    #pragma HLS interface m_axi port = left bundle = a
    #pragma HLS interface m_axi port = right bundle = b
    #pragma HLS interface m_axi port = out bundle = c
    copy:
        for (int i = 0; i < n; i++) {
    #pragma HLS pipeline II = 1
            const int* from = choice ? left : right;
            out[i] = from[2 * i] + from[2 * i + 1] + right[n + i];
        }
    }
"""


def test_an_address_that_is_chosen_among_ports_counts_for_each(load: Load) -> None:
    found = loop(check(load(EITHER)), "copy")
    assert (found.ii, found.kind) == (3, "m_axi")  # none of them is a burst: three requests
    assert "bundle 'b'" in found.limit


MEMBERS = """
    struct banks { int even[512]; int odd[512]; };
    static void step(banks& b, const int* in, int n) {
    steps:
        for (int i = 0; i < n; i++) {
    #pragma HLS pipeline II = 1
    PRAGMA
            b.even[in[i]] = b.even[in[i + 1]] + b.odd[i];
        }
    }
    extern "C" void top(const int* in, int* out, int n) {
    #pragma HLS interface m_axi port = in bundle = a
    #pragma HLS interface m_axi port = out bundle = b
        banks b;
        for (int i = 0; i < 512; i++) b.even[i] = b.odd[i] = in[i];
        step(b, in, n);
        for (int i = 0; i < 512; i++) out[i] = b.even[i] + b.odd[i];
    }
"""


def test_dependence_names_an_array_of_a_structure(load: Load) -> None:
    pragma = "#pragma HLS dependence variable = b.even type = inter false"
    without, told = (loop(check(load(MEMBERS.replace("PRAGMA", words))), "steps") for words in ("", pragma))
    assert without.kind == "recurrence"
    assert told.kind != "recurrence"


ADVANCED = """
    extern "C" void top(const int* left, const int* right, int* out, int choice, int n) {
    #pragma HLS interface m_axi port = left bundle = a
    #pragma HLS interface m_axi port = right bundle = b
    #pragma HLS interface m_axi port = out bundle = c
        const int* from = choice ? left : right;
    walk:
        while (*from != n) {
    #pragma HLS pipeline II = 1
            from += *from & 1 ? 3 : 1;
            *out++ = *from;
        }
    }
"""


def test_a_pointer_that_a_loop_advances_is_followed_to_where_it_began(load: Load) -> None:
    found = loop(check(load(ADVANCED)), "walk")
    assert {burst.bundle for burst in found.bursts} == {"a", "b", "c"}


def test_a_while_loop_with_continues_is_one_loop(load: Load) -> None:
    """Each `continue` of a `while` branches back by itself in clang's IR, of which LLVM would make a nest."""
    found = check(
        load(
            """
            void top(int stack[64], int values[64], int seen[64], int count) {
                int level = count;
                walk: while (level != 0) {
                    int at = stack[level - 1];
                    if (seen[at & 63]) { level--; continue; }
                    if (values[at & 63] > 5) { seen[at & 63] = 1; stack[level] = values[at & 63]; level++; continue; }
                    seen[at & 63] = 1;
                    level--;
                }
            }
            """
        ),
        memories=True,
    )
    (loop,) = found.loops
    assert loop.name == "walk"
    # The address of the next iteration depends on reads of this one from two memories, one behind the other.
    assert (loop.kind, loop.ii) == ("recurrence", 2)
