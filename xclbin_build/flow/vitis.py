"""Builds a design with AMD Vitis, from sources to an xclbin with its manifest and to what an embedded board loads.

This flow has not been run with Vitis; stand-ins for its tools check the calls in the tests, and g++ the sources.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hls_kernels import STAND_INS

from ..axlf import Axlf, Section, read, write
from ..cache import build_directory, digest, locked
from ..design import Design
from ..errors import BuildError, RecipeError, ToolchainError, XclbinError, did_you_mean
from ..generate import hls_sources, stage, user_directories
from ..includes import files_of
from ..manifest import describe, encode
from ..platform import NO_PART
from ..toolchain import process
from ..toolchain.compiler import find_compiler
from ..trusted_path import remove_untrusted
from . import commands, config, csynth, script, tools
from .boards import Package, write_package
from .steps import Outcome, Step, StepProgress, run_steps

_WORDS = 12  # lines of a compiler that are shown


@dataclass(frozen=True)
class Flow:
    """What a build for hardware was asked for beside the xclbin.

    packages: folders for boards. linux: a folder with rootfs.ext4 and Image for the SD card.
    """

    packages: tuple[Package, ...] = ()
    linux: Path | None = None


@dataclass(frozen=True)
class Built:
    """A finished build. directory: has logs, reports and objects. steps: what each took. notes: sentences for the user.
    clock_mhz: to which v++ has lowered the clock, None if it has not."""

    directory: Path
    steps: dict[str, Outcome]
    notes: list[str] = field(default_factory=list)
    clock_mhz: float | None = None


def build(
    design: Design, target: str, output: Path, progress: StepProgress | None = None, flow: Flow | None = None
) -> Built:
    """Compiles and links `design` for `hw` or `hw_emu`, writes the xclbin with its manifest to `output`, and packages.

    Steps that are done, and whose inputs are the same, are not repeated. Raises BuildError with a sentence.
    """
    wanted = flow or Flow()
    _check(design, target, wanted, output)
    release = _tools(target, _needed(design, target, wanted))
    directory = directory_of(design, target)
    with locked(directory) as lock:
        _stage(design, target, directory, release, wanted.linux)
        steps = [*_synthesis(design, target, directory, release), *_linking(design, target, directory, release, wanted)]
        taken = run_steps(steps, directory, progress, [lock])
        lowered = next((one.clock_mhz for one in reversed(taken.values()) if one.clock_mhz), None)
        axlf = _linked(directory / _xclbin_name(design, wanted, target))
        manifest = describe(design, target, "")
        if lowered:
            manifest["platform"]["clock_mhz"] = lowered
        synthesis = csynth.achieved(_reports(design, directory))
        if synthesis:
            manifest["synthesis"] = synthesis
        axlf = axlf.with_section(Section.USER_METADATA, encode(manifest))
        write(output, axlf, keep_uuid=True)
        built = Built(directory, taken, clock_mhz=lowered)
        if lowered:
            built.notes.append(
                f"v++ has lowered the clock to {lowered:g} MHz to meet timing; the manifest says so to the cost model."
            )
        for package in wanted.packages:
            built.notes.extend(write_package(package, axlf, output, design, directory, [lock]))
    return built


def synthesize(design: Design, target: str, kernel: str, progress: StepProgress | None = None) -> Path:
    """Runs the synthesis of one kernel and nothing else, which takes minutes; the folder with its reports.

    A build of the whole design does not repeat it. Raises RecipeError for an unknown kernel.
    """
    known = commands.kernels_of(design)
    if kernel not in known:
        raise RecipeError(f"--csynth {kernel}: no such kernel; {did_you_mean(kernel, known)}")
    _card(design, target)
    release = _tools(target, ["v++"])
    directory = directory_of(design, target)
    with locked(directory) as lock:
        _stage(design, target, directory, release, None)
        names = (f"g++ {kernel}", f"csynth {kernel}")
        steps = [step for step in _synthesis(design, target, directory, release) if step.name in names]
        run_steps(steps, directory, progress, [lock])
    return directory / f"{kernel}.hls"


def directory_of(design: Design, target: str) -> Path:
    """Where a design is built: the same folder after a change of its sources, so that a build resumes."""
    recipe = design.recipe
    return build_directory(digest(["vitis", target, design.platform.xsa, str(recipe.directory), recipe.name]))


def check_directory(directory: Path) -> None:
    """Raises BuildError for a place where no sources can be written."""
    nearest = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        why = "permission denied" if nearest.is_dir() else f"{nearest} is a file"
        raise BuildError(f"{directory} cannot be written: {why}; choose another directory.")


def write_sources(design: Design, target: str, directory: Path) -> list[Path]:
    """Writes all that Vitis needs, and `build.sh` with its commands, to `directory`; returns the files."""
    sources = _sources(design, target, built_here=False)
    for kernel, files in commands.kernels_of(design).items():
        sources[f"{kernel}.hls.cfg"] = config.hls_config(design, kernel, files, commands.flags_of(design, kernel), None)
    if design.platform.embedded:
        sources[commands.PACKAGE_CONFIG] = config.package_config(commands.PACKAGE_FOLDER, None)
    sources["build.sh"] = script.build_script(design, target)
    sources["manifest.json"] = encode(describe(design, target, "")).decode() + "\n"
    stage(sources, directory)
    (directory / "build.sh").chmod(0o755)
    return [directory / name for name in sources]


def _reports(design: Design, directory: Path) -> list[csynth.Synthesis]:
    """What C synthesis said of the kernels: each in its own folder."""
    return [
        report
        for kernel in commands.kernels_of(design)
        for report in csynth.load(directory / f"{kernel}.hls")
        if report.top == kernel
    ]


def _check(design: Design, target: str, flow: Flow, output: Path) -> None:
    _card(design, target)
    for package in flow.packages:
        package.check(design, target, output)
    if flow.linux is not None:
        for name in ("rootfs.ext4", "Image"):
            if not (flow.linux / name).is_file():
                raise RecipeError(
                    f"--linux {flow.linux}: there is no {name}; name the folder with rootfs.ext4 and Image of AMD's "
                    "common image for the board."
                )


def _card(design: Design, target: str) -> None:
    if design.platform.part == NO_PART:
        raise RecipeError(
            f"target {target} needs a card, and '{design.platform.name}' is the emulator; give --platform u250, "
            "for example."
        )


def _needed(design: Design, target: str, flow: Flow) -> list[str]:
    emulated = target == "hw_emu" and not design.platform.embedded
    return ["v++", *(["emconfigutil"] if emulated else []), *(tool for one in flow.packages for tool in one.tools)]


def _tools(target: str, names: Sequence[str]) -> tools.Release:
    """The release of Vitis, once all tools that the flow will need are there."""
    tools.require(names, f"target {target}")
    release = tools.release()
    if release.unified:
        tools.require(["vitis-run"], f"Vitis {release}")
    return release


def _packages_by_vpp(design: Design, flow: Flow, target: str) -> bool:
    """Whether `v++ -p` runs: always for a Versal, whose xclbin it makes."""
    own = design.platform
    return own.family == "versal" or (
        own.embedded and (target == "hw_emu" or any(p.kind == "sd" for p in flow.packages))
    )


def _xclbin_name(design: Design, flow: Flow, target: str) -> str:
    return commands.PACKAGED if _packages_by_vpp(design, flow, target) else commands.linked_name(design)


def _sources(design: Design, target: str, *, built_here: bool) -> dict[str, str]:
    _card(design, target)
    return hls_sources(design, built_here=built_here) | {commands.LINK_CONFIG: config.link_config(design)}


def _stage(design: Design, target: str, directory: Path, release: tools.Release, linux: Path | None) -> None:
    sources = _sources(design, target, built_here=True)
    if release.unified:
        for kernel, files in commands.kernels_of(design).items():
            flags = commands.flags_of(design, kernel, directory)
            sources[f"{kernel}.hls.cfg"] = config.hls_config(design, kernel, files, flags, release)
    if design.platform.embedded:
        place = linux.absolute() if linux else None
        sources[commands.PACKAGE_CONFIG] = config.package_config(commands.PACKAGE_FOLDER, place)
    remove_untrusted(directory)
    stage(sources, directory)


def _synthesis(design: Design, target: str, directory: Path, release: tools.Release) -> list[Step]:
    found = [_compiled_by_gxx(design, kernel, directory) for kernel in commands.kernels_of(design)]
    return [*found, *(_step(call, design, directory, release) for call in commands.synthesis(design, target, release))]


def _linking(design: Design, target: str, directory: Path, release: tools.Release, flow: Flow) -> list[Step]:
    calls = [commands.link(design, target)]
    if target == "hw_emu" and not design.platform.embedded:
        calls.append(commands.emulation_platform(design))
    if _packages_by_vpp(design, flow, target):
        calls.append(commands.package(design, target, release))
    return [_step(call, design, directory, release) for call in calls]


def _step(call: commands.Call, design: Design, directory: Path, release: tools.Release) -> Step:
    sources = [directory / name for name in call.reads]
    inputs = files_of(sources, [directory, directory / "lib", *_folders(design)])
    outputs = tuple(directory / name for name in call.writes)
    return Step(call.name, call.command, tuple(inputs), outputs, str(release))


def _folders(design: Design) -> list[Path]:
    return [*user_directories(design), *(folder for kernel in design.kernels for folder in kernel.include)]


def _compiled_by_gxx(design: Design, kernel: str, directory: Path) -> Step:
    """A kernel's sources through g++ as synthesis sees them: a mistake shows in seconds."""
    sources = [directory / name for name in commands.kernels_of(design)[kernel]]
    inputs = files_of(sources, [directory, directory / "lib", *_folders(design)])
    flags = commands.flags_of(design, kernel, directory)

    def compiled() -> None:
        try:
            compiler = find_compiler()
        except ToolchainError:
            return  # Vitis brings its own
        words = ["-std=c++17", "-fsyntax-only", "-w", "-D__SYNTHESIS__", *flags, "-isystem", str(STAND_INS)]
        said = process.run([*compiler.command, *words, *map(str, sources)], timeout=process.time_limit(), cwd=directory)
        # A header of AMD's that this package has no stand-in for is no mistake of the kernel.
        if said.status and "No such file or directory" not in said.output:
            lines = "\n".join(said.output.splitlines()[:_WORDS])
            raise ToolchainError(f"g++ rejects the sources of kernel '{kernel}', so Vitis was not started:\n{lines}")

    return Step(f"g++ {kernel}", (), tuple(inputs), (), " ".join(flags), compiled)


def _linked(path: Path) -> Axlf:
    try:
        return read(path, foreign=True)
    except XclbinError as error:
        raise ToolchainError(f"v++ reported success, but its output cannot be used: {error}") from error
