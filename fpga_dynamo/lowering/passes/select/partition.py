"""Pass: which groups run on the card, and in how few launches.

Every group (a match, or a node that stays on the PS) gets a *stage*: the number of times that data has to go back from
the PS to the card before it. Stages follow from one walk in topological order, so that the time is linear, partitions
cannot form cycles, and the number of launches is the least that the data flow allows. All groups of a stage that one
kernel can run are one segment, unless they fall into independent parts that are each worth a unit of their own. A
segment that does not pay for its launch and transfers goes back to the PS, and stages are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from fpga_dynamo.codegen import cost
from fpga_dynamo.codegen.views import is_lowerable_view
from fpga_dynamo.ir.graph import GraphInfo, is_effectful, is_view, module_path, value
from fpga_dynamo.ir.plain_kernels import PlainKernel, Refusals, is_item_of_kernel, plain_kernel, refusals
from fpga_dynamo.lowering.passes.select.claim import Claims
from fpga_dynamo.lowering.passes.select.segment import (
    Segment,
    copied_bytes,
    groups_of,
    seconds_on_card,
    seconds_on_host,
)
from fpga_dynamo.lowering.patterns import Match

WORTH_SPLITTING = 20.0
"""Independent parts of a stage become launches of their own from this many times a launch's cost on."""


@dataclass
class Partition:
    """segments: in an order in which they can run. reasons: why nodes are on the PS.

    greedy_launches: how many there are if everything goes to the card that a core can run.
    """

    segments: list[Segment]
    reasons: dict[Node, str]
    greedy_launches: int


@dataclass(frozen=True)
class Machine:
    """What runs matches. kernels: names of those that can run one; seconds: of its commands, before there are any."""

    kernels: Callable[[Match], Sequence[str]]
    seconds: Callable[[Match], float]


def cores(graph: GraphInfo) -> Machine:
    """The kernels of cores of the graph's target."""
    return Machine(lambda match: graph.target.kernels_for(match.opcodes), lambda match: seconds_on_card(match, graph))


def partition(
    graph: GraphInfo, claims: Claims, machine: Machine, *, greedy: bool, granularity: str = "launch"
) -> Partition:
    """Assigns groups to segments; `greedy` offloads whatever a core can run, whatever it costs.

    granularity: "layer" and "op" cut launches and the work between them into layers or operators. Each may run on
    either side then, so the time that a launch would cost decides nothing here.
    """
    matches = list(claims.matches)
    refused = refusals(graph.module, graph.target)
    reasons = _reasons(graph, claims, refused)
    if granularity != "launch":
        segments = _segments(graph, matches, machine, refused, granularity)
        return Partition(segments, reasons, sum(segment.is_launch for segment in segments))
    greedy_launches: int | None = None
    while True:
        segments = _segments(graph, matches, machine, refused)
        if greedy_launches is None:
            greedy_launches = sum(segment.is_launch for segment in segments)
        losing = [] if greedy else [s for s in segments if s.on_card and s.ps_seconds < s.seconds]
        if not losing:
            return Partition(segments, reasons, greedy_launches)
        # All at once: taking one segment away can only make its neighbours' transfers cheaper or vanish.
        lost = {match for segment in losing for match in segment.matches}
        matches = [match for match in matches if match not in lost]
        for segment in losing:
            for match in segment.matches:
                for node in match.nodes:
                    reasons[node] = _price(segment, graph)


def _reasons(graph: GraphInfo, claims: Claims, refused: Refusals) -> dict[Node, str]:
    """Why nodes are on the PS; those that a plain kernel computes are not."""
    reasons = {node: why for node, why in claims.reasons.items() if refused.get(node, "") is not None}
    reasons.update({node: why for node, why in refused.items() if why is not None and node not in graph.claimed})
    return reasons


def _price(segment: Segment, graph: GraphInfo) -> str:
    saved, paid = segment.ps_seconds, segment.seconds
    return (
        f"{len(segment.matches)} command(s) save {saved * 1e6:.0f} us of host time but cost {paid * 1e6:.0f} us "
        f"with launch and transfers on {graph.target.platform.name}; options={{'partition': 'greedy'}} offloads anyway"
    )


# --- stages -----------------------------------------------------------------------------------------------------------


def _segments(
    graph: GraphInfo, matches: Sequence[Match], machine: Machine, refused: Refusals, granularity: str = "launch"
) -> list[Segment]:
    match_of = {node: match for match in matches for node in match.nodes}
    kernels = {kernel.name: kernel for kernel in graph.target.kernels}
    stage: dict[Node, tuple[int, str | None]] = {}  # of value nodes: stage and kernel (None: PS)
    kernel_of: dict[Match, str] = {}
    bases = _bases(graph, match_of)
    grouped: dict[tuple[int, str | None], Segment] = {}
    last_effect = 0
    eager_constants = _constants_of_eager(graph, match_of, bases)
    for node in graph.module.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            stage[node] = (0, None)
        if node.op != "call_function" or (is_view(node) and node not in match_of and bases[node] is not node):
            continue
        match = match_of.get(node)
        if match is not None:
            if match in kernel_of or node not in match.outputs:
                continue  # placed with the first output of the graph's order, which the host may read at once
            found = _place_match(match, bases, stage, kernel_of, graph, machine)
            for output in match.outputs:
                stage[output] = found
            for part in match.nodes:
                stage.setdefault(part, found)
            segment = grouped.setdefault(found, Segment(kernels[kernel_of[match]], found[0]))
            segment.matches.append(match)
            continue
        if node in graph.static and node not in eager_constants:
            stage[node] = (0, None)
            continue
        kernel = plain_kernel(node)
        if kernel is not None and refused[node] is None:
            found = stage[node] = _place_plain(node, kernel, bases, stage)
            grouped[found] = Segment(None, found[0], nodes=[node], plain=kernel)
            continue
        if is_item_of_kernel(node) and refused[node.all_input_nodes[0]] is None:
            stage[node] = stage[node.all_input_nodes[0]]
            grouped[stage[node]].nodes.append(node)
            continue
        ready = max((_after(bases[arg], stage[bases[arg]], None) for arg in node.all_input_nodes), default=0)
        if is_effectful(node):
            ready = last_effect = max(ready, last_effect)
        stage[node] = (ready, None)
        grouped.setdefault((ready, None), Segment(None, ready)).nodes.append(node)
    ordered = sorted(grouped, key=lambda key: (key[0], key[1] is None, key[1] or ""))
    segments = [grouped[key] for key in ordered]
    if granularity != "launch":
        segments = [part for segment in segments for part in _split_by_granularity(segment, granularity)]
    elif graph.target.lanes <= 1 or not all(segment.is_launch for segment in segments):
        # Else the units share the host's cores, of which one launch uses all, and no eager work waits for a part.
        segments = [part for segment in segments for part in _split_independent(segment, bases, graph)]
    _connect(graph, segments, bases, machine)
    return segments


def _bases(graph: GraphInfo, match_of: dict[Node, Match]) -> dict[Node, Node]:
    """For every node, the node whose value it shows: segments exchange those, and each makes its own views of them.

    A view that the card cannot make, or that shows less than its base, is a value of its own, made by eager.
    """
    bases: dict[Node, Node] = {}
    for node in graph.module.graph.nodes:
        bases[node] = node
        if node in match_of or not is_view(node) or not node.all_input_nodes:
            continue
        source = bases[node.all_input_nodes[0]]
        tuple_result = not isinstance(value(node), torch.Tensor)
        of_tuple = not isinstance(value(node.all_input_nodes[0]), torch.Tensor)
        if of_tuple and bases[node.all_input_nodes[0]] is node.all_input_nodes[0]:
            continue  # an item of what a computing node returned
        if is_lowerable_view(node) and (tuple_result or _same_dtype(node, source)):
            bases[node] = source
    return bases


def _same_dtype(node: Node, source: Node) -> bool:
    fake = value(source)
    return isinstance(fake, torch.Tensor) and fake.dtype == value(node).dtype


def _after(source: Node, made: tuple[int, str | None], kernel: str | None) -> int:
    """The earliest stage of a group on `kernel` (None: on the PS) that reads the value of `source`.

    Within a stage, the card runs before the PS: the PS may read what the card makes in the same stage, everyone else
    what another has made a stage earlier. Graph inputs are there from the beginning.
    """
    stage, by = made
    if source.op in ("placeholder", "get_attr") or by == kernel or kernel is None:
        return stage
    return stage + 1


def _place_match(
    match: Match,
    bases: dict[Node, Node],
    stage: dict[Node, tuple[int, str | None]],
    kernel_of: dict[Match, str],
    graph: GraphInfo,
    machine: Machine,
) -> tuple[int, str | None]:
    """The kernel (of those that can) on which the match is ready first; ties go to the one listed first."""
    inside = set(match.nodes)
    sources = [bases[arg] for node in match.nodes for arg in node.all_input_nodes if arg not in inside]
    sources = [s for s in sources if s not in inside and s not in graph.static]
    best: tuple[int, str] | None = None
    for name in machine.kernels(match):
        ready = max((_after(s, stage[s], name) for s in sources), default=0)
        if best is None or ready < best[0]:
            best = (ready, name)
    assert best is not None, "the claim pass keeps matches that some kernel can run"
    kernel_of[match] = best[1]
    return best


def _place_plain(
    node: Node, kernel: PlainKernel, bases: dict[Node, Node], stage: dict[Node, tuple[int, str | None]]
) -> tuple[int, str]:
    """Stage and name of the launch that a plain kernel's node is: one of its own, which no other node joins."""
    name = f"{kernel.name} {node.name}"
    return max((_after(bases[arg], stage[bases[arg]], name) for arg in node.all_input_nodes), default=0), name


def _constants_of_eager(graph: GraphInfo, match_of: dict[Node, Match], bases: dict[Node, Node]) -> set[Node]:
    """Static nodes whose values eager needs, or that such a value is made of; packs evaluate theirs themselves.

    A view of a constant that is not static (its size changes from call to call) hands on who needs it.
    """
    needed: set[Node] = set()
    passing = {node for node in graph.module.graph.nodes if node in graph.static or bases[node] in graph.static}
    for node in reversed(list(graph.module.graph.nodes)):
        if node in passing and any(user in needed if user in passing else user not in match_of for user in node.users):
            needed.add(node)
    return needed


# --- segments ---------------------------------------------------------------------------------------------------------


def _split_independent(segment: Segment, bases: dict[Node, Node], graph: GraphInfo) -> list[Segment]:
    """Splits a segment into parts that exchange nothing, where each is worth it; eager nodes are cheap to split.

    Nodes whose order matters keep the whole segment together.
    """
    groups = list(groups_of(segment))
    if len(groups) < 2 or segment.plain is not None or any(is_effectful(node) for _, nodes in groups for node in nodes):
        return [segment]
    parent = list(range(len(groups)))

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    owner = {node: i for i, (_, nodes) in enumerate(groups) for node in nodes}
    for i, (_, nodes) in enumerate(groups):
        for node in nodes:
            for arg in node.all_input_nodes:
                other = owner.get(bases[arg], owner.get(arg))
                if other is not None:
                    parent[find(i)] = find(other)
    parts: dict[int, Segment] = {}
    for i, (group, _) in enumerate(groups):
        part = parts.setdefault(find(i), Segment(segment.kernel, segment.stage))
        if isinstance(group, Match):
            part.matches.append(group)
        else:
            assert isinstance(group, Node)
            part.nodes.append(group)
    if len(parts) == 1 or not segment.on_card:
        return list(parts.values())
    threshold = WORTH_SPLITTING * graph.target.platform.launch_seconds
    heavy = [p for p in parts.values() if seconds_on_host(p, graph) >= threshold]
    if len(heavy) < 2:
        return [segment]
    rest = [p for p in parts.values() if p not in heavy]
    for part in rest:
        heavy[0].matches += part.matches
    position = {match: i for i, match in enumerate(segment.matches)}
    heavy[0].matches.sort(key=position.__getitem__)
    return heavy


def _split_by_granularity(segment: Segment, granularity: str) -> list[Segment]:
    """A segment in parts of one layer or one operator each, in its order. Views go along with what is before them."""
    if segment.plain is not None:
        return [segment]
    parts: list[Segment] = []
    before: object = None
    for group, nodes in groups_of(segment):
        alone = nodes[-1] if not is_view(nodes[-1]) else None
        layer: object = alone
        if granularity == "layer":
            layer = next((path for node in nodes if (path := module_path(node))), alone)
        if not parts or (layer is not None and layer != before):
            parts.append(Segment(segment.kernel, segment.stage))
            before = layer
        if isinstance(group, Match):
            parts[-1].matches.append(group)
        else:
            assert isinstance(group, Node)
            parts[-1].nodes.append(group)
    return parts


def _connect(
    graph: GraphInfo,
    segments: list[Segment],
    bases: dict[Node, Node],
    machine: Machine,
) -> None:
    """Fills in what each segment reads from outside and what others need of it, and its time."""
    segment_of: dict[Node, Segment] = {}
    for segment in segments:
        for _, nodes in groups_of(segment):
            segment_of.update(dict.fromkeys(nodes, segment))
    wanted: dict[Node, None] = {}
    for segment in segments:
        inputs: dict[Node, None] = {}
        for _, nodes in groups_of(segment):
            inside = set(nodes)
            for node in nodes:
                for arg in node.all_input_nodes:
                    base = bases[arg]
                    if arg in inside or base in inside or segment_of.get(base) is segment:
                        continue
                    if segment.on_card and (arg in graph.static or base in graph.static):
                        continue
                    inputs[base] = None
        segment.inputs = list(inputs)
        wanted.update(inputs)
    for node in graph.module.graph.nodes:
        if node.op == "output":
            wanted.update({bases[arg]: None for arg in node.all_input_nodes})
    for node in wanted:
        if node in segment_of:
            segment_of[node].outputs.append(node)
    platform = graph.target.platform
    for segment in segments:
        segment.ps_seconds = segment.seconds = seconds_on_host(segment, graph)
        if segment.is_launch:
            moved = sum(copied_bytes(node, segment, graph.target) for node in (*segment.inputs, *segment.outputs))
            segment.seconds = (
                platform.launch_seconds
                + cost.transfer_seconds(moved, platform)
                + sum(map(machine.seconds, segment.matches))
                + (cost.task_seconds(platform) if len(segments) > 1 else 0.0)
            )
