"""What the stand-ins for AMD's tools do; see fake_vitis.py. Runs as a script of its own, which starts fast."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

COMPILE = {"-t", "--platform", "-c", "-k", "--hls.clock", "--temp_dir", "-o"}
UNIFIED = {"-c", "--mode", "--config", "--work_dir"}
LINK = {"-t", "--platform", "-l", "--config", "--temp_dir", "-o"}
PACKAGE = {"-t", "--platform", "-p", "--config", "-o"}
HLS_KEYS = {
    *("flow_target", "clock", "syn.top", "syn.file", "syn.cflags", "package.output.format", "package.output.syn"),
    *("package.output.file", "syn.interface.default_axi"),
}
PACKAGE_KEYS = {"out_dir", "boot_mode", "image_format", "rootfs", "kernel_image", "no_image"}
REPORT = """<profile>
<ReportVersion><Version>{release}</Version></ReportVersion>
<UserAssignments><unit>ns</unit><Part>{part}</Part><TopModelName>{top}</TopModelName>
<TargetClockPeriod>{target}</TargetClockPeriod><ClockUncertainty>0.90</ClockUncertainty></UserAssignments>
<PerformanceEstimates><SummaryOfTimingAnalysis><unit>ns</unit><EstimatedClockPeriod>{estimated}</EstimatedClockPeriod>
</SummaryOfTimingAnalysis><SummaryOfOverallLatency><Worst-caseLatency>undef</Worst-caseLatency></SummaryOfOverallLatency>
</PerformanceEstimates>
<AreaEstimates><Resources><BRAM_18K>5</BRAM_18K><DSP>2</DSP><FF>900</FF><LUT>800</LUT><URAM>0</URAM></Resources>
</AreaEstimates>
<ModuleInformation><Module><Name>{top}</Name><PerformanceEstimates><SummaryOfLoopLatency>{loops}</SummaryOfLoopLatency>
</PerformanceEstimates><AreaEstimates><Resources><BRAM_18K>5</BRAM_18K><DSP>2</DSP><FF>900</FF><LUT>800</LUT>
<URAM>0</URAM></Resources></AreaEstimates></Module></ModuleInformation>
</profile>
"""
LOOP = (
    "<{0}><Name>{0}</Name><TripCount>32</TripCount><PipelineII>{1}</PipelineII><PipelineDepth>{2}</PipelineDepth></{0}>"
)


def main(tool: str, folder: str) -> None:
    """One of the tools, with the command line in sys.argv."""
    words = sys.argv[1:]
    with open(Path(folder) / "calls", "a") as log:
        print(json.dumps([tool, *words]), file=log)
    settings = json.loads((Path(folder) / "settings").read_text())
    if words == ["--version"]:
        print(f"****** {tool} v{settings['release']} (64-bit)\n  **** SW Build 1 on 2024-01-01")
        return
    step = step_of([tool, *words])
    fault = settings["faults"].get(step, "")
    print(f"INFO: [v++ 60-1443] [12:00:00] Run run_{step.split()[0]}: Step vpl: Started", flush=True)
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "error":
        _fail("[v++ 60-300] Failed to build kernel(ip) vadd, see log for details")
    if fault == "license":
        _fail("[Common 17-345] A valid license was not found for feature 'Synthesis'")
    if fault == "timing":
        print("WNS: -0.213", flush=True)
        _fail("[VPL 101-2] design did not meet timing - timing violation")
    if fault == "nothing":
        return
    if fault == "scaled":
        print("The frequency is being automatically changed to 251.5 MHz to enable proper functionality.")
    {"v++": _vpp, "vitis-run": _vitis_run, "emconfigutil": _emconfig, "xclbinutil": _xclbinutil, "bootgen": _bootgen,
     "dtc": _dtc}[tool](words, settings)  # fmt: skip


def step_of(call: list[str]) -> str:
    tool, *words = call
    if tool != "v++":
        return f"xo {_value(words, '--config').split('.')[0]}" if tool == "vitis-run" else tool
    if "-c" in words:
        return f"csynth {_value(words, '-k') or _value(words, '--config').split('.')[0]}"
    return "link" if "-l" in words else "package"


def _fail(text: str) -> None:
    sys.exit(f"ERROR: {text}")


def _value(words: list[str], option: str) -> str:
    return words[words.index(option) + 1] if option in words else ""


def _options(words: list[str], known: set[str], flags: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """Options with their values, and files; an unknown option ends the tool."""
    found: dict[str, str] = {}
    files: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.startswith(("-I", "-D")) and word not in known:
            continue
        if word.startswith("-"):
            if word not in known:
                _fail(f"[v++ 60-400] unrecognised option '{word}'")
            if word in found:
                _fail(f"[v++ 60-400] option '{word}' is given twice")
            found[word] = "" if word in flags else next(rest)
        else:
            files.append(word)
    missing = sorted(known - found.keys() - {"--temp_dir", "--hls.clock"})
    if missing:
        _fail(f"[v++ 60-401] the option '{missing[0]}' is required but missing")
    return found, files


def _config(path: str, keys: set[str], section: str, outside: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    inside = ""
    for line in Path(path).read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            inside = line.strip("[]")
            continue
        key, _, value = line.partition("=")
        if key not in (keys if inside == section else outside if not inside else ()):
            _fail(f"[v++ 60-402] {path}: unknown key '{key}' in [{inside}]")
        found.setdefault(key, []).append(value)
    return found


def _vpp(words: list[str], settings: Mapping[str, object]) -> None:
    release = str(settings["release"])
    if "--mode" in words:
        if release < "2023.2":
            _fail("[v++ 60-400] unrecognised option '--mode'")
        options, _ = _options(words, UNIFIED, ("-c",))
        _synthesized(_hls_config(options["--config"], release), Path(options["--work_dir"]) / "hls", settings)
    elif "-c" in words:
        options, files = _options(words, COMPILE, ("-c",))
        if not re.fullmatch(rf"\d{{6,}}:{options['-k']}", options["--hls.clock"]):
            _fail(f"[v++ 60-403] --hls.clock {options['--hls.clock']}: write FREQUENCY_IN_HZ:KERNEL")
        for file in files:
            _require(file)
        kernel = {"syn.top": [options["-k"]], "clock": [f"{int(options['--hls.clock'].split(':')[0]) / 1e6:g}MHz"]}
        _synthesized(kernel, Path(options["--temp_dir"]) / options["-k"] / "solution", settings)
        Path(options["-o"]).write_text(f"xo {options['-k']}")
    elif "-l" in words:
        _link(words, release)
    else:
        _package(words, release)


def _hls_config(path: str, release: str) -> dict[str, list[str]]:
    found = _config(path, HLS_KEYS, "hls", {"part"})
    wanted = "flow_target" if release < "2026.1" else "syn.interface.default_axi"
    if wanted not in found or len(found.keys() & {"flow_target", "syn.interface.default_axi"}) != 1:
        _fail(f"[HLS 200-1] {path}: this release needs {wanted} and nothing else")
    if not re.fullmatch(r"\d+(\.\d+)?MHz", found["clock"][0]) or not found["part"][0].startswith("xc"):
        _fail(f"[HLS 200-2] {path}: clock or part")
    for file in found["syn.file"]:
        _require(file)
    for flag in found["syn.cflags"][0].split():
        if not flag.startswith(("-I", "-D")):
            _fail(f"[HLS 200-3] {flag}")
    return found


def _synthesized(config: Mapping[str, list[str]], folder: Path, settings: Mapping[str, object]) -> None:
    report = folder / "syn" / "report"
    report.mkdir(parents=True)
    top = config["syn.top"][0]
    loops = settings["loops"]
    assert isinstance(loops, dict)
    text = "".join(LOOP.format(name, *figures) for name, figures in loops.get(top, {}).items())
    target = 1000 / float(config["clock"][0].removesuffix("MHz"))
    (report / "csynth.xml").write_text(
        REPORT.format(release=settings["release"], part="xcu250-figd2104-2L-e", top=top, target=f"{target:.2f}",
                      estimated=settings["estimated"], loops=text)
    )  # fmt: skip


def _vitis_run(words: list[str], settings: Mapping[str, object]) -> None:
    options, files = _options(words, {"--mode", "--package", "--config", "--work_dir"}, ("--package",))
    if files or options["--mode"] != "hls":
        _fail(f"[vitis-run] {words}")
    config = _hls_config(options["--config"], str(settings["release"]))
    if not list(Path(options["--work_dir"]).rglob("csynth.xml")):
        _fail("[HLS 200-4] the component has not been synthesized")
    if config["package.output.format"] != ["xo"]:
        _fail("[HLS 200-5] package.output.format")
    Path(config["package.output.file"][0]).write_text(f"xo {config['syn.top'][0]}")


def _link(words: list[str], release: str) -> None:
    options, files = _options(words, LINK, ("-l",))
    embedded = "_base_" in options["--platform"]
    versal = "vck190" in options["--platform"]
    if options["-o"].endswith(".xsa") != versal:
        _fail(f"[v++ 60-404] the link of this platform writes {'an .xsa' if versal else 'an .xclbin'}")
    kernels = [Path(file).read_text().removeprefix("xo ") for file in files]
    units: dict[str, str] = {}
    section = ""
    for line in Path(options["--config"]).read_text().splitlines():
        key, _, value = line.partition("=")
        if line.startswith("["):
            section = line
        elif not section.removesuffix("[clock]") and key == ("defaultFreqHz" if embedded else "kernel_frequency"):
            if (section == "[clock]") != embedded or not 50 <= float(value) / (1e6 if embedded else 1) <= 1000:
                _fail(f"[v++ 60-412] {line}")
        elif section == "[connectivity]" and key == "nk":
            name, count, given = value.split(":")
            if name not in kernels or len(given.split(".")) != int(count):
                _fail(f"[v++ 60-405] {line}")
            units |= dict.fromkeys(given.split("."), name)
        elif section == "[connectivity]" and key in ("sp", "slr", "stream_connect"):
            ends = value.split(":")[:2] if key == "stream_connect" else [re.split(r"[.:]", value)[0]]
            good = {"sp": r"\w+\.\w+:\w+(\[\d+(:\d+)?\])?", "slr": r"\w+:SLR\d",
                    "stream_connect": r"\w+\.\w+:\w+\.\w+(:\d+)?"}[key]  # fmt: skip
            if not re.fullmatch(good, value) or any(end.split(".")[0] not in units for end in ends):
                _fail(f"[v++ 60-406] {line}")
        elif line and not line.startswith("#"):
            _fail(f"[v++ 60-407] {options['--config']}: {line}")
    handoff = Path(options["--temp_dir"]) / "vivado" / "top.hwh"
    handoff.parent.mkdir(parents=True, exist_ok=True)
    handoff.write_text('<?xml version="1.0"?><EDKSYSTEM><MODULES/></EDKSYSTEM>')
    if versal:
        Path(options["-o"]).write_bytes(b"PK\3\4xsa")
    else:
        _xclbin(options["-o"], "board" if embedded else "card")


def _xclbin(path: str, kind: str) -> None:
    shutil.copyfile(Path(sys.argv[0]).parent / f"{kind}.xclbin", path)


def _package(words: list[str], release: str) -> None:
    options, files = _options(words, PACKAGE, ("-p",))
    versal = files[:1] == ["linked.xsa"] or (not files and options["--platform"] == "linked.xsa")
    if versal and (release >= "2026.1") != (not files):
        _fail("[v++ 60-408] of a Versal, the platform is the .xsa from 2026.1 on, and the input before")
    if not versal and files != ["linked.xclbin"]:
        _fail(f"[v++ 60-409] {files}")
    _require(files[0] if files else options["--platform"])
    config = _config(options["--config"], PACKAGE_KEYS, "package", set())
    if "no_image" in config:
        if config["no_image"] != ["true"] or len(config) != 3:
            _fail("[v++ 60-410] no_image")
    else:
        for key in ("rootfs", "kernel_image"):
            _require(config[key][0])
    card = Path(config["out_dir"][0]) / "sd_card"
    card.mkdir(parents=True)
    (card / "BOOT.BIN").write_bytes(b"boot")
    if "rootfs" in config:
        (card.parent / "sd_card.img").write_bytes(b"image")
    _xclbin(options["-o"], "card" if versal else "board")


def _emconfig(words: list[str], settings: Mapping[str, object]) -> None:
    options, _ = _options(words, {"--platform", "--od"}, ())
    (Path(options["--od"]) / "emconfig.json").write_text("{}")


def _xclbinutil(words: list[str], settings: Mapping[str, object]) -> None:
    options, files = _options(words, {"--force", "--input", "--add-section", "--output"}, ("--force",))
    section = re.fullmatch(r"USER_METADATA:RAW:(.+)", options["--add-section"])
    if files or not section:
        _fail(f"xclbinutil {words}")
    assert section is not None
    if "fpga_dynamo" not in json.loads(Path(section[1]).read_text()):
        _fail(f"xclbinutil: {section[1]}")
    shutil.copyfile(options["--input"], options["--output"])


def _bootgen(words: list[str], settings: Mapping[str, object]) -> None:
    options, files = _options(words, {"-image", "-arch", "-process_bitstream", "-w"}, ())
    if files or (options["-arch"], options["-process_bitstream"], options["-w"]) != ("zynqmp", "bin", "on"):
        _fail(f"[bootgen] {words}")
    image = re.fullmatch(r"all:\s*\{\s*(?:\[destination_device = pl\] )?(\S+\.bit)\s*\}\s*",
                         Path(options["-image"]).read_text())  # fmt: skip
    if not image:
        _fail("[bootgen] the .bif")
    assert image is not None
    data = Path(image[1]).read_bytes()
    words_of = data[data.index(bytes.fromhex("ffffffff")) :]
    swapped = b"".join(words_of[at : at + 4][::-1] for at in range(0, len(words_of), 4))
    Path(f"{image[1]}.bin").write_bytes(swapped)


def _dtc(words: list[str], settings: Mapping[str, object]) -> None:
    options, files = _options(words, {"-@", "-I", "-O", "-o"}, ("-@",))
    if len(files) != 1 or (options["-I"], options["-O"]) != ("dts", "dtb"):
        _fail(f"[dtc] {words}")
    text = Path(files[0]).read_text()
    code = re.sub(r"//.*", "", text)
    if code.split()[:2] != ["/dts-v1/;", "/plugin/;"] or code.count("{") != code.count("}"):
        _fail("[dtc] syntax error")
    body = code.replace('"', "\0").encode() + b"\0"
    Path(options["-o"]).write_bytes(struct.pack(">II", 0xD00DFEED, len(body) + 8) + body)


def _require(path: str) -> None:
    if not Path(path).is_file():
        _fail(f"[v++ 60-411] cannot open '{path}'")
