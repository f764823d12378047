"""How loops and the top function are made known to the co-simulation."""

from __future__ import annotations

import pytest

from xclbin_build.cosim.instrument import instrumented


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("void f() { for (int i = 0; i < 4; i++) g(i); }", ".test() && ( i < 4) && "),
        ("void f() { while (x > 0) x--; }", ".test() && (x > 0) && "),
        ("void f() { for (;;) { g(); } }", ".begin();"),
        ("void f() { do { g(); } while (x); }", "{ fpga_loop_11.begin(); g();"),
        ("void f() { for (int x : v) { g(x); } }", ".begin(); g(x);"),
    ],
)
def test_loops(text: str, expected: str) -> None:
    found = instrumented(text, "top")
    assert expected in found
    assert found.count("::sim::cosim::loop") == 1


@pytest.mark.parametrize(
    "text",
    [
        "constexpr int f() { int s = 0; for (int i = 0; i < 4; i++) s += i; return s; }",
        "#define EACH for (int i = 0; i < 4; i++)\nint x;",
        "void f() { while (int x = g()) h(x); }",
    ],
)
def test_what_stays(text: str) -> None:
    assert instrumented(text, "top") == text


def test_the_end_of_a_do_is_no_loop() -> None:
    found = instrumented("void f() { do { g(); } while (x > 1); while (y) h(); }", "top")
    assert found.count("::sim::cosim::loop") == 2
    assert "while (x > 1);" in found


def test_an_else_keeps_its_if() -> None:
    found = instrumented("void f() { if (a) for (int i = 0; i < 4; i++) g(); else h(); }", "top")
    assert "if (a) switch (" in found and "g(); else h();" in found


def test_lines_stay() -> None:
    text = "void top(int a)\n{\n  for (int i = 0;\n       i < 4; i++)\n    g();\n}\n"
    found = instrumented(text, "top")
    assert found.count("\n") == text.count("\n")
    assert '{ ::sim::cosim::top_call fpga_top("top");' in found.splitlines()[1]


def test_a_call_of_the_top_is_no_definition() -> None:
    assert "top_call" not in instrumented("int main() { top(1); if (top(2)) return 1; }", "top")
