"""The flow with Vitis' tools, which strict stand-ins play: from --target hw to what a board loads, and its failures."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tests.xclbin_build import fake_vitis
from xclbin_build import ToolchainError, read
from xclbin_build.axlf import Section
from xclbin_build.build import load_design
from xclbin_build.cli import main
from xclbin_build.flow import kria, pynq, tools, vitis

KERNEL = """extern "C" void NAME(const float* a, float* out, int count) {
#pragma HLS INTERFACE m_axi port=a bundle=gmem0
#pragma HLS INTERFACE m_axi port=out bundle=gmem1
    for (int i = 0; i < count; i++) out[i] = a[i];
}
"""


def recipe(folder: Path, text: str = "", names: tuple[str, ...] = ("vadd", "vmul")) -> Path:
    """A recipe of plain kernels."""
    for name in names:
        (folder / f"{name}.cpp").write_text(KERNEL.replace("NAME", name))
    kernels = "".join(f'[kernel.{name}]\nsource = "{name}.cpp"\n' for name in names)
    path = folder / "mine.toml"
    path.write_text(text or f'name = "mine"\n{kernels}')
    return path


def run(folder: Path, *words: str, platform: str = "u250", target: str = "hw") -> int:
    """xclbin-build with the recipe of `recipe` and an xclbin `app.xclbin`."""
    own = ["--recipe", str(folder / "mine.toml"), "--platform", platform, "--no-fit-check"]
    return main(["--target", target, *own, "-o", str(folder / "app.xclbin"), *words])


def linux(folder: Path) -> Path:
    (folder / "linux").mkdir()
    for name in ("rootfs.ext4", "Image"):
        (folder / "linux" / name).write_text(name)
    return folder / "linux"


@pytest.mark.parametrize(
    ("platform", "release", "boards"),
    [
        ("u250", "2022.2", ["pynq"]), ("u280", "2026.1", []), ("kv260", "2023.1", ["kria", "pynq"]),
        ("kv260", "2025.2", ["kria", "sd"]), ("zcu102", "2022.2", ["sd", "pynq"]), ("zcu102", "2026.1", ["sd"]),
        ("vck190", "2024.1", ["sd"]), ("vck190", "2026.1", ["sd"]),
    ],
)  # fmt: skip
def test_from_sources_to_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, release: str, boards: list[str]
) -> None:
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch, release)
    recipe(tmp_path)
    words = [word for board in boards for word in ("--board", f"{board}={tmp_path / board}")]
    words += ["--linux", str(linux(tmp_path))] if "sd" in boards else []
    assert run(tmp_path, *words, platform=platform) == 0
    xclbin = tmp_path / "app.xclbin"
    assert read(xclbin).manifest["target"] == "hw"
    unified = release >= "2023.2"
    expected = [f"csynth {name}" for name in ("vadd", "vmul")]
    expected = [step for name in expected for step in ((name, name.replace("csynth", "xo")) if unified else (name,))]
    packed = platform == "vck190" or "sd" in boards
    expected += ["link", *(["package"] if packed else []), *(["bootgen", "dtc"] if "kria" in boards else [])]
    assert fake.steps() == expected
    if "kria" in boards:
        files = {"app.bit.bin", "app.dtbo", "app.xclbin", "shell.json"}
        assert {path.name for path in (tmp_path / "kria").iterdir()} == files
        assert json.loads((tmp_path / "kria" / "shell.json").read_text()) == {
            "shell_type": "XRT_FLAT",
            "num_slots": "1",
        }
    if "pynq" in boards:
        extra = set() if platform == "u250" else {"app.bit", "app.hwh"}
        assert {path.name for path in (tmp_path / "pynq").iterdir()} == {"app.xclbin", "app.py"} | extra
    if "sd" in boards:
        card = tmp_path / "sd" / "sd_card"
        assert {path.name for path in card.iterdir()} == {"BOOT.BIN", "app.xclbin"}
        assert (card / "app.xclbin").read_bytes() == xclbin.read_bytes()
        assert (tmp_path / "sd" / "sd_card.img").is_file()


def test_hardware_emulation_of_a_card_and_of_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch)
    recipe(tmp_path, names=("vadd",))
    recipe_text = 'name = "mine"\n[kernel.vadd]\nsource = "vadd.cpp"\n'
    (tmp_path / "mine.toml").write_text(recipe_text)
    assert run(tmp_path, target="hw_emu") == 0
    assert fake.steps()[-2:] == ["link", "emconfigutil"]
    assert run(tmp_path, target="hw_emu", platform="zcu102") == 0
    assert fake.steps()[-1] == "package"


def test_links_streams_ranges_and_regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch)
    head = '#include <hls_stream.h>\nextern "C" void '
    (tmp_path / "a.cpp").write_text(f"{head}a(const int* in, hls::stream<int>& out) {{ out.write(in[0]); }}\n")
    (tmp_path / "b.cpp").write_text(f"{head}b(hls::stream<int>& in, int* out) {{ out[0] = in.read(); }}\n")
    words = [
        *(
            "--target",
            "hw",
            "--platform",
            "u280",
            str(tmp_path / "a.cpp"),
            "-k",
            "a",
            str(tmp_path / "b.cpp"),
            "-k",
            "b",
        ),
        *("--connectivity.sp", "a_1.in:HBM[0:3]", "--connectivity.sc", "a_1.out:b_1.in:64"),
        *("--connectivity.slr", "b_1:SLR1", "--clock", "250", "--no-fit-check", "-o", str(tmp_path / "app.xclbin")),
    ]
    monkeypatch.chdir(tmp_path)
    assert main(words) == 0
    link = next(call for call in fake.calls if "-l" in call)
    assert link[-2:] == ["a.xo", "b.xo"]
    directory = next(
        path for path in Path(os.environ["FPGA_DYNAMO_CACHE"]).rglob("link.cfg") if "HBM[0:3]" in path.read_text()
    )
    text = directory.read_text()
    assert "kernel_frequency=250" in text and "slr=b_1:SLR1" in text and "stream_connect=a_1.out:b_1.in:64" in text
    assert read(tmp_path / "app.xclbin").manifest["platform"]["clock_mhz"] == 250


def test_a_build_resumes_by_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch)
    recipe(tmp_path)
    (tmp_path / "part.hpp").write_text("const int PART = 1;\n")
    (tmp_path / "vmul.cpp").write_text('#include "part.hpp"\n' + KERNEL.replace("NAME", "vmul"))
    assert run(tmp_path) == 0
    fake.forget()
    os.utime(tmp_path / "vadd.cpp", (1, 1))
    assert run(tmp_path) == 0
    assert fake.steps() == []
    assert "kept from before: g++ vadd, g++ vmul, csynth vadd" in " ".join(capsys.readouterr().err.split())
    (tmp_path / "part.hpp").write_text("const int PART = 2;\n")
    assert run(tmp_path) == 0
    assert fake.steps() == ["csynth vmul", "xo vmul"], "the .xo is the same, so the link is"
    fake.forget()
    assert run(tmp_path, "--clock", "200") == 0
    assert fake.steps() == ["csynth vadd", "xo vadd", "csynth vmul", "xo vmul", "link"]


@pytest.mark.parametrize(
    ("step", "fault", "words"),
    [
        ("link", "error", "the step 'link' failed: [v++ 60-300] Failed to build kernel"),
        ("csynth vmul", "license", "get a license for the part, and set XILINXD_LICENSE_FILE"),
        ("link", "timing", "does not meet timing by 0.213 ns; give a lower --clock"),
        ("link", "kill", "was ended by signal 9; run the same command again: finished steps are kept"),
        ("xo vadd", "nothing", "reported success and has not written"),
    ],
)
def test_a_failure_is_a_sentence_and_a_rerun_resumes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: str,
    fault: str,
    words: str,
) -> None:
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch)
    fake.configure(faults={step: fault})
    recipe(tmp_path)
    assert run(tmp_path, "-q") == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and len(said.splitlines()) == 1 and words in said
    assert not (tmp_path / "app.xclbin").exists()
    before = [name for name in fake.steps() if name != step]
    fake.forget()
    fake.configure(faults={})
    assert run(tmp_path) == 0
    assert fake.steps()[0] == step and not set(before) & set(fake.steps())


@pytest.mark.parametrize("fault", ["error", "kill", "nothing"])
@pytest.mark.parametrize(
    ("platform", "board", "step"),
    [("kv260", "kria", "bootgen"), ("kv260", "kria", "dtc"), ("zcu102", "sd", "package"), ("vck190", "sd", "package")],
)
def test_a_failed_package_is_a_sentence_and_a_rerun_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], platform: str, board: str,
    step: str, fault: str,
) -> None:  # fmt: skip
    """Hours of linking are not lost."""
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch)
    fake.configure(faults={step: fault})
    recipe(tmp_path)
    words = ["--board", f"{board}={tmp_path / board}", *(["--linux", str(linux(tmp_path))] if board == "sd" else [])]
    assert run(tmp_path, "-q", *words, platform=platform) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and len(said.splitlines()) == 1 and step in said
    assert "link" in fake.steps()
    fake.forget()
    fake.configure(faults={})
    assert run(tmp_path, *words, platform=platform) == 0
    assert fake.steps()[0] == step and "link" not in fake.steps()
    assert any((tmp_path / board).iterdir())


def test_a_lowered_clock_reaches_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch)
    fake.configure(faults={"link": "scaled"})
    recipe(tmp_path)
    for _ in range(2):  # the second from the stamp
        assert run(tmp_path) == 0
        assert read(tmp_path / "app.xclbin").manifest["platform"]["clock_mhz"] == 251.5
        assert "v++ has lowered the clock to 251.5 MHz" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("missing", "platform", "words", "said"),
    [
        ("v++", "u250", [], r"v++ is not on PATH; run Vitis' settings64.sh first, or use --sources-only DIR"),
        ("vitis-run", "u250", [], "Vitis 2023.2 needs AMD Vitis, and vitis-run is not on PATH"),
        ("dtc", "kv260", ["--board", "kria=app"], "apt-get install device-tree-compiler"),
        ("bootgen", "kv260", ["--board", "kria=app"], "bootgen is not on PATH"),
    ],
)
def test_a_missing_tool_is_named_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str, platform: str,
    words: list[str], said: str,
) -> None:  # fmt: skip
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch, leave_out=(missing,))
    if missing == "dtc":  # a machine may have one
        monkeypatch.setattr(tools.shutil, "which", lambda name: None if name == "dtc" else f"/bin/{name}")
    recipe(tmp_path)
    assert run(tmp_path, *words, platform=platform) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert fake.steps() == []


@pytest.mark.parametrize(
    ("release", "said"), [("2021.1", "Vitis 2021.1 is not supported"), ("9", "does not say a release of Vitis")]
)
def test_a_wrong_release_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], release: str, said: str
) -> None:
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch, release)
    recipe(tmp_path)
    assert run(tmp_path) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert fake.steps() == []


@pytest.mark.parametrize(
    ("platform", "target", "words", "said"),
    [
        ("u250", "hw", ["--board", "kria=app"], "not supported for platform 'u250' (alveo); supported: pynq"),
        ("vck190", "hw", ["--board", "pynq=app"], "supported: sd"),
        ("kv260", "hw_emu", ["--board", "kria=app"], "--board kria requires --target hw, not hw_emu"),
        ("kv260", "hw", ["--board", "kira=app"], "did you mean 'kria'?"),
        ("kv260", "hw", ["--board", "kria"], "write --board kria=DIR"),
        ("kv260", "hw", ["--linux", "."], "--linux requires --board sd=DIR"),
        ("zcu102", "hw", ["--board", "sd=card", "--linux", "/nowhere"], "there is no rootfs.ext4"),
        ("u250", "emu", ["--clock", "300"], "--clock requires --target hw or hw_emu, not emu"),
        ("u250", "hw", ["--csynth", "vad"], "no such kernel; did you mean 'vadd'?"),
        ("u250", "hw", ["--csynth", "vadd", "--board", "pynq=app"], "stops before the link"),
        ("kv260", "hw", ["--board", "kria=app", "-o", "1 app.xclbin"], "use letters, digits"),
    ],
)
def test_refused_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], platform: str, target: str,
    words: list[str], said: str,
) -> None:  # fmt: skip
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch)
    monkeypatch.chdir(tmp_path)
    recipe(tmp_path)
    arguments = ["--target", target, "--recipe", "mine.toml", "--platform", platform, *words]
    arguments += ["--no-fit-check"] if target != "emu" else []
    assert main(arguments) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert fake.steps() == []


@pytest.mark.parametrize(("release", "estimated", "status"), [("2022.2", 2.4, 0), ("2024.2", 3.5, 1)])
def test_csynth_of_one_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], release: str, estimated: float,
    status: int,
) -> None:  # fmt: skip
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch, release)
    fake.configure(estimated=estimated, loops={"vadd": {"copy": (2, 9)}})
    recipe(tmp_path)
    assert run(tmp_path, "--csynth", "vadd") == status
    assert fake.steps() == ["csynth vadd"]
    said = capsys.readouterr().out
    state = "misses" if status else "meets"
    assert f"vadd: {state} the clock of 3.33 ns with {estimated:g} ns; 2 dsp, 2.5 bram36, 800 lut, 900 ff" in said
    assert "vadd.copy: II 2, depth 9" in said
    fake.forget()
    assert run(tmp_path) == 0
    assert "csynth vadd" not in fake.steps()


def test_gxx_rejects_a_kernel_before_vitis_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch)
    recipe(tmp_path)
    (tmp_path / "vmul.cpp").write_text(KERNEL.replace("NAME", "vmul").replace("out[i] = a[i]", "out[i] = b[i]"))
    assert run(tmp_path) == 2
    said = capsys.readouterr().err
    assert "g++ rejects the sources of kernel 'vmul', so Vitis was not started" in said and "vmul.cpp:4" in said
    assert fake.steps() == []
    (tmp_path / "vmul.cpp").write_text("#include <hls_made_by_amd_alone.h>\n" + KERNEL.replace("NAME", "vmul"))
    assert run(tmp_path) == 0


@pytest.mark.parametrize("release", ["2022.2", "2024.1", "2026.1"])
@pytest.mark.parametrize("platform", ["u250", "zcu102", "vck190"])
def test_build_sh_runs_with_each_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, release: str
) -> None:
    fake = fake_vitis.install(tmp_path / "bin", monkeypatch, release)
    vitis.write_sources(load_design(recipe(tmp_path, names=("vadd",)), platform=platform), "hw", tmp_path / "out")
    one = subprocess.run(["./build.sh", "vadd"], cwd=tmp_path / "out", capture_output=True, text=True)
    assert one.returncode == 0, one.stdout + one.stderr
    assert "link" not in fake.steps()
    for path in (tmp_path / "out").glob("vadd.hls"):
        subprocess.run(["rm", "-r", str(path)], check=True)
    done = subprocess.run(["./build.sh"], cwd=tmp_path / "out", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "out" / "torch.xclbin").is_file()
    assert fake.steps()[-1] == "xclbinutil"


def test_the_driver_of_an_overlay_runs_a_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_vitis.install(tmp_path / "bin", monkeypatch)
    recipe(tmp_path)
    assert run(tmp_path, "--board", f"pynq={tmp_path / 'overlay'}", platform="kv260") == 0
    said: list[object] = []

    class Buffer:
        def __init__(self, name: str) -> None:
            self.name = name

        def sync_to_device(self) -> None:
            said.append(f"to {self.name}")

        def sync_from_device(self) -> None:
            said.append(f"from {self.name}")

    class Overlay:
        def __init__(self, path: str) -> None:
            said.append(Path(path).name)
            self.vadd_1 = types.SimpleNamespace(call=lambda *arguments: said.append(arguments[2]))

    monkeypatch.setitem(sys.modules, "pynq", types.SimpleNamespace(Overlay=Overlay, allocate=None))
    module = runpy.run_path(str(tmp_path / "overlay" / "app.py"))
    overlay = module["load"]()
    module["run"](overlay, "vadd_1", Buffer("a"), Buffer("out"), 7)
    assert said == ["app.xclbin", "to a", "to out", 7, "from out"]
    with pytest.raises(TypeError, match="vadd_1 has 3 arguments, not 1"):
        module["run"](overlay, "vadd_1", 7)


def test_damaged_packages_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_vitis.install(tmp_path / "bin", monkeypatch)
    recipe(tmp_path)
    app, overlay = tmp_path / "app", tmp_path / "overlay"
    assert run(tmp_path, "--board", f"kria={app}", "--board", f"pynq={overlay}", platform="kv260") == 0
    kria.check_app(app, "app")
    for name, data, why in (
        ("app.bit.bin", fake_vitis.BIT, "not a bitstream with swapped bytes"),
        ("app.dtbo", (app / "app.dtbo").read_bytes()[:-1], "not a device tree blob of its own length"),
        ("app.xclbin", b"xclbin1", "does not begin with 'xclbin2'"),
        ("shell.json", b'{"shell_type": "XRT_FLAT", "num_slots": 1}', "num_slots"),
        ("shell.json", b'{"shell_type": "XRT_FLAT", "num_slots": "1", "more": 1}', "unknown key 'more'"),
        ("app.bit.bin", b"", "missing or empty"),
    ):
        good = (app / name).read_bytes()
        (app / name).write_bytes(data)
        with pytest.raises(ToolchainError, match=why):
            kria.check_app(app, "app")
        (app / name).write_bytes(good)
    pynq.check_overlay(overlay, "app")
    (overlay / "app.hwh").write_text("<OTHER/>")
    with pytest.raises(ToolchainError, match="not a hardware handoff file"):
        pynq.check_overlay(overlay, "app")


def test_a_kria_needs_a_bitstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_vitis.install(tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(vitis, "_linked", lambda path: read(path, foreign=True).with_section(Section.BITSTREAM, b"pdi"))
    recipe(tmp_path)
    assert run(tmp_path, "--board", f"kria={tmp_path / 'app'}", platform="kv260") == 2
    assert "has no bitstream in the .bit format" in " ".join(capsys.readouterr().err.split())


def test_progress_names_the_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_vitis.install(tmp_path / "bin", monkeypatch)
    recipe(tmp_path, 'name = "mine"\n[kernel.vadd]\nsource = "vadd.cpp"\n', ("vadd",))
    assert run(tmp_path) == 0
    said = capsys.readouterr().err
    assert "1 of 4 steps, csynth vadd, " in said and "3 of 4 steps, link, vpl, " in said
