"""What `xclbin-build check` looks at, a function or the kernels of a recipe, and whether it keeps its contract."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from hls_kernels import ENGINE

from .. import qor
from ..design import Design
from ..design import Kernel as DesignKernel
from ..errors import RecipeError
from ..generate import hls_sources, stage
from ..hls import frontend
from ..hls.directives import Directive
from ..hls.processes import Process, name_of, processes
from ..hls.source import is_c
from ..hls.translation import Compiled, compile_sources
from ..pragma_lint import Finding
from .loops import NOT_CHECKED, NOT_PIPELINED, Check, Loop
from .workers import PROCESSORS, CheckTask, run_tasks


@dataclass
class CheckedPart:
    """A function that was checked: a kernel, a process of one, or a core. check: None if it could not be, with why in
    `note`."""

    kernel: str
    name: str
    check: Check | None
    contract: qor.Contract | None = None
    note: str = ""


_Question = tuple[CheckedPart, CheckTask | None]  # a part to be filled in; None where its source was refused


@dataclass(frozen=True)
class Miss:
    """A loop that takes longer than it should, or is not pipelined at all (`ii` is None). asked: the interval of its
    contract, or else of its pragma."""

    part: CheckedPart
    loop: Loop
    asked: int
    by: str


@dataclass
class Checked:
    """All parts, in order, and mistakes in pragmas of the user's sources."""

    parts: list[CheckedPart] = field(default_factory=list)
    pragmas: list[Finding] = field(default_factory=list)

    @property
    def misses(self) -> list[Miss]:
        """Loops whose initiation interval is above what their contract or their pragma asks for, or that have none."""
        found = []
        for part in self.parts:
            for loop in part.check.rows if part.check else ():
                by, asked = requested_interval(loop, part.contract)
                if asked is not None and slower(loop, asked):
                    found.append(Miss(part, loop, asked, by))
        return found

    @property
    def unchecked(self) -> list[str]:
        """Parts that clang refuses or that are too large, and so are loops that a contract names, and pipelined
        functions."""
        found = []
        for part in self.parts:
            if part.check is None:
                found.append(f"{part.name}: {part.note}")
                continue
            for loop in part.check.rows:
                by, asked = requested_interval(loop, part.contract)
                wanted = loop.function or (by == "contract" and asked is not None)
                if wanted and loop.ii is None and loop.note.startswith(NOT_CHECKED):
                    found.append(f"{part.name}.{loop.name}: {loop.note}")
        return found

    @property
    def passes(self) -> bool | None:
        """Whether every loop keeps its contract; None where the known ones do, and one could not be checked."""
        if self.misses or self.pragmas:
            return False
        return None if self.unchecked else True


def slower(loop: Loop, asked: int) -> bool:
    """Whether a loop takes longer than `asked` cycles an iteration; one that is no pipeline does."""
    return loop.note.startswith(NOT_PIPELINED) if loop.ii is None else loop.ii > asked


def requested_interval(loop: Loop, contract: qor.Contract | None) -> tuple[str, int | None]:
    """Who asks for a loop's interval, and which: its contract, its pragma, or nobody."""
    if contract is not None and loop.name in contract.loops:
        return "contract", contract.loops[loop.name].ii
    unfit = loop.function and loop.note.startswith(NOT_PIPELINED)  # whatever interval the pragma asks for
    return "pragma", loop.target_ii or (1 if unfit else None)


def check_source(
    path: Path,
    top: str,
    *,
    others: Sequence[Path] = (),
    includes: Sequence[str] = (),
    defines: Sequence[str] = (),
    clock_ns: float = 3.333,
    contract: qor.Contract | None = None,
    kernel: str = "",
    part: str = "",
    only: Sequence[str] = (),
    flow: str | None = None,
    vitis: str = "",
    directives: Sequence[Directive] = (),
) -> list[CheckedPart]:
    """Checks a function of a source; of a dataflow region, every process by itself.

    others: sources that are linked to it.
    flow: "vitis", where pointers without a pragma are m_axi ports, or "vivado", where they are memories; None: by the
    source (`flow_of`).
    clock_ns: the clock period.
    part: the FPGA's name, on which delays of operators depend.
    only: processes to check, all if empty.
    vitis: the version of Vitis HLS whose rules apply, such as "2022.2"; by default the newest.
    directives: pragmas that stand outside of the sources.

    Raises SourceError if clang rejects a source, or if the function or what a directive names does not exist, and
    ToolchainError without clang 19.
    """
    asked = _questions(
        path, top, others=others, includes=includes, defines=defines, clock_ns=clock_ns, contract=contract,
        kernel=kernel, part=part, only=only, flow=flow, vitis=vitis, directives=directives,
    )  # fmt: skip
    return _answer(asked)


def _questions(
    path: Path, top: str, *, others: Sequence[Path] = (), includes: Sequence[str], defines: Sequence[str] = (),
    clock_ns: float, contract: qor.Contract | None, kernel: str, part: str, only: Sequence[str], flow: str | None,
    vitis: str = "", directives: Sequence[Directive] = (),
) -> list[_Question]:  # fmt: skip
    """What `check_source` checks."""
    unit = compile_sources(path, *others, includes=includes, defines=defines, directives=directives)
    found = processes(unit, top) or [Process(unit.symbol_of(top))]
    called = [(process, name_of(unit.module, process.symbol)) for process in found]
    memories = (flow or flow_of(unit, top)) == "vivado"
    inferred = contract is None  # a contract rests on the sources alone
    question = CheckTask(unit, Process(""), clock_ns, part, memories=memories, inferred=inferred, vitis=vitis)
    return [
        (CheckedPart(kernel or top, name, None, contract), replace(question, process=process))
        for process, name in called
        if not only or name in only
    ]


def _answer(asked: Sequence[_Question]) -> list[CheckedPart]:
    """The parts, with what was found of each."""
    found = iter(run_tasks([question for _, question in asked if question is not None]))
    for part, question in asked:
        if question is not None:
            answer = next(found)
            part.check, part.note = (None, answer) if isinstance(answer, str) else (answer, "")
    return [part for part, _ in asked]


def flow_of(unit: Compiled, top: str) -> str:
    """What a source is written for: "vitis" if it names an m_axi port, or if its top is `extern "C"` as a kernel's is,
    and else "vivado", Vitis HLS' own default."""
    for pragma in unit.source.pragmas.values():
        if pragma.kind == "interface" and "m_axi" in pragma.words | {(pragma.value("mode") or "").lower()}:
            return "vitis"
    symbol = unit.symbol_of(top)
    return "vitis" if symbol == top and not is_c(unit.path) else "vivado"


def check_design(design: Design, only: Sequence[str] = ()) -> Checked:
    """Checks every kernel of a recipe at its platform's clock: processes of engines, plain kernels, sequencers' cores.

    A `qor.toml` beside a source is its contract. only: names of kernels, cores and processes to check; all if empty.
    Raises ToolchainError without clang 19, RecipeError if `only` names what there is not.
    """
    sources: dict[object, Callable[[], list[_Question]]] = {}  # once for a core that several kernels have
    named: list[tuple[object, str]] = []  # sources in order, with the kernels that have them
    for kernel in design.kernels:
        whole = not only or kernel.name in only
        inside = () if whole else only
        if kernel.source is not None:
            sources[kernel.name] = partial(
                _try_questions, kernel.name, kernel.name, kernel.source,
                [str(ENGINE.parent), *map(str, kernel.include)], design, _contract(kernel.source.parent), inside,
                others=kernel.more_sources, defines=kernel.define,
            )  # fmt: skip
            named.append((kernel.name, kernel.name))
        elif kernel.cores and kernel.engine is None:
            for core in kernel.cores:
                if whole or core.name in only:
                    alone = replace(kernel, cores=(core,))
                    contract = _contract(core.header.parent)
                    sources.setdefault(core.header, partial(_questions_of_kernel, alone, design, core.name, contract))
                    named.append((core.header, kernel.name))
        else:
            sources[kernel.name] = partial(_questions_of_kernel, kernel, design, kernel.name, _contract(ENGINE), inside)
            named.append((kernel.name, kernel.name))
    with ThreadPoolExecutor(PROCESSORS) as pool:  # clang's processes: threads are enough
        asked = dict(zip(sources, pool.map(lambda make: make(), sources.values()), strict=True))
    _answer([one for some in asked.values() for one in some])
    found = Checked([replace(part, kernel=kernel) for source, kernel in named for part, _ in asked[source]])
    missing = [name for name in only if not any(name in (p.kernel, p.name) for p in found.parts)]
    if missing:
        raise RecipeError(
            f"recipe '{design.recipe.name}' has no kernel, core or process '{missing[0]}'; "
            "run the check without --process: its column 'part' has the names."
        )
    return found


def _contract(folder: Path) -> qor.Contract | None:
    file = folder / "qor.toml"
    return qor.load(file) if file.exists() else None


def _questions_of_kernel(
    kernel: DesignKernel, design: Design, name: str, contract: qor.Contract | None, only: Sequence[str] = ()
) -> list[_Question]:
    """A kernel whose source is generated."""
    with tempfile.TemporaryDirectory(prefix="hls-check-") as folder:
        stage(hls_sources(replace(design, kernels=(kernel,)), built_here=False), Path(folder))
        includes = [folder, f"{folder}/lib", *(str(core.header.parent) for core in kernel.cores)]
        return _try_questions(kernel.name, name, Path(folder) / f"{kernel.name}.cpp", includes, design, contract, only)


def _try_questions(
    kernel: str, name: str, path: Path, includes: list[str], design: Design, contract: qor.Contract | None,
    only: Sequence[str] = (), *, others: Sequence[Path] = (), defines: Sequence[str] = (),
) -> list[_Question]:  # fmt: skip
    """The parts of one source of a design; one that clang refuses is no reason to leave out the others."""
    platform = design.platform
    try:
        asked = _questions(
            path, kernel, others=others, includes=includes, defines=defines,
            clock_ns=1000 / platform.speeds["clock_mhz"], contract=contract, kernel=kernel,
            part=platform.part, only=only, flow="vitis",
        )  # fmt: skip
    except frontend.clang.SourceError as error:
        return [(CheckedPart(kernel, name, None, contract, str(error)), None)]
    if len(asked) == 1 and not only:
        asked[0][0].name = name
    return asked
