"""`xclbin-build csim`: components of Vitis HLS with their own test benches."""

from collections.abc import Callable
from pathlib import Path

import pytest

from xclbin_build import hls_project
from xclbin_build.cli import main
from xclbin_build.dataflow import rewritten
from xclbin_build.errors import RecipeError

BENCH = """#include <cstdio>
#include <fstream>
#include "scale.h"
int main(int argc, char** argv) {
    std::ifstream data("numbers.dat");
    std::ifstream beside("../../../../extra/more.dat");
    int in[8], out[8], wanted = 0;
    for (int& x : in) data >> x;
    beside >> wanted;
    scale(in, out);
    std::ofstream("result.dat") << out[7];
    return out[7] == wanted && argc == 2 ? 0 : 3;
}
"""
HEADER = """#pragma once
void scale(const int in[8], int out[8]);
"""
SOURCE = """#include "scale.h"
#include "parts/stages.h"
void scale(const int in[8], int out[8]) {
#pragma HLS dataflow
    hls::stream<int> a("a"), b("b");
    feed<1 << 3>(in, a);
    twice<8>(a, b);
    store<8>(b, out);
}
"""
STAGES = """#pragma once
#include <hls_stream.h>
template <int N> void feed(const int* in, hls::stream<int>& a) { for (int i = 0; i < N; i++) a.write(in[i]); }
template <int N> void twice(hls::stream<int>& a, hls::stream<int>& b) {
    for (int i = 0; i < N; i++) b.write(FACTOR * a.read());
}
template <int N> void store(hls::stream<int>& b, int* out) { for (int i = 0; i < N; i++) out[i] = b.read(); }
"""
CONFIG = """part=xcvu9p-flga2104-2-i

[hls]
clock=5
flow_target=vivado
syn.file=scale.cpp
syn.cflags=-DFACTOR=2 -std=c++14 -O3
syn.top=scale
tb.file=scale_tb.cpp
tb.file=numbers.dat
csim.argv=one
"""
SCRIPT = """# a comment; with { a brace
open_component -reset scale
set_top scale
set root .
if {![info exists FACTOR]} {
  set FACTOR 2
}
add_files $root/scale.cpp -cflags "-DFACTOR=${FACTOR}"
add_files -tb "scale_tb.cpp numbers.dat"
open_solution -reset s
set_part {xcvu9p-flga2104-2-i}
if {$CSIM == 1} {
  csim_design -argv "one"
} else { csynth_design }
exit
"""


@pytest.fixture
def component(tmp_path: Path) -> Path:
    (tmp_path / "parts").mkdir()
    (tmp_path / "extra").mkdir()
    for name, text in {
        "scale.h": HEADER, "scale.cpp": SOURCE, "parts/stages.h": STAGES, "scale_tb.cpp": BENCH,
        "numbers.dat": "1 2 3 4 5 6 7 21\n", "extra/more.dat": "42\n", "hls_config.cfg": CONFIG, "run_hls.tcl": SCRIPT,
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("words", [["hls_config.cfg"], ["--config", "hls_config.cfg"], ["run_hls.tcl"]])
def test_a_component_passes_its_own_test_bench(component: Path, words: list[str]) -> None:
    given = [str(component / word) if "." in word else word for word in words]
    assert main(["csim", *given]) == 0
    assert not (component / "result.dat").exists()  # it runs in a folder of its own


def test_the_exit_status_is_that_of_the_test_bench(component: Path) -> None:
    words = ["csim", str(component / "scale.cpp"), "--tb", str(component / "scale_tb.cpp"), "-D", "FACTOR=2"]
    work = component / "work"
    assert main([*words, "--tb", str(component / "numbers.dat"), "--work-dir", str(work), "--", "one", "two"]) == 3
    assert list(work.rglob("result.dat"))


def test_a_deadlock_is_named(component: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = SOURCE.replace("store<8>(b, out);", "store<9>(b, out);")
    (component / "scale.cpp").write_text(text)
    assert main(["csim", str(component / "hls_config.cfg")]) == 1
    error = capfd.readouterr().err
    assert "xclbin-build csim: deadlock" in error and "store waits to read 'b'" in error


def test_an_index_outside_of_an_array_has_file_and_line(component: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loop = "for (int i = 0; i < 9; i++) part[i] = in[0];"
    lines = ["void scale(const int in[8], int out[8]) {", "int part[8];", loop]
    text = "\n".join(['#include "scale.h"', *lines, "out[7] = part[0];", "}", ""])
    (component / "scale.cpp").write_text(text)
    assert main(["csim", str(component / "hls_config.cfg")]) != 0
    assert "scale.cpp:4" in capfd.readouterr().err


def test_a_script_may_have_several_components(component: Path) -> None:
    more = SCRIPT.replace("open_component -reset scale", "open_component -reset again")
    (component / "run_hls.tcl").write_text(SCRIPT + more)
    one, two = hls_project.load(component / "run_hls.tcl")
    assert [each.path.name for each in one.sources] == ["scale.cpp"] == [each.path.name for each in two.sources]
    assert one.arguments == ["one"] and one.sources[0].flags == ("-DFACTOR=2",)


def test_a_variable_that_a_script_does_not_set_is_of_the_environment(
    component: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOT_OF_PROJECT", str(component))
    (component / "run_hls.tcl").write_text('add_files "${ROOT_OF_PROJECT}/scale.cpp" -cflags "-I$ROOT_OF_PROJECT/x"\n')
    (project,) = hls_project.load(component / "run_hls.tcl")
    assert project.sources[0].path == component / "scale.cpp"
    assert project.sources[0].flags == (f"-I{component / 'x'}",)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda text: text.replace("scale.cpp", "missing.cpp"), "missing.cpp does not exist"),
        (lambda text: text.replace("tb.file=scale_tb.cpp\n", ""), "no test bench"),
        (lambda text: text + "nonsense\n", "is no key=value"),
        (lambda text: text + 'syn.cflags="-DX\n', "cannot be read"),
    ],
)
def test_mistakes_of_a_component_are_sentences(
    component: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[str], str], sentence: str
) -> None:
    (component / "hls_config.cfg").write_text(spoil(CONFIG))
    assert main(["csim", str(component / "hls_config.cfg")]) == 2
    assert sentence in capsys.readouterr().err


def test_a_headers_place_is_the_compilers_business(component: Path) -> None:
    (component / "hls_config.cfg").write_text(CONFIG + "syn.file=elsewhere.h\n")
    (project,) = hls_project.load(component / "hls_config.cfg")
    assert project.ignored == ["elsewhere.h"]
    with pytest.raises(RecipeError, match="cannot be read"):
        hls_project.load(component / "nothing.cfg")


def test_statements_that_regions_of_libraries_have() -> None:
    """Shifts in arguments of a template, a static member of one, an assignment behind processes, arrays of tasks."""
    text = rewritten("""void top(const int* in, int& out, int n) {
#pragma HLS dataflow
  hls::stream<word<int, 1 << 2>::type> s;
  hls::task t[4];
  int total;
  load<int, 1 << 2>(in, s);
  Part<2 - 1, int>::run(s, total);
  for (int i = 0; i < 4; i++) { t[i](work, s, i); }
  out = total;
}""")
    lines = text.splitlines()
    assert '::sim::declare(fpga_region_1, s, 0, "s");' in lines[2]
    assert lines[3] == "  ;"
    assert lines[5].startswith('  fpga_region_1.run("load", [&] { load<int, 1 << 2>(in, s); }')
    assert lines[6].startswith('  fpga_region_1.run("Part::run", ')
    assert 'fpga_region_1.task("work", [&, i] { (work)( s, i); });' in lines[7]
    assert lines[8].startswith('  fpga_region_1.run("an assignment", [&] { out = total; }, {::sim::array_name(total')


def test_a_black_box_is_its_model_in_c(component: Path) -> None:
    (component / "box.cpp").write_text("int box(int x) { return x; }\n")
    (component / "box.json").write_text('{"c_files": [{"c_file": "box.cpp", "cflag": "-DX"}]}')
    (component / "hls_config.cfg").write_text(CONFIG + "syn.blackbox.file=box.json\n")
    script = SCRIPT.replace("open_solution", "add_files -blackbox box.json\nopen_solution")
    (component / "run_hls.tcl").write_text(script)
    for name in ("hls_config.cfg", "run_hls.tcl"):
        (project,) = hls_project.load(component / name)
        assert hls_project.SourceFile(component / "box.cpp", ("-DX",)) in project.sources
