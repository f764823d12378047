"""From a source to the IR that is analysed: one function, everything inlined, loops unrolled as the pragmas ask.

`opt` is called twice. After the first call all functions are inlined and nothing is unrolled. Probes (source.py) are
read there and removed, each loop gets a number of its own, and loops to unroll are marked. The second call unrolls,
turns completely partitioned arrays into values, and simplifies. It is repeated for loops that unroll without a pragma.

Vitis HLS chooses those loops late. An element that is invariant only after unrolling is therefore read and written in
each iteration (`lp3` of atax, `lp1` of bicg of HLStrans, 2022.2: 64 of each). With a pragma it is a register
(convolutions of sharc-lab and of asandeep1's FPGA_ECE8893, 2022.1 and 2025.1: 1).
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import cfg, clang, function_pipelines, ir, loop_hiding, pure, tables
from .arrays import Array, Member
from .instance import Instance
from .instances import LATER, UNROLLED, identity, make_plan
from .plan import Passed, Plan, Probe
from .source import PROBE, MarkedSource
from .translation import Compiled, compile_sources

_SIMPLE = "sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>"
_INLINE = (
    f"internalize,globaldce,function({_SIMPLE}),always-inline,globaldce,globalopt,function({_SIMPLE},loop-simplify,"
    "instnamer)"
)
_NO_SPECULATION = "loop-mssa(licm<no-allowspeculation>)"
# What an earlier iteration has read from memory is read again (wGenerator of SHA-2-Accel, 2025.1: four reads), and an
# address stays a sum where one branch has it already.
_REUSE = "gvn<no-pre;no-load-pre>"
_FIRST = (
    "globalopt,function(sroa,early-cse<memssa>,simplifycfg<no-switch-to-lookup>,instcombine<no-verify-fixpoint>,"
    f"loop-simplify,lcssa,{_NO_SPECULATION}"
)
_UNROLL = "loop(indvars,loop-deletion,loop-unroll-full)"
_REST = (
    "sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,loop-simplify,lcssa,loop(indvars,loop-unroll-full),"
    f"loop-simplify,lcssa,loop(loop-unroll-full),sroa,simplifycfg,early-cse<memssa>,{_REUSE},"
    f"instcombine<no-verify-fixpoint>,loop-unroll<no-runtime;no-peeling;no-partial>,sroa,early-cse<memssa>,{_REUSE},"
    "reassociate,instcombine<no-verify-fixpoint>,loop-simplify,lcssa,"
    f"{_NO_SPECULATION},dse,adce,simplifycfg,loop-simplify,lcssa,loop(indvars),instnamer),globaldce"
)
_OPTIONS = [
    "-unroll-threshold=2000000", "-pragma-unroll-threshold=300000", "-unroll-allow-partial=0",
    "-unroll-allow-peeling=0", "-unroll-runtime=0", "-unroll-full-max-count=100000",
    "-unroll-max-upperbound=64",
]  # fmt: skip
# Scalar evolution prints for each value what it is to each loop within its own one: quadratic. 4,800 loops take a
# second, 10,900 more than five minutes.
MOST_LOOPS = 8_000
_OVERLAP = "2024"  # the version since which arguments of one bundle may overlap in front of all passes
# A parameter's attributes and name.
_POINTER = re.compile(r'\bptr (?!noalias)((?:\w+(?:\([^()]*\))? )*)(%(?:"[^"]*"|[\w.$\-]+))')
_NO_ALIAS = re.compile(r'\bptr noalias ((?:\w+(?:\([^()]*\))? )*)(%(?:"[^"]*"|[\w.$\-]+))')
KEEP = "__hls_keep"  # a call that keeps an array a memory
_ATTRIBUTES = re.compile(r"\) ?((?:local_)?unnamed_addr )?(?=#|!dbg|comdat|align|personality|\{)")
_LABEL = re.compile(r'("[^"]*"|[\w.$\-]+):')
_BRANCH = re.compile(r'  br (?:i1 [^,]*, )?label %("[^"]*"|[\w.$\-]+)')
_LOOP = re.compile(r", !llvm\.loop (!\d+)")
_UNSEEN = re.compile(r", !(?:tbaa|tbaa\.struct|noalias|alias\.scope|dbg) !\d+")
_STREAM_CALL = re.compile(r"( call ptr @__hls_(?:fifo|burst)_\w+\([^\n]*\)) #\d+")  # their declarations say the same
_STREAM_CALLS = re.compile(r"^(declare [^\n]*@__hls_(?:fifo|burst)_\w+\([^)\n]*\))[^\n]*$", re.M)


class TooLarge(clang.SourceError):
    """A function with too many loops once everything is inlined, or with loops of too much code."""


@dataclass
class Kernel:
    """The IR of one top function.

    instances: its loops by the number in their metadata.
    scev: the scalar evolution that `opt` prints.
    notes: pragmas and code that are not understood.
    members: of structures and blocks, the arrays in them.
    pragmas: about parameters.
    passed: the variables of the region that a process's parameters refer to.
    part: the FPGA's name, "" for any.
    vitis: the version of Vitis HLS whose rules apply, "" for the newest.
    operators: cycles, and nanoseconds behind them, of functions that became operators (pure.py), by symbol.
    overlapping: parameters that may overlap each other.
    functions: as of `Plan`.
    """

    top: str
    source: MarkedSource
    module: ir.Module
    function: ir.Function
    flow: cfg.Flow
    instances: dict[int, Instance]
    arrays: dict[str, Array]
    scev: str
    clock_ns: float
    notes: list[str] = field(default_factory=list)
    members: dict[str, list[Member]] = field(default_factory=dict)
    pragmas: list[tuple[str, Probe]] = field(default_factory=list)
    passed: dict[str, Passed] = field(default_factory=dict)
    part: str = ""
    vitis: str = ""
    operators: dict[str, tuple[int, float]] = field(default_factory=dict)
    overlapping: frozenset[str] = frozenset()
    functions: dict[str, int] = field(default_factory=dict)

    def instance_of(self, loop: cfg.Loop) -> Instance | None:
        """What a loop of the IR is in the source."""
        number, _ = identity(self.module, self.flow, loop)
        return self.instances.get(number) if number is not None else None


def load(
    path: Path,
    top: str,
    *,
    includes: Sequence[str] = (),
    defines: Sequence[str] = (),
    clock_ns: float = 3.333,
    automatic: bool = True,
) -> Kernel:
    """Reads the kernel `top` of a source file.

    includes, defines: as for a compiler. automatic: loops without a pragma are treated as Vitis HLS does of its own.
    Raises SourceError if clang refuses the source, ToolchainError without clang.
    """
    return analyse_kernel(
        compile_sources(path, includes=includes, defines=defines), top, clock_ns=clock_ns, automatic=automatic
    )  # fmt: skip


def analyse_kernel(
    unit: Compiled,
    top: str,
    *,
    clock_ns: float = 3.333,
    automatic: bool = True,
    pragmas: Mapping[int, Sequence[Probe]] | None = None,
    passed: Mapping[int, Passed] | None = None,
    operators: Mapping[pure.Pure, tuple[int, float]] | None = None,
    most_loops: int = MOST_LOOPS,
    whole: bool = False,
    memories: bool = True,
    vitis: str = "",
) -> Kernel:
    """Inlines everything into one function of a source and unrolls its loops.

    top: its name, or its symbol.
    pragmas: of the region about its parameters, by the parameters' positions.
    passed: the variables of the region that the parameters refer to.
    operators: functions that are not inlined, with their cycles and the nanoseconds behind those.
    whole: reject a function with loops that are too large to unroll.
    memories: pointers without a pragma are memories; else ports of the bundle gmem.
    vitis: as in `Kernel`.

    Raises SourceError if there is no such function, TooLarge if it has more than `most_loops`.
    """
    symbol = unit.symbol_of(top)
    with tempfile.TemporaryDirectory(prefix="hls-check-") as folder:
        files = Path(folder)
        raw = pure.rewritten(unit.reached_from(symbol), operators or ())
        names = {place: what.name for place, what in (passed or {}).items() if what.port}
        late = _of_shared_bundles(unit, symbol, names, memories=memories)
        early = late if not vitis or vitis >= _OVERLAP else frozenset[str]()
        flat = _optimise(_prepare(raw, symbol, early), symbol, _INLINE, files)
        inlined = tables.drop_constant_writes(function_pipelines.with_constants(flat), symbol, unit.source)
        if (loops := inlined.count(", !llvm.loop ")) > most_loops:
            raise TooLarge(
                f"{unit.path.name}: '{top}' has about {loops:,} loops after inlining, and at most {most_loops:,} "
                "are supported."
            )
        plan = make_plan(inlined, symbol, unit.source, _scev(inlined, symbol, files), automatic=automatic)
        if whole and any(instance.too_large for instance in plan.instances.values()):
            raise TooLarge(f"{unit.path.name}: '{top}' has loops with too much code.")
        shared = early
        final = _unroll(_carry_out(inlined, symbol, plan), symbol, files, overlapping=bool(shared))
        if LATER in final:
            shared = late
            text = _overlapping(final.replace(LATER, UNROLLED), symbol, shared)
            final = _unroll(text, symbol, files, "-disable-licm-promotion", overlapping=bool(shared))
        scev = _scev(final, symbol, files)
    module = ir.parse(final)
    module.structs = {**unit.module.structs, **module.structs}  # also of those that are no longer written out
    function = module.function(symbol)
    if function is None:
        raise clang.SourceError(f"{unit.path}: '{top}' is empty after optimization: it has no effect.")
    for place, (name, _) in enumerate(function.parameters):
        plan.pragmas += [(name, one) for one in (pragmas or {}).get(place, ())]
    return Kernel(
        symbol, unit.source, module, function, cfg.analyse(function), plan.instances, plan.arrays, scev, clock_ns,
        [*unit.source.notes, *plan.notes], plan.members, plan.pragmas,
        passed={function.parameters[place][0]: what for place, what in (passed or {}).items()},
        operators={one.operator: takes for one, takes in (operators or {}).items()},
        vitis=vitis, overlapping=shared, functions=plan.functions,
    )  # fmt: skip


def _of_shared_bundles(unit: Compiled, symbol: str, names: Mapping[int, str], *, memories: bool) -> frozenset[str]:
    """Parameters whose bundle other parameters have, too. names: what those of a process are called in its region.

    Vitis HLS does not move a read of a port out of a loop that writes to the same bundle (coefficients of
    heterogeneous-vitis-apps, 2024.1: 18 reads an iteration, 9 of them always the same). Versions up to 2023 do so,
    except in loops that they unroll without a pragma (HLStrans, 2022.2: columns of correlation, 100 reads of 200; but
    `inputQuery`
    of compute_near, 4).
    """
    bundles: dict[str, str] = {}
    for pragma in unit.source.pragmas.values():
        words = pragma.words | {(pragma.value("mode") or "").lower()}
        if pragma.kind == "interface" and pragma.variable:
            variable = re.sub(r"\W.*", "", pragma.variable)
            if "m_axi" in words:
                bundles[variable] = pragma.value("bundle") or "gmem"
            else:
                bundles.setdefault(variable, "")  # a register or a stream
    define = re.search(rf'^define [^\n]*@"?{re.escape(symbol)}"?\(', unit.raw, re.M)
    line = unit.raw[define.end() : unit.raw.index("\n", define.end())] if define else ""
    found: dict[str, set[str]] = defaultdict(set)
    for place, parameter in enumerate(ir.split(line)):
        pointer = _POINTER.search(parameter)
        if pointer:
            # What is passed by reference is a register or a stream.
            default = "" if memories or "dereferenceable" in pointer[1] else "gmem"
            found[bundles.get(names.get(place, pointer[2][1:]), default)].add(pointer[2])
    found.pop("", None)
    return frozenset(name for together in found.values() if len(together) > 1 for name in together)


def _prepare(text: str, symbol: str, shared: Container[str]) -> str:
    """Everything but the top is to be inlined; arguments of the top do not overlap, as Vitis HLS assumes, but for those
    of one bundle (shared)."""
    text = re.sub(r"\b(?:noinline|optnone|alwaysinline|inlinehint)\b ?", "", text)
    text = re.sub(r"^ *call void @llvm\.lifetime\.\w+\.p0\([^\n]*$", "", text, flags=re.M)
    text = _every_latch(text)
    text = _STREAM_CALLS.sub(r"\1 nounwind willreturn memory(argmem: readwrite, inaccessiblemem: readwrite)", text)

    def define(match: re.Match[str]) -> str:
        line = match[0]
        if f"@{symbol}(" in line or f'@"{symbol}"(' in line:
            # A function that others may leave out has to stay: a process of a dataflow region is checked alone.
            line = re.sub(r"\b(?:linkonce_odr|weak_odr|internal|dso_local|comdat)\b ?", "", line)
            return _POINTER.sub(lambda one: one[0] if one[2] in shared else f"ptr noalias {one[1]}{one[2]}", line)
        at = line.index("(", line.index("@"))
        depth, end = 0, at
        for end in range(at, len(line)):
            depth += (line[end] == "(") - (line[end] == ")")
            if depth == 0:
                break
        return line[:end] + _ATTRIBUTES.sub(r") \1alwaysinline ", line[end:], count=1)

    return re.sub(r"^define [^\n]*$", define, text, flags=re.M)


def _overlapping(text: str, symbol: str, shared: Container[str]) -> str:
    """With arguments of the top that may overlap each other (shared)."""

    def define(match: re.Match[str]) -> str:
        return _NO_ALIAS.sub(lambda one: f"ptr {one[1]}{one[2]}" if one[2] in shared else one[0], match[0])

    return re.sub(rf'^define [^\n]*@"?{re.escape(symbol)}"?\([^\n]*$', define, text, flags=re.M)


def _every_latch(text: str) -> str:
    """One branch back to each header, with the loop's metadata: a `continue` of a `while` is another one in clang's IR,
    without it, and LLVM would make of a loop with several of them loops in each other."""
    lines = text.split("\n")
    closing: dict[str, str] = {}  # of the function in hand: metadata by header
    seen: set[str] = set()
    backs: dict[str, list[int]] = {}  # lines that branch back, by header
    for number, line in enumerate(lines):
        if line.startswith("define "):
            closing, seen, backs = {}, set(), {}
        elif label := _LABEL.match(line):
            seen.add(label[1])
        elif (back := _BRANCH.match(line)) and back[1] in seen:
            backs.setdefault(back[1], []).append(number)
            if loop := _LOOP.search(line):
                closing.setdefault(back[1], loop[1])
        elif line == "}":
            for header, places in backs.items():
                if len(places) > 1 and header in closing:
                    lines[number] = _merge_branches(lines, places, header, closing[header]) + lines[number]
    return "\n".join(lines)


def _merge_branches(lines: list[str], places: list[int], header: str, loop: str) -> str:
    """Has the branches at some lines lead to a new block, which is given back, instead of the header."""
    latch = f'{header[:-1]}.hls.latch"' if header.endswith('"') else f"{header}.hls.latch"
    for at in places:
        back = _BRANCH.match(lines[at])
        assert back is not None  # it was found by it
        lines[at] = f"{lines[at][: back.start(1)]}{latch}{_LOOP.sub('', lines[at][back.end(1) :])}"
    place = re.search(r", !dbg !\d+", lines[places[-1]])
    return f"{latch}:\n  br label %{header}{place[0] if place else ''}, !llvm.loop {loop}\n"


def _optimise(text: str, symbol: str, passes: str, folder: Path, *options: str) -> str:
    before, after = folder / "before.ll", folder / "after.ll"
    before.write_text(text)
    keep = [f"-internalize-public-api-list={symbol}"]
    clang.run("opt", ["-S", f"-passes={passes}", *keep, *_OPTIONS, *options, str(before), "-o", str(after)])
    return after.read_text()


def _unroll(text: str, symbol: str, folder: Path, *options: str, overlapping: bool = False) -> str:
    """Everything unrolled that is marked, and simplified. overlapping: arguments may overlap each other, though not
    variables."""
    first = _FIRST.replace("globalopt,", "globalopt,require<globals-aa>,", 1) if overlapping else _FIRST
    if text.count(", !llvm.loop ") < loop_hiding.LEAST:
        return _optimise(text, symbol, f"{first},{_UNROLL},{_REST}", folder, *options)
    ready = _optimise(text, symbol, f"{first},instnamer)", folder, *options)
    unrolled = _optimise(loop_hiding.hide_loops(ready, symbol), symbol, _UNROLL, folder, *options)
    unrolled = loop_hiding.restore_loops(unrolled)
    return _optimise(unrolled, symbol, f"function({_REST}", folder, *options)


def _scev(text: str, symbol: str, folder: Path) -> str:
    """What scalar evolution says of a module. LLVM numbers the whole module again for each printed instruction that
    names metadata, attributes, or a value without a name, which is quadratic. So values are named (`instnamer`), and
    metadata that scalar evolution does not read is removed."""
    path = folder / "scev.ll"
    plain = _STREAM_CALL.sub(r"\1", _UNSEEN.sub("", text))
    path.write_text(plain)
    told = ["-strip-debug", "-passes=print<scalar-evolution>", "-disable-output", str(path)]
    without = loop_hiding.hide_loops(plain, symbol)
    if without is plain:
        return clang.run("opt", told)[1]
    counts = clang.run("opt", [*told, "-scalar-evolution-classify-expressions=false"])[1]
    path.write_text(without)
    return counts + clang.run("opt", told)[1]


def _carry_out(text: str, symbol: str, plan: Plan) -> str:
    """The plan carried out: probes out, arrays kept, loops numbered and marked for unrolling."""
    start = re.search(rf'^define [^\n]*@"?{re.escape(symbol)}"?\(', text, re.M)
    assert start is not None  # find_top found it
    end = text.index("\n}", start.start())
    lines, block = [], "0"
    for line in text[start.start() : end].split("\n"):
        if label := re.match(r'("[^"]*"|[\w.$\-]+):', line):
            block = label[1].strip('"')
        if f"@{PROBE}(" in line or line.startswith("    #dbg_"):  # variables are known; `opt` would copy them on
            continue
        if " !llvm.loop " in line and block in plan.latches:
            line = re.sub(r"!llvm\.loop !\d+", f"!llvm.loop !{plan.latches[block]}", line)
        lines.append(line)
        alloca = re.match(r'\s+(%(?:"[^"]*"|[\w.$\-]+)) = alloca ', line)
        if alloca and alloca[1] in plan.kept:
            lines.append(f"  call void @{KEEP}(ptr {alloca[1]})")
    declaration = (
        f"\ndeclare void @{KEEP}(ptr nocapture readnone) nounwind willreturn memory(inaccessiblemem: readwrite)\n"
    )
    return text[: start.start()] + "\n".join(lines) + text[end:] + declaration + "\n".join(plan.metadata) + "\n"
