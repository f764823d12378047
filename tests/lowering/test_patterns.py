"""Patterns of users: through the public API, ahead of the built-in ones, with a core of their own in a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch._C import DispatchKey

import fpga_dynamo
from fpga_dynamo import FpgaError, Match, Pattern, register_pattern, unregister_pattern
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.graph import GraphInfo
from fpga_dynamo.ir.operators import Operator, facts
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.patterns import TABLE, anchor_alone, follow, registered, sole_user
from fpga_dynamo.lowering.tracing.interpolation import WHOLE
from tests.lowering.lowering_cases import GREEDY, Case, check, programs_of
from tests.lowering.triple_kit import RECIPE, TRIPLE, check_triple, lower_triple, triple

aten = torch.ops.aten


def test_a_core_of_the_user_s_runs_in_one_launch_with_the_built_in_ones() -> None:
    with registered(TRIPLE):
        report = check(
            Case(lambda x: torch.relu(triple(torch.tanh(x.t()), 0.5)) + 1, (5, 17),
                 commands={"pointwise": 2, "triple": 1}),
            recipe=RECIPE,
        )  # fmt: skip
        assert "sequencer: triple, command" in str(report)


def test_a_pattern_s_refusal_is_the_reason() -> None:
    with registered(TRIPLE):
        check(
            Case(lambda x: triple(x, 0.5), (5,), offload=0.0, launches=0, why="this core supports matrices only"),
            recipe=RECIPE,
        )


def test_a_card_without_the_core_leaves_the_node_to_eager() -> None:
    with registered(TRIPLE):
        why = "no kernel of the xclbin has all its opcodes: sequencer lacks triple"
        check(Case(lambda x: triple(x, 0.5), (5, 17), offload=0.0, launches=0, why=why))


def test_without_its_pattern_the_op_is_eager_s() -> None:
    case = Case(lambda x: triple(x, 0.5), (5, 17), offload=0.0, launches=0, why="no pattern matches lowering_test")
    check(case, recipe=RECIPE)


def test_verify_names_the_node_whose_pattern_is_wrong() -> None:
    def lower_wrongly(match: Match, emitter: Emitter) -> Sequence[View]:
        (out,) = lower_triple(match, emitter)
        emitter.commands[-1].fields["shift"] = 0.25
        return [out]

    compiled = torch.compile(
        lambda x: torch.tanh(triple(x * 2, 0.5)),
        backend="fpga",
        options={**GREEDY, "recipe": RECIPE, "verify": True},
    )
    with registered(replace(TRIPLE, lower=lower_wrongly)), pytest.raises(fpga_dynamo.VerificationError) as error:
        compiled(torch.randn(3, 4))
    assert str(error.value).startswith("triple")
    assert "differs from eager mode: error 0.25" in str(error.value)


def never(name: str, anchor: object, seen: list[str]) -> Pattern:
    def check_never(match: Match, graph: GraphInfo) -> str | None:
        seen.append(match.root.name)
        return "it is only looked at"

    return Pattern(name, (anchor,), anchor_alone, check_never, lower_triple, frozenset({"move"}))


def test_a_user_s_pattern_is_asked_before_the_built_in_ones_and_they_take_what_it_refuses() -> None:
    seen: list[str] = []
    with registered(never("look", aten.convolution.default, seen)):
        check(Case(nn.Conv2d(3, 16, 3), (1, 3, 5, 5)))
    assert seen


def merge_two(one: Match, group: Match, graph: GraphInfo) -> Match | None:
    return Match(one.pattern, (*one.nodes, *group.nodes), group.outputs) if len(group.nodes) < 2 else None


def lower_chain(match: Match, emitter: Emitter) -> Sequence[View]:
    for node in match.nodes:
        (view,) = lower_triple(Match(match.pattern, (node,), (node,)), emitter)
        emitter.define(node, view)
    return [view]


def three_triples(x: torch.Tensor) -> torch.Tensor:
    return triple(triple(triple(x, 0.5), 1.0), 0.25)


def test_matches_of_a_pattern_that_merges_become_groups() -> None:
    with registered(replace(TRIPLE, lower=lower_chain, merge=merge_two)):
        check(Case(three_triples, (5, 17), commands={"triple": 3}), recipe=RECIPE)
        (program,) = programs_of(three_triples, torch.randn(5, 17), recipe=RECIPE)
        assert [len(covered.nodes) for task in program.card_tasks for covered in task.covers] == [1, 2]
        (program,) = programs_of(three_triples, torch.randn(5, 17), recipe=RECIPE, disable=["triple"])
        assert not program.card_tasks


@pytest.mark.parametrize(
    ("merged", "words"),
    [
        (lambda one, group: "both", "merge returned 'both'; it must return a Match or None"),
        (lambda one, group: one, "merge returned a Match with nodes or outputs that the two matches do not have"),
        (lambda one, group: one.no_such_part, "merge .* raised AttributeError"),
    ],
)
def test_what_merges_wrongly_goes_alone(merged: Callable[[Match, Match], Any], words: str) -> None:
    wrong = replace(TRIPLE, merge=lambda one, group, graph: merged(one, group))
    with registered(wrong), pytest.warns(RuntimeWarning, match=words):
        (program,) = programs_of(three_triples, torch.randn(5, 17), recipe=RECIPE)
    assert [len(covered.nodes) for task in program.card_tasks for covered in task.covers] == [1, 1, 1]


def test_what_joins_no_images_is_a_mistake() -> None:
    wrong = replace(TRIPLE, concatenates=lambda match: match.nodes)
    with registered(wrong), pytest.warns(RuntimeWarning, match="concatenates returned .* it must return the images"):
        (program,) = programs_of(lambda x: triple(x, 0.5), torch.randn(5, 17), recipe=RECIPE)
    assert not program.card_tasks


def test_what_card_and_eager_take_for_an_op_decides_where_it_runs() -> None:
    def launches(known: Operator) -> int:
        with registered(replace(TRIPLE, operators={anchor: known})):
            programs = programs_of(lambda x: triple(x, 0.5), torch.randn(5, 17), recipe=RECIPE, partition="cost")
        return sum(len(program.card_tasks) for program in programs)

    (anchor,) = TRIPLE.anchors
    assert launches(Operator(steps=10**9)) == 0
    assert launches(Operator(steps=10**9, passes=1e12)) == 1
    assert facts(anchor) == Operator(), "what a pattern knows goes with it"


def test_graphs_compiled_before_keep_their_patterns() -> None:
    compiled = torch.compile(lambda x: torch.relu(x) * 2, backend="fpga", options=GREEDY)
    x = torch.randn(3, 4)
    before = compiled(x)
    with registered(never("look", aten.relu.default, [])):
        fpga_dynamo.reset_stats()
        assert torch.equal(compiled(x), before)
        assert fpga_dynamo.stats()["graphs_compiled"] == 0


def test_names_are_unique_and_known() -> None:
    with pytest.raises(FpgaError, match="a pattern named 'convolution' is already registered"):
        register_pattern(Pattern("convolution", (), anchor_alone, check_triple, lower_triple, frozenset()))
    with pytest.raises(FpgaError, match="there is no pattern named 'convolutoin'"):
        unregister_pattern("convolutoin")


def test_no_built_in_pattern_waits_for_an_op_that_tracing_takes_apart() -> None:
    anchors = {anchor for pattern in TABLE.patterns() for anchor in pattern.anchors}
    composite = {op for op in anchors if op.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd)}
    # The CPU's own kernel, where there is one, goes before the composition.
    taken_apart = {op for op in composite if not op.has_kernel_for_dispatch_key(DispatchKey.CPU)}
    assert taken_apart and taken_apart <= set(WHOLE)


def graph_of(function: object, *inputs: torch.Tensor) -> GraphInfo:
    (program,) = programs_of(function, *inputs)  # type: ignore[arg-type]
    program.graph.claimed.clear()
    return program.graph


def node_of(graph: GraphInfo, target: object) -> torch.fx.Node:
    return next(node for node in graph.module.graph.nodes if node.target is target)


def test_a_chain_is_followed_along_single_users_only() -> None:
    from fpga_dynamo.lowering.patterns import Step

    steps = [Step("tanh", (aten.tanh.default,)), Step("exp", (aten.exp.default,))]
    x = torch.randn(3)
    whole = graph_of(lambda x: torch.exp(torch.tanh(torch.relu(x))), x)
    nodes, last, links = follow(node_of(whole, aten.relu.default), steps, whole)
    assert [n.target for n in nodes] == [aten.tanh.default, aten.exp.default]
    assert last.target is aten.exp.default and set(links) == {"tanh", "exp"}
    skipping = graph_of(lambda x: torch.exp(torch.relu(x)), x)
    _, _, links = follow(node_of(skipping, aten.relu.default), steps, skipping)
    assert set(links) == {"exp"}, "steps are optional"
    shared = graph_of(lambda x: (lambda y: (torch.exp(y), y + 1))(torch.tanh(torch.relu(x))), x)
    _, last, links = follow(node_of(shared, aten.relu.default), steps, shared)
    assert set(links) == {"tanh"} and last.target is aten.tanh.default
    claimed = graph_of(lambda x: torch.exp(torch.tanh(torch.relu(x))), x)
    claimed.claimed.add(node_of(claimed, aten.tanh.default))
    assert follow(node_of(claimed, aten.relu.default), steps, claimed)[0] == []


def test_a_node_that_is_used_twice_by_one_user_or_returned_has_no_sole_user() -> None:
    x = torch.randn(3)
    assert sole_user(node_of(graph_of(lambda x: (lambda y: y * y)(torch.tanh(x)), x), aten.tanh.default)) is None
    assert sole_user(node_of(graph_of(torch.tanh, x), aten.tanh.default)) is None


def test_a_match_hands_on_a_dictionary_of_its_own_or_what_it_is_given() -> None:
    (pattern,) = TABLE.patterns()[:1]
    first, second = Match(pattern, (), ()), Match(pattern, (), ())
    first.bound["scale"] = 2.0
    assert second.bound == {} and Match(pattern, (), (), (1, 2)).bound == (1, 2)
