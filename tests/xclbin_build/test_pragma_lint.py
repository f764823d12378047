"""Pragmas that g++ lets pass: each mistake is named with what was meant, and right ones are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hls_kernels import ROOT
from xclbin_build.cli import main
from xclbin_build.pragma_lint import check_files

HEAD = 'extern "C" void vadd(const int* in, int* out, int count) {\n    int line[64];\n'
BODY = "    for (int i = 0; i < count; i++) out[i] = in[i] + line[i];\n}\n"


def said(folder: Path, *pragmas: str) -> list[str]:
    """The findings in a kernel with these lines."""
    path = folder / "vadd.cpp"
    path.write_text(HEAD + "".join(f"{line}\n" for line in pragmas) + BODY)
    return [f"{finding.line}: {finding.text}" for finding in check_files([path])]


@pytest.mark.parametrize(
    ("pragma", "expected"),
    [
        ("HLS pipelne II=1", "unknown pragma 'pipelne'; did you mean 'pipeline'?"),
        ("HLS INTERFACE axim port=in", "'interface' does not accept 'axim'; did you mean 'm_axi'?"),
        ("HLS INTERFACE mode=s_axlite port=in", "does not accept mode=s_axlite; did you mean 's_axilite'?"),
        ("HLS INTERFACE m_axi port=imn", "function 'vadd' has no argument 'imn'; did you mean 'in'?"),
        ("HLS INTERFACE m_axi port=in bundel=gmem0", "'interface' has no option 'bundel'; did you mean 'bundle'?"),
        ("HLS array_partition variable=lin complete", "no variable 'lin' in function 'vadd'; did you mean 'line'?"),
        ("HLS array_partition variable=line type=complet", "does not accept type=complet; did you mean 'complete'?"),
        ("HLS array_partition complete", "'array_partition' has no effect without variable=NAME"),
        ("HLS unroll factr=4", "'unroll' has no option 'factr'; did you mean 'factor'?"),
        ("HLS bind_storage variable=line type=ram_2p impl=ulram", "impl=ulram; did you mean 'uram'?"),
        ("HLS pipeline II", "the option 'ii' of 'pipeline' has no value"),
        ("HSL pipeline II=1", "'#pragma HSL' has no effect; did you mean 'HLS'?"),
        ("HLS", "a '#pragma HLS' without a kind has no effect"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, pragma: str, expected: str) -> None:
    (finding,) = said(tmp_path, f"#pragma {pragma}")
    assert finding.startswith("3: ") and expected in finding


def test_right_pragmas_pass(tmp_path: Path) -> None:
    assert not said(
        tmp_path,
        "#pragma HLS INTERFACE m_axi port = in offset = slave bundle = gmem0 max_read_burst_length = 64",
        "#pragma HLS INTERFACE mode=s_axilite port=return bundle=control",
        "#pragma HLS pipeline II=1 rewind style=flp",
        "#pragma HLS ARRAY_PARTITION variable=line cyclic factor=4 dim=1",
        "#pragma HLS dependence variable=line inter RAW distance=4 true",
        "#pragma HLS bind_storage variable=line type=RAM_2P impl=BRAM",
        "#pragma omp parallel for",
        "#pragma once",
        "// #pragma HLS pipelne",
    )


def test_a_macro_and_a_header_are_read(tmp_path: Path) -> None:
    (tmp_path / "part.hpp").write_text(
        "#define DEPTH 4\nstruct state { int rows[4]; };\n"
        "inline void part(state& s) {\n#pragma HLS array_partition variable=s.rows factor=DEPTH cyclc\n}\n"
    )
    path = tmp_path / "k.cpp"
    path.write_text('#include "part.hpp"\nextern "C" void k(int* a) {\n#pragma HLS stable variable=a\n}\n')
    (finding,) = check_files([path])
    assert str(finding) == f"{tmp_path}/part.hpp:4: 'array_partition' does not accept 'cyclc'; did you mean 'cyclic'?"


def test_the_kernels_of_the_package_have_no_findings() -> None:
    files = sorted(path for kind in ("*.hpp", "*.cpp") for path in ROOT.rglob(kind))
    assert len(files) > 100
    assert not [str(finding) for finding in check_files(files, [ROOT, ROOT / "lib"])]


def kernel(folder: Path) -> Path:
    (folder / "k.cpp").write_text(
        'extern "C" void k(const int* a, int* out) {\n#pragma HLS INTERFACE axim port=a\n    out[0] = a[0];\n}\n'
    )
    (folder / "k.toml").write_text('[kernel.k]\nsource = "k.cpp"\n')
    return folder / "k.cpp"


def test_check_reports_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = kernel(tmp_path)
    assert main(["check", str(path), "--top", "k"]) == 1
    assert f"{path}:2: 'interface' does not accept 'axim'" in " ".join(capsys.readouterr().out.split())
    assert main(["check", "--recipe", str(tmp_path / "k.toml"), "--platform", "u250", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["passes"] is False
    assert document["pragmas"] == [
        {"file": str(path), "line": 2, "text": "'interface' does not accept 'axim'; did you mean 'm_axi'?"}
    ]


def test_a_build_for_hardware_stops_and_can_be_told_not_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = kernel(tmp_path)
    words = ["--target", "hw", "--recipe", str(tmp_path / "k.toml"), "--platform", "u250", "--no-fit-check"]
    words += ["--sources-only", str(tmp_path / "out")]
    assert main(words) == 2
    assert f"error: {path}:2: 'interface' does not accept 'axim'" in capsys.readouterr().err
    assert main([*words, "--no-pragma-check"]) == 0
    assert f"{path}:2: 'interface' does not accept 'axim'" in capsys.readouterr().err


@pytest.mark.parametrize("platform", ["emu", "u250"])
def test_a_region_that_no_card_has_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], platform: str
) -> None:
    kernel(tmp_path)
    (tmp_path / "k.toml").write_text('[kernel.k]\nsource = "k.cpp"\nslr = ["SLR9"]\n')
    assert main(["--target", "emu", "--recipe", str(tmp_path / "k.toml"), "--platform", platform]) == 2
    assert "SLR9" in capsys.readouterr().err


REGION = "void k(int* x) {\n#pragma HLS dataflow\n"
STRUCTURES = {
    "int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }": "function 'f' calls itself, and Vitis HLS has no",
    "int f(int); int g(int n) { return f(n); } int f(int n) { return n ? g(n - 1) : 0; }": "'g' calls itself through",
    "void sort(int a[8], int low, int high) { sort(a, low, high / 2); }": "function 'sort' calls itself",
    "template <int N> int f(int n) { return f<N - 1>(n); }": "",
    "constexpr int f(int n) { return n ? f(n - 1) : 0; }": "",
    "int f(float x) { return x; } int f(int n) { return f(1.f * n); }": "",
    "int f(vec& x) { return f(x.y); }": "",
    "int f(int a, int b) { return f(a + b); }": "",
    "struct s { int f(int n) { return other.f(n); } s& other; };": "",
    f"{REGION}int t[9]; a(x, t); b(t, x); c(t, x); }}": "array 't' of a dataflow region is used by a, b, c",
    f"{REGION}int t[9]; a(x, t); b(t, x); }}": "",
    f"{REGION}int t[3][9]; a(x, t[0]); b(t[0], t[1]); c(t[1], x); }}": "",
    f"{REGION}#pragma HLS stable variable=t\nint t[9]; a(x, t); b(t, x); c(t, x); }}": "",
}
LOOP = (
    "void k(int* a, int n) {{ int t[256];\nfor (int i = {first}; i < {last}; i++) {{\n"
    "#pragma HLS dependence variable=t {kind}\n{body} }} }}"
)
DENIED = [
    ("1", "256", "inter false", "t[i] = t[i - 1] + a[i];", "t[i - 1] is what the iteration before has written"),
    ("8", "n", "type=inter dependent=false", "int x = t[i - 1]; t[i] = x;", "write distance=1 dependent=true"),
    ("8", "256", "inter false", "t[i] = t[i - 4] + a[i];", "t[i - 4] is what the iteration 4 before has written"),
    ("0", "4", "inter false", "t[i] = t[i - 4] + a[i];", ""),
    ("1", "256", "intra false", "t[i] = t[i - 1] + a[i];", ""),
    ("1", "256", "inter true", "t[i] = t[i - 1] + a[i];", ""),
    ("1", "256", "inter false", "t[i] = t[i + 1] + a[i];", ""),
    ("1", "256", "inter false", "if (a[i]) t[i] = t[i - 1];", ""),
    ("1", "256", "inter false", "t[a[i]] = t[i - 1];", ""),
]


@pytest.mark.parametrize("source", STRUCTURES)
def test_recursion_and_shared_arrays_are_named(tmp_path: Path, source: str) -> None:
    (tmp_path / "k.cpp").write_text(source + "\n")
    found = [finding.text for finding in check_files([tmp_path / "k.cpp"])]
    expected = STRUCTURES[source]
    assert bool(found) == bool(expected) and all(expected in text for text in found[:1])


@pytest.mark.parametrize(("first", "last", "kind", "body", "expected"), DENIED)
def test_a_dependence_that_indices_prove_cannot_be_denied(
    tmp_path: Path, first: str, last: str, kind: str, body: str, expected: str
) -> None:
    (tmp_path / "k.cpp").write_text(LOOP.format(first=first, last=last, kind=kind, body=body))
    found = [finding.text for finding in check_files([tmp_path / "k.cpp"])]
    assert len(found) == bool(expected) and all(expected in text for text in found)
