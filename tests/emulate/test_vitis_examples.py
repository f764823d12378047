"""benchmarks.vitis_examples: what it reads of a description.json, and the commands that it runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import vitis_examples

DESCRIPTION = {
    "host": {
        "compiler": {
            "sources": ["REPO_DIR/common/xcl2.cpp", "./src/host.cpp"],
            "includepaths": ["REPO_DIR/common"],
        }
    },
    "containers": [
        {
            "name": "chain",
            "accelerators": [
                {"name": "first", "location": "src/first.cpp", "clflags": "-DWIDTH=4 --config PROJECT/hls.cfg"},
                {"name": "second", "location": "src/second.cpp"},
            ],
            "ldclflags": "--config PROJECT/link.cfg --optimize 2",
        }
    ],
    "launch": [{"cmd_args": "-x BUILD/chain.xclbin -f REPO_DIR/common/image.bmp"}],
    "num_devices": 2,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """One example of C++ kernels, and one of RTL."""
    (tmp_path / "cpp/chain/src").mkdir(parents=True)
    (tmp_path / "cpp/chain/src/host.cpp").write_text('#include "xcl2.hpp"\n#include <xrt/xrt_bo.h>\n')
    (tmp_path / "cpp/chain/description.json").write_text(json.dumps(DESCRIPTION))
    (tmp_path / "rtl").mkdir()
    rtl = DESCRIPTION | {"containers": [{"name": "adder", "accelerators": [{"name": "add", "kernel_type": "RTL"}]}]}
    (tmp_path / "rtl/description.json").write_text(json.dumps(rtl))
    return tmp_path


def test_commands_of_an_example(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: dict[str, list[str]] = {}

    def step(name: str, command: Sequence[str], folder: Path, seconds: float, cards: int = 1) -> str:
        words = [word.replace(str(folder), "OUT") for word in command[1:]]
        commands[name] = [Path(command[0]).name, *words, str(cards)]
        return "TEST PASSED"

    monkeypatch.setattr(vitis_examples, "run_step", step)
    assert vitis_examples.main([str(checkout)]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| cpp/chain | native and OpenCL | passed |",
        "| rtl | - | not run: has RTL kernels |",
        "",
        "1 of 2 examples pass with --route inproc",
    ]
    example = checkout / "cpp/chain"
    kernels = [f"{example}/src/first.cpp", "-k", "first", f"{example}/src/second.cpp", "-k", "second"]
    assert commands["xclbin"] == [
        "xclbin-build", "--target", "sw_emu", *kernels, "--config", f"{example}/link.cfg", "-DWIDTH=4",
        "--config", f"{example}/hls.cfg",
        "-I", f"{example}/src", "-o", "OUT/chain.xclbin", "1",
    ]  # fmt: skip
    assert f"-I{checkout}/common" in commands["host"] and f"{checkout}/common/xcl2.cpp" in commands["host"]
    assert commands["run"][1:] == [
        *("emulate", "--route", "inproc", "--"),
        *("OUT/host", "-x", "OUT/chain.xclbin", "-f", f"{checkout}/common/image.bmp", "2"),
    ]


@pytest.mark.parametrize(
    ("err", "out", "line"),
    [
        ("a.cpp:3:1: error: no such type\nnote", "", "a.cpp:3:1: error: no such type"),
        ("terminate called\n  what():  bad\nfpga_dynamo: kernel 'a' hung", "x", "fpga_dynamo: kernel 'a' hung"),
        ("terminate called\n  what():  bad", "", "what():  bad"),
        ("", "first\nlast\n", "last"),
        ("", "", "no output"),
    ],
)
def test_the_line_that_says_most(err: str, out: str, line: str) -> None:
    assert vitis_examples.first_error(err, out) == line


def test_a_step_that_fails_or_takes_too_long(tmp_path: Path) -> None:
    with pytest.raises(vitis_examples.Failure, match="host: exit status 3, no output"):
        vitis_examples.run_step("host", ["sh", "-c", "exit 3"], tmp_path, 30)
    with pytest.raises(vitis_examples.Failure, match=r"run: not done after 0\.2 s"):
        vitis_examples.run_step("run", ["sleep", "30"], tmp_path, 0.2)
