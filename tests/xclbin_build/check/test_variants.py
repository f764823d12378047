"""What variants of one kernel with different pragmas show (HLStrans, Vitis HLS 2022.2): parts of ports, bursts of an
iteration, memories that processes share, and what differs between versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xclbin_build.check.loops import Loop
from xclbin_build.check.run import check_source
from xclbin_build.cli import main


def loops(tmp_path: Path, text: str, *, vitis: str = "2022.2", clock_ns: float = 5, part: str = "") -> dict[str, Loop]:
    """Loops by name, of all processes, in the Vivado flow."""
    path = tmp_path / "kernel.cpp"
    path.write_text(text)
    parts = check_source(path, "top", clock_ns=clock_ns, part=part, flow="vivado", vitis=vitis)
    assert not [one.note for one in parts if one.check is None]
    return {loop.name: loop for one in parts if one.check for loop in one.check.loops}


PARTS = """
void top(float a[64][64], float b[64][64], float x[64], float out[64]) {
#pragma HLS interface m_axi port = a bundle = gmem
#pragma HLS interface m_axi port = b bundle = gmem
#pragma HLS interface m_axi port = x bundle = gmem
#pragma HLS interface m_axi port = out bundle = out
#pragma HLS array_partition variable = a cyclic factor = 16 dim = 2
#pragma HLS array_partition variable = b cyclic factor = 16 dim = 2
#pragma HLS array_partition variable = x cyclic factor = 16
    float rows[64][64];
#pragma HLS array_partition variable = rows complete dim = 2
rows:
    for (int i = 0; i < 64; i++) {
    #pragma HLS pipeline II = 1
        float first = x[i];
        for (int j = 0; j < 64; j++) rows[i][j] = a[i][j] * b[i][j] + first;
    }
sums:
    for (int i = 0; i < 64; i++) {
    #pragma HLS pipeline II = 1
        out[i] = rows[i][i];
    }
}
"""


def test_each_part_of_a_port_has_an_interface_of_its_own(tmp_path: Path) -> None:
    """gesummv, generate_7: 64 elements of two arrays in 16 parts, and one whose part is not known: 4 + 4 + 1."""
    found = loops(tmp_path, PARTS)["rows"]
    assert found.ii == 9 and "part 0 of bundle 'gmem'" in found.limit
    whole = PARTS.replace("#pragma HLS array_partition variable = a", "//").replace(
        "#pragma HLS array_partition variable = b", "//"
    )
    assert loops(tmp_path, whole)["rows"].ii == 128
    assert loops(tmp_path, PARTS.replace("b bundle = gmem", "b bundle = other"))["rows"].ii == 5


NORM = """
void top(double data[100][80], double mean[80]) {
#pragma HLS interface m_axi port = data bundle = gmem
#pragma HLS interface m_axi port = mean bundle = gmem1
norm:
    for (int i = 0; i < 100; i++) {
    #pragma HLS pipeline II = 1
        for (int j = 0; j < 80; j++) data[i][j] -= mean[j];
    }
}
"""


def test_an_iteration_may_have_bursts_of_its_own(tmp_path: Path) -> None:
    """`NORM` of covariance, generate_6: 80 reads and 80 writes of one port, the ones behind the others, 173 cycles; the
    report has a burst of 80 each way, in no loop."""
    found = loops(tmp_path, NORM, part="xcu55c-fsvh2892-2L-e")["norm"]
    assert found.ii == 173
    bursts = {burst.write: burst for burst in found.bursts if burst.port == "data"}
    assert all(burst.inferred and burst.within for burst in bursts.values()) and len(bursts) == 2
    gaps = NORM.replace("j < 80; j++) data", "j < 80; j += 2) data")
    found = loops(tmp_path, gaps, part="xcu55c-fsvh2892-2L-e")["norm"]
    assert not any(burst.inferred for burst in found.bursts if burst.port == "data")


SHARED = """
void first(int in[32][32], int out[32]) {
sums:
    for (int i = 0; i < 32; i++) {
    #pragma HLS pipeline II = 1
        int sum = 0;
        for (int j = 0; j < 16; j++) sum += in[i][j];
        out[i] = sum;
    }
}
void second(int in[32][32], int out[32]) {
products:
    for (int i = 0; i < 32; i++) {
    #pragma HLS pipeline II = 1
        int product = 1;
        for (int j = 0; j < 16; j++) product *= in[i][j];
        out[i] = product;
    }
}
void top(int in[32][32], int other[32][32], int a[32], int b[32]) {
#pragma HLS dataflow
    first(in, a);
    second(in, b);
}
"""


def test_processes_share_the_ports_of_a_memory_beside_the_kernel(tmp_path: Path) -> None:
    """`A` of atax and bicg: two processes, 16 reads in 16 cycles each."""
    found = loops(tmp_path, SHARED)
    assert (found["sums"].ii, found["products"].ii) == (16, 16)
    alone = loops(tmp_path, SHARED.replace("second(in, b)", "second(other, b)"))
    assert (alone["sums"].ii, alone["products"].ii) == (8, 8)


def test_a_memory_beside_the_kernel_of_which_a_pragma_says_that_it_has_one_port(tmp_path: Path) -> None:
    text = SHARED.replace("second(in, b)", "second(other, b)").replace(
        "#pragma HLS dataflow", "#pragma HLS interface ap_memory port = in storage_type = ram_1p\n#pragma HLS dataflow"
    )
    found = loops(tmp_path, text)
    assert (found["sums"].ii, found["products"].ii) == (16, 8)


AGAIN = """
void top(float PARAMETER, float in[32][32]) {
#pragma HLS interface m_axi port = y bundle = y
#pragma HLS interface m_axi port = in bundle = in
rows:
    for (int i = 0; i < 32; i++) {
    sums:
        for (int j = 0; j < 32; j++) {
        #pragma HLS pipeline II = 1
            y[INDEX] += in[i][j];
        }
    }
}
"""


@pytest.mark.parametrize(
    ("parameter", "index", "waits"), [("y[1024]", "32 * i + j", False), ("y[1024]", "j", True), ("*y", "j", True)]
)
def test_elements_of_an_array_with_a_size_are_compared(tmp_path: Path, parameter: str, index: str, waits: bool) -> None:
    """`data` of correlation, generate_3 (3 for three reads), and `y_out` of atax, generate_10 (15: the loop around
    comes back to its elements)."""
    text = AGAIN.replace("PARAMETER", parameter).replace("INDEX", index)
    found = loops(tmp_path, text)["sums"]
    assert (found.ii or 0) > 10 if waits else found.ii == 1
    assert (found.kind == "recurrence") == waits


COLUMNS = """
void top(double data[100][80], double out[80][80]) {
rows:
    for (int i = 0; i < 80; i++) {
    columns:
        for (int j = i; j < 80; j++) {
        #pragma HLS pipeline II = 1
            double sum = 0;
            for (int k = 0; k < 100; k++) sum += data[k][i] * data[k][j];
            WRITE = sum;
        }
    }
}
"""


def test_what_stays_the_same_is_read_in_front_of_a_loop(tmp_path: Path) -> None:
    """`data[k][i]` of correlation and covariance: 100 reads of 200 in an iteration, though the loop may not run at
    all; a memory takes two a cycle."""
    assert loops(tmp_path, COLUMNS.replace("WRITE", "out[i][j]"))["columns"].ii == 50
    assert (loops(tmp_path, COLUMNS.replace("WRITE", "data[j][i]"))["columns"].ii or 0) >= 100


def test_what_stays_the_same_is_read_again_in_a_loop_that_may_end_early(tmp_path: Path) -> None:
    """`XFER_LOOP` of whywhytellmewhy/SOC-design (fir_n11_strm, 2022.1: 11): eleven coefficients behind AXI-Lite."""
    text = """
        #include <hls_stream.h>
        void top(hls::stream<int>& in, hls::stream<int>& out, int taps[11], int count) {
        #pragma HLS interface s_axilite port = taps
            int shifted[11] = {};
        #pragma HLS array_partition variable = shifted complete
        transfer:
            for (int n = 0; n < count; n++) {
                int sum = 0, value = in.read();
                for (int k = 10; k >= 0; k--) {
                    shifted[k] = k ? shifted[k - 1] : value;
                    sum += shifted[k] * taps[k];
                }
                out.write(sum);
                if (value < 0) break;
            }
        }
    """
    assert loops(tmp_path, text, vitis="2022.1", clock_ns=10)["transfer"].ii == 11


HISTOGRAM = """
void top(int in[1024], int counts[256]) {
counts:
    for (int i = 0; i < 1024; i++) {
        CONDITION counts[in[i]]++;
    }
}
"""


@pytest.mark.parametrize(
    ("condition", "vitis", "ii"), [("", "2022.2", 1), ("", "2024.2", 2), ("", "", 2), ("if (in[i] < 100)", "2022.2", 2)]
)
def test_a_register_for_the_element_that_was_written_last(tmp_path: Path, condition: str, vitis: str, ii: int) -> None:
    """histogram and sort_radix (2022.2: 1, with `reuse_addr_reg` in schedules); sha3 of j1hye0n (2024.2: 2)."""
    assert loops(tmp_path, HISTOGRAM.replace("CONDITION", condition), vitis=vitis)["counts"].ii == ii


@pytest.mark.parametrize(("vitis", "ii"), [("2022.2", 1), ("2024.1", 3), ("", 3)])
def test_reads_of_a_bundle_that_is_written(tmp_path: Path, vitis: str, ii: int) -> None:
    """correlation (2022.2) reads what stays the same in front of the loop, edgedetect (2024.1) in each iteration."""
    text = """
        void top(const int* in, const int* coefficients, int* out) {
        #pragma HLS interface m_axi port = in bundle = in
        #pragma HLS interface m_axi port = coefficients bundle = gmem
        #pragma HLS interface m_axi port = out bundle = gmem
        filter:
            for (int i = 0; i < 100; i++) {
            #pragma HLS pipeline
                out[i] = in[i] * (coefficients[0] ^ coefficients[2] ^ coefficients[5]);
            }
        }
    """
    assert loops(tmp_path, text, vitis=vitis)["filter"].ii == ii


@pytest.mark.parametrize(
    ("type", "part", "asked", "ii"),
    [
        ("float", "xcu55c-fsvh2892-2L-e", "II = 1", 3),
        ("double", "xcu55c-fsvh2892-2L-e", "II = 1", 3),
        ("float", "xcvu9p-flga2104-2-e", "II = 1", 3),
        ("float", "xcvu9p-flga2104-2-e", "", 4),
        ("float", "xczu7ev-ffvc1156-2-e", "II = 1", 8),
    ],
)
def test_an_adder_of_luts_where_a_loop_carries_a_sum(tmp_path: Path, type: str, part: str, asked: str, ii: int) -> None:
    """`add1` of bicg_16: an adder of LUTs with 3 cycles, beside one of DSPs with 4; of a ZU7EV no report has one."""
    text = f"""
        void top({type} in[1024], {type} out[1]) {{
            {type} sum = 0;
        sums:
            for (int i = 0; i < 1024; i++) {{
            #pragma HLS pipeline {asked}
                sum += in[i];
            }}
            out[0] = sum;
        }}
    """
    assert loops(tmp_path, text, part=part)["sums"].ii == ii


def test_the_command_takes_a_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "top.cpp"
    source.write_text(HISTOGRAM.replace("CONDITION", ""))
    for version, ii in (("2022.2", 1), ("2024.1", 2)):
        assert main(["check", str(source), "--top", "top", "--vitis", version, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["parts"][0]["loops"][0]["ii"] == ii
    with pytest.raises(SystemExit):
        main(["check", str(source), "--top", "top", "--vitis", "vitis22"])
    assert "'vitis22' is not a version of Vitis HLS; write it as 2022.2" in capsys.readouterr().err
    assert main(["check", "--platform", "kv260", "--vitis", "2022.2"]) == 2
    assert "--vitis requires a source" in capsys.readouterr().err
