"""Loops of the inlined IR and what the pragmas ask of each."""

from __future__ import annotations

import re
from collections.abc import Iterable

from . import cfg, ir, scev
from .automatic import THRESHOLD, unroll_short_loops
from .instance import FULL, Dependence, Instance
from .partitions import find_arrays
from .plan import Plan, Probe
from .pragma import Pragma
from .source import PROBE, PROBED, MarkedSource, plain_name

# Metadata of a loop that unrolls: at once, or once all that pragmas ask for is done. Until then LLVM leaves it, as any
# number but zero says yes.
UNROLLED, LATER = '!{!"llvm.loop.unroll.full"}', '!{!"llvm.loop.unroll.disable", i32 2}'
MOST_UNROLLED = 80_000  # instructions of a loop before they are simplified


def make_plan(text: str, symbol: str, source: MarkedSource, evolution: str, *, automatic: bool) -> Plan:
    """Works out the plan from the inlined IR and what scalar evolution says of it."""
    module = ir.parse(text)
    function = module.function(symbol)
    assert function is not None  # it is what the calls before kept
    flow = cfg.analyse(function)
    probes = _probes(module, function, source)
    counts = scev.parse(evolution, symbol)
    plan = Plan({}, {}, {}, [], set(), [])
    by_header = _instances(module, flow, source, probes, counts, plan)
    for header, instance in by_header.items():
        around = [by_header[loop.header] for loop in flow.ancestors(flow.loops[header])]
        calls = instance.source is not None and instance.source.id in source.pipelined
        instance.inside_pipeline = not calls and (
            any(outer.pipeline for outer in around) or any(source.pipelines(name) for name in instance.path)
        )
    _decide_unrolling(by_header)
    if automatic:
        unroll_short_loops(flow, by_header, counts)
    _keep_large_loops(flow, by_header)
    _number_metadata(module, flow, by_header, plan)
    plan.functions = _function_intervals(source, probes, by_header.values())
    find_arrays(module, function, text, probes, plan)
    return plan


def base_of(definitions: dict[str, ir.Instruction], module: ir.Module, pointer: str) -> tuple[str | None, int]:
    """What a pointer leads to, and the constant part of the offset in bytes; None where several things are possible."""
    offset = 0
    for _ in range(64):
        found = definitions.get(pointer) or ir.constant_expression(pointer)
        if found is None:
            return pointer, offset
        if found.opcode == "getelementptr" and found.source_type:
            offset += constant_offset(module, found)
            pointer = found.operands[0]
        elif found.opcode in ("bitcast", "freeze", "addrspacecast"):
            pointer = found.operands[0]
        elif found.opcode == "alloca":
            return pointer, offset
        else:
            return (pointer if found.opcode == "call" else None), offset
    return None, offset


def constant_offset(module: ir.Module, found: ir.Instruction) -> int:
    """Bytes that the constant indices of a getelementptr add."""
    kind, total = found.source_type or "i8", 0
    for level, index in enumerate(found.operands[1:]):
        value = _integer(index) or 0
        if level == 0:
            total += value * module.size_of(kind)
        elif match := re.fullmatch(r"[\[<](\d+) x (.*)[\]>]", kind):
            kind = match[2]
            total += value * module.size_of(kind)
        else:
            at, kind = module.offsets(kind)[value]
            total += at
    return total


def _probes(module: ir.Module, function: ir.Function, source: MarkedSource) -> list[Probe]:
    definitions = function.definitions()
    found = []
    for instruction in function.instructions():
        if instruction.callee != PROBE:
            continue
        numbers = [_integer(o) for o in instruction.operands]
        pragma = source.pragmas.get(numbers[0] or 0)
        if pragma is None:
            continue
        shape = [value or 0 for value in numbers[2 + len(PROBED) :]]
        pointer, offset = instruction.operands[1], 0
        base: str | None = None
        if pointer[:1] in "%@":
            base, offset = base_of(definitions, module, pointer)
        extents = tuple(e for e in shape[1:] if e)
        size = shape[0] if shape else 0
        for extent in extents:
            size //= max(1, extent)
        found.append(Probe(pragma, base, offset, options_of(instruction), extents, size, instruction.block))
    return found


def options_of(probe: ir.Instruction) -> dict[str, int]:
    """Values of a pragma's options, from the call that stands for it."""
    numbers = [_integer(o) for o in probe.operands[2:]]
    return {name: value for name, value in zip(PROBED, numbers, strict=False) if value is not None and value >= 0}


def _integer(text: str) -> int | None:
    return int(text) if ir.is_number(text) else None


def _instances(
    module: ir.Module, flow: cfg.Flow, source: MarkedSource, probes: list[Probe], counts: scev.Evolution, plan: Plan
) -> dict[str, Instance]:
    """An instance for each loop, by its header."""
    by_block: dict[str, list[Probe]] = {}
    for probe in probes:
        by_block.setdefault(probe.block, []).append(probe)
    found = {}
    in_order = [header for header in flow.function.blocks if header in flow.loops]
    for number, header in enumerate(in_order, start=1):
        loop = flow.loops[header]
        marked, location = identity(module, flow, loop)
        written = source.loop(marked)
        path = tuple(name for name, _ in module.calls_to(location))
        instance = Instance(number, written, path)
        if header in counts.trips:
            instance.count = counts.trips[header]
        elif 0 < counts.most.get(header, 0) <= THRESHOLD:
            instance.count = counts.most[header]  # it may be left early
        own = [p for block in loop.blocks for p in by_block.get(block, ()) if _is_about(flow, p, loop)]
        pragmas = {i: source.pragmas[i] for i in (written.pragmas if written else [])}
        for pragma in pragmas.values():
            _apply(instance, pragma, next((p for p in own if p.pragma is pragma), None))
        plan.instances[number] = instance
        found[header] = instance
    return found


def _is_about(flow: cfg.Flow, probe: Probe, loop: cfg.Loop) -> bool:
    around = flow.around(probe.block)
    return around is not None and (around is loop or probe.block in loop.blocks)


def identity(module: ir.Module, flow: cfg.Flow, loop: cfg.Loop) -> tuple[int | None, int | None]:
    """The number in a loop's metadata, which is that of the source's loop or of the instance, and where it begins."""
    location = None
    for latch in loop.latches:
        match = re.search(r"!llvm\.loop !(\d+)", flow.terminator(latch).text)
        for reference in re.findall(r"!(\d+)", module.metadata.get(int(match[1]), "")) if match else ():
            words = module.metadata.get(int(reference), "")
            if "DILocation" in words and location is None:
                location = int(reference)
            if number := re.search(r'"llvm\.loop\.pipeline\.initiationinterval", i32 (\d+)', words):
                return int(number[1]), location
    return None, location


def _apply(instance: Instance, pragma: Pragma, probe: Probe | None) -> None:
    """What a pragma says of a loop; without a probe only literal numbers are understood."""

    def value(name: str) -> int | None:
        if probe and name in probe.values:
            return probe.values[name]
        literal = pragma.options.get(name, "").strip("() ")
        return int(literal) if literal.isdigit() else None

    if pragma.kind == "pipeline":
        instance.pipeline = "off" not in pragma.words
        instance.target_ii = value("ii") or None
    elif pragma.kind == "unroll":
        factor = value("factor")
        off = "off" in pragma.words or factor == 1
        instance.unroll = 1 if off else factor if "factor" in pragma.options and factor else FULL
    elif pragma.kind == "loop_tripcount":
        least, most = value("min") or value("avg") or 0, value("max") or value("avg") or value("min") or 0
        instance.trips = (least, most)
    elif pragma.kind == "loop_flatten":
        instance.flatten = "off" not in pragma.words
    elif pragma.kind == "dependence":
        true = "true" in pragma.words or pragma.options.get("dependent", "").lower() == "true"
        kinds = pragma.words | {v.lower() for k, v in pragma.options.items() if k == "type"}
        inter = "intra" not in kinds
        array = probe.pointer if probe and pragma.variable else None
        if pragma.variable is None or array:
            instance.dependences.append(Dependence(array, inter, true, value("distance") or 0))


def _function_intervals(source: MarkedSource, probes: list[Probe], instances: Iterable[Instance]) -> dict[str, int]:
    """The intervals of pipelined functions; of two instances of a template the shorter. A function with a loop that
    does not unroll is no pipeline."""
    names = {number: loop.function for loop in source.pipelined.values() for number in loop.pragmas}
    numbers = {id(source.pragmas[number]): name for number, name in names.items()}
    found: dict[str, int] = {}
    for probe in probes:
        if name := numbers.get(id(probe.pragma)):
            ii = probe.values.get("ii") or 1
            found[name] = min(found.get(name, ii), ii)
    stay = [i for i in instances if i.too_large or i.count is None or i.unroll != FULL]
    kept = {plain_name(name) for instance in stay for name in instance.path}
    return {name: ii for name, ii in found.items() if name not in kept}


def _decide_unrolling(by_header: dict[str, Instance]) -> None:
    for instance in by_header.values():
        if instance.inside_pipeline and instance.unroll is None:
            instance.unroll = FULL
        # A factor of at least the trip count is a complete unroll.
        if instance.count is not None and instance.unroll is not None and instance.unroll >= instance.count > 1:
            instance.unroll = FULL


def _keep_large_loops(flow: cfg.Flow, by_header: dict[str, Instance]) -> None:
    """Leaves loops as they are that would become too much code: neither `opt` nor the checker would get through it."""
    copies: dict[str, int] = {}  # of each loop's body, in the loop around it that stays one
    home: dict[str, str] = {}
    for header in sorted(by_header, key=lambda h: len(flow.ancestors(flow.loops[h]))):
        instance, parent = by_header[header], flow.loops[header].parent
        whole = instance.unroll == FULL and instance.count is not None
        factor = instance.count or 1 if whole else max(1, instance.unroll or 1)
        inherited = copies[parent] if parent is not None and whole else 1
        copies[header] = inherited * factor
        home[header] = home[parent] if parent is not None and whole else header
    size: dict[str, int] = {}
    for block in flow.order:
        around = flow.around(block)
        if around is not None:
            code = len(flow.function.blocks[block])
            size[home[around.header]] = size.get(home[around.header], 0) + code * copies[around.header]
    for header, found in size.items():
        if found > MOST_UNROLLED:
            for inside, where in home.items():
                if where == header:
                    by_header[inside].too_large = found
                    by_header[inside].unroll = 1


def _number_metadata(module: ir.Module, flow: cfg.Flow, by_header: dict[str, Instance], plan: Plan) -> None:
    """New loop metadata, one node for each loop, with its own number and what to do with it."""
    free = max(module.metadata, default=0) + 1
    for header, instance in by_header.items():
        loop = flow.loops[header]
        location = identity(module, flow, loop)[1]
        if instance.unroll is None or instance.unroll == 1:
            words = '!{!"llvm.loop.unroll.disable"}'
        elif instance.unroll == FULL:
            words = LATER if instance.automatic else UNROLLED
        else:
            words = f'!{{!"llvm.loop.unroll.count", i32 {instance.unroll}}}'
        number = f'!{{!"llvm.loop.pipeline.initiationinterval", i32 {instance.number}}}'
        place = f", !{location}" if location is not None else ""
        plan.metadata += [
            f"!{free} = {words}",
            f"!{free + 1} = {number}",
            f"!{free + 2} = distinct !{{!{free + 2}{place}, !{free}, !{free + 1}}}",
        ]
        for latch in loop.latches:
            plan.latches[latch] = free + 2
        free += 3
