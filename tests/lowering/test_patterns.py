"""Patterns of users: through the public API, ahead of the built-in ones, with a core of their own in a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._C import DispatchKey
from torch._dynamo.exc import BackendCompilerFailed

import fpga_dynamo
from fpga_dynamo import FpgaError, Match, Pattern, PatternError, register_pattern, unregister_pattern
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.graph import GraphInfo, shape
from fpga_dynamo.ir.operators import Operator, facts
from fpga_dynamo.ir.view import Buffer, View, numel
from fpga_dynamo.lowering.patterns import TABLE, anchor_alone, follow, registered, sole_user
from fpga_dynamo.lowering.tracing.decompose import WHOLE
from tests.lowering.lowering_cases import GREEDY, Case, check, programs_of

aten = torch.ops.aten
RECIPE = str(Path(__file__).parent / "data" / "triple.toml")


@torch.library.custom_op("lowering_test::triple", mutates_args=())
def triple(x: torch.Tensor, shift: float) -> torch.Tensor:
    return 3 * x + shift


@triple.register_fake
def _(x: torch.Tensor, shift: float) -> torch.Tensor:
    return torch.empty_like(x)


def check_triple(match: Match, graph: GraphInfo) -> str | None:
    return "this core takes matrices only" if len(shape(match.root)) != 2 else None


def lower_triple(match: Match, emitter: Emitter) -> Sequence[View]:
    source, shift = match.root.args
    x = emitter.view(source)  # type: ignore[arg-type]
    if x.strides != (x.shape[1], 1):
        dense = View(emitter.tensor((numel(x.shape),)).buffer, x.shape, (x.shape[1], 1))
        emitter.copy(x, dense)
        x = dense
    out = View(emitter.tensor((numel(x.shape),)).buffer, x.shape, (x.shape[1], 1))
    emitter.command(
        "triple", reads=[x], writes=[out], slices=2, input=Operand.of(x), output=Operand.of(out),
        count=numel(x.shape), shift=float(shift),  # type: ignore[arg-type]
    )  # fmt: skip
    return [out]


TRIPLE = Pattern(
    name="triple",
    anchors=(torch.ops.lowering_test.triple.default,),
    match=anchor_alone,
    check=check_triple,
    lower=lower_triple,
    opcodes=frozenset({"triple", "move"}),
)


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
            Case(lambda x: triple(x, 0.5), (5,), offload=0.0, launches=0, why="this core takes matrices only"),
            recipe=RECIPE,
        )


def test_a_card_without_the_core_leaves_the_node_to_eager() -> None:
    with registered(TRIPLE):
        why = "no kernel of the xclbin has all opcodes that it takes: sequencer lacks triple"
        check(Case(lambda x: triple(x, 0.5), (5, 17), offload=0.0, launches=0, why=why))


def test_without_its_pattern_the_op_is_eager_s() -> None:
    case = Case(lambda x: triple(x, 0.5), (5, 17), offload=0.0, launches=0, why="no pattern takes lowering_test.triple")
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
    assert "diverges from eager: error 0.25" in str(error.value)


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
        (lambda one, group: "both", "merge gave 'both'; it has to give a Match, or None"),
        (lambda one, group: one, "merge gave a Match of other nodes than those of both, or with other outputs"),
        (lambda one, group: one.no_such_part, "merge .* raised AttributeError"),
    ],
)
def test_what_merges_wrongly_goes_alone(merged: Callable[[Match, Match], Any], words: str) -> None:
    wrong = replace(TRIPLE, merge=lambda one, group, graph: merged(one, group))
    with registered(wrong), pytest.warns(RuntimeWarning, match=words):
        (program,) = programs_of(three_triples, torch.randn(5, 17), recipe=RECIPE)
    assert [len(covered.nodes) for task in program.card_tasks for covered in task.covers] == [1, 1, 1]


def test_what_joins_no_images_is_a_mistake() -> None:
    wrong = replace(TRIPLE, joins=lambda match: match.nodes)
    with registered(wrong), pytest.warns(RuntimeWarning, match="joins gave .* it has to give the images"):
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


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "name is a string"),
        ({"anchors": torch.ops.lowering_test.triple.default}, "anchors is a tuple of operators, not"),
        ({"anchors": (torch.ops.lowering_test.triple,)}, "name those that you mean: lowering_test.triple.default"),
        ({"anchors": ("aten.relu",)}, "anchor 'aten.relu' is no operator, such as torch.ops.aten.relu.default"),
        ({"anchors": (aten.square.default,)}, "aten.square.default is taken apart into other operators"),
        ({"opcodes": "triple"}, "opcodes is a set of names, not 'triple'"),
        ({"lower": None}, "lower is a function, not None"),
        ({"merge": "always"}, "merge is a function, or None, not 'always'"),
        ({"operators": {triple: 3}}, "operators maps operators to Operator"),
    ],
)
def test_a_pattern_that_could_never_work_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(FpgaError) as error:
        register_pattern(replace(TRIPLE, **change))
    assert words in str(error.value)
    assert "triple" not in TABLE.names()
    with pytest.raises(FpgaError, match="takes a Pattern, not"):
        register_pattern(lower_triple)  # type: ignore[arg-type]


def raising(*args: object) -> Any:
    raise KeyError("of the user's")


def with_command(**changes: Any) -> Callable[[Match, Emitter], Sequence[View]]:
    """A `lower` whose command says something else than it should; a field that is `...` is left out."""

    def lower(match: Match, emitter: Emitter) -> Sequence[View]:
        x = emitter.vector_rows(emitter.view(match.root.args[0]), aligned=True)  # type: ignore[arg-type]
        out = emitter.tensor(x.shape, pitch=x.strides[0])
        given: dict[str, Any] = {
            "opcode": "triple", "reads": [x], "writes": [out], "slices": 2, "input": Operand.of(x),
            "output": Operand.of(out), "count": x.strides[0] * x.shape[0], "shift": 0.5,
        }  # fmt: skip
        for name, change in changes.items():
            given[name] = change(x, out) if callable(change) else change
        given = {name: value for name, value in given.items() if value is not ...}
        emitter.command(given.pop("opcode"), **given)
        return [out]

    return lower


def returning(what: Callable[[View], Any]) -> Callable[[Match, Emitter], Any]:
    return lambda match, emitter: what(*with_command()(match, emitter))


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "match raises": ({"match": raising}, "match (line "),
    "match raises what": ({"match": raising}, 'raised KeyError: "of the user\'s"'),
    "match gives no match": ({"match": lambda *args: True}, "match gave True; it has to give a Match, or None"),
    "match covers nothing": (
        {"match": lambda pattern, node, graph: Match(pattern, (), ())},
        "with nodes=(); that has to be a tuple of nodes",
    ),
    "match covers others": (
        {"match": lambda pattern, node, graph: Match(pattern, (node.args[0],), (node.args[0],))},
        "does not cover triple, the anchor",
    ),
    "check raises": ({"check": raising}, "check (line "),
    "check says no without a sentence": ({"check": lambda *args: False}, "check gave False; it has to give None, or"),
    "macs is no number": ({"macs": lambda match: "many"}, "macs gave 'many'"),
    "lower raises": ({"lower": raising}, "lower (line "),
    "lower returns nothing": (
        {"lower": returning(lambda out: None)},
        "lower returned nothing; it has to return a list",
    ),
    "lower returns a view": ({"lower": returning(lambda out: out)}, "lower returned a View; it has to return a list"),
    "lower returns no view": ({"lower": returning(lambda out: [])}, "lower returned 0 views for 1 output(s), triple"),
    "lower returns too many": ({"lower": returning(lambda out: [out, out])}, "lower returned 2 views for 1 output(s)"),
    "lower returns buffers": ({"lower": returning(lambda out: [out.buffer])}, "it has to return a View"),
    "shape": (
        {"lower": returning(lambda out: [out.permute((1, 0))])},
        "a view of shape (16, 5); the node has shape (5,",
    ),
    "strides": ({"lower": returning(lambda out: [replace(out, strides=(1,))])}, "1 strides for 2 dimensions"),
    "dtype": (
        {"lower": returning(lambda out: [replace(out, dtype=torch.int32)])},
        "of torch.int32; the node is of torch.f",
    ),
    "extent": ({"lower": returning(lambda out: [replace(out, offset=400)])}, "reaches beyond its buffer"),
    "unwritten": (
        {"lower": returning(lambda out: [View(Buffer(256), out.shape, out.strides)])},
        "a view that no command has written",
    ),
    "float for an int": (
        {"lower": with_command(count=3.5)},
        "field 'count' of 'triple_command' takes int32_t, not 3.5",
    ),
    "float for a flag": (
        {"lower": with_command(count=1.0)},
        "field 'count' of 'triple_command' takes int32_t, not 1.0",
    ),
    "NaN for an int": ({"lower": with_command(count=float("nan"))}, "takes int32_t, not nan"),
    "too large": ({"lower": with_command(count=1 << 40)}, "takes int32_t, which 1099511627776 does not fit"),
    "too large for float": ({"lower": with_command(shift=1e300)}, "takes float, which 1e+300 does not fit"),
    "a string": ({"lower": with_command(shift="much")}, "takes float, not 'much'"),
    "a list": ({"lower": with_command(shift=[1.0, 2.0])}, "takes 1 value, not [1.0, 2.0]"),
    "a view for its place": (
        {"lower": with_command(input=lambda x, out: x)},
        "not a View; Operand.of(view) is its place",
    ),
    "a place for a number": ({"lower": with_command(count=lambda x, out: Operand.of(x))}, "not a place in memory"),
    "half an offset": (
        {"lower": with_command(input=lambda x, out: Operand(x.buffer, 0.5))},  # type: ignore[arg-type]
        "has the offset 0.5; it takes a whole number",
    ),
    "missing field": ({"lower": with_command(shift=...)}, "leaves out shift of 'triple_command'"),
    "unknown field": ({"lower": with_command(shfit=1.0)}, "has no field 'shfit'; did you mean 'shift'?"),
    "unknown opcode": ({"lower": with_command(opcode="tripel")}, "kernel sequencer has no opcode 'tripel'"),
    "reads nothing": (
        {"lower": with_command(reads=[])},
        "'input' of 'triple_command' is a place in memory that neither",
    ),
    "writes nothing": (
        {"lower": with_command(writes=[])},
        "'output' of 'triple_command' is a place in memory that neither",
    ),
    "reads no list": (
        {"lower": with_command(reads=lambda x, out: x)},
        "reads of command 'triple' takes a list of views",
    ),
    "reads what is unwritten": (
        {"lower": with_command(reads=lambda x, out: [x, out])},
        "reads View(buffer=",
    ),
    "writes an input": (
        {"lower": with_command(writes=lambda x, out: [x, out])},
        "is an input of the launch; emitter.tensor(shape) makes",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_of_a_pattern_costs_its_node_the_card_and_nothing_else(case: str) -> None:
    change, words = MISTAKES[case]

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(triple(x, 0.5) * 2)

    x = torch.randn(5, 16)
    options = {**GREEDY, "recipe": RECIPE}
    with registered(replace(TRIPLE, **change)):
        torch._dynamo.reset()
        with pytest.warns(RuntimeWarning, match="pattern 'triple' on triple") as warned:
            report = fpga_dynamo.explain(model, x, options=options)
        assert len([w for w in warned if "pattern" in str(w.message)]) == 1
        (node,) = (node for graph in report.graphs for node in graph.nodes if node.name == "triple")
        assert node.place == "PS" and words in node.how
        assert "pattern 'triple' on triple (lowering_test.triple.default at test_patterns.py:" in node.how
        places = {node.name: node.place for graph in report.graphs for node in graph.nodes}
        assert places["tanh"] == "PL" and report.pl_launches == 1
        with pytest.warns(RuntimeWarning, match="pattern 'triple' on triple"):
            torch.testing.assert_close(torch.compile(model, backend="fpga", options=options)(x), model(x))
        torch._dynamo.reset()
        with pytest.raises(BackendCompilerFailed) as error:
            torch.compile(model, backend="fpga", options={**options, "strict": True})(x)
        assert isinstance(error.value.inner_exception, PatternError) and words in str(error.value)


@pytest.mark.parametrize("case", ["hidden", "between"])
def test_a_match_that_cannot_run_as_one_is_refused(case: str) -> None:
    def match(pattern: Pattern, node: torch.fx.Node, graph: GraphInfo) -> Match:
        first = node.args[0] if case == "hidden" else node.args[0].args[0]  # type: ignore[union-attr]
        return Match(pattern, (first, node), (node,) if case == "hidden" else (first, node))  # type: ignore[arg-type]

    def hidden(x: torch.Tensor) -> torch.Tensor:
        return triple(y := torch.tanh(x), 0.5) + y

    def between(x: torch.Tensor) -> torch.Tensor:
        return triple(torch.exp(y := torch.tanh(x)), 0.5) + y

    model = {"hidden": hidden, "between": between}[case]
    words = {"hidden": "a Match that hides tanh, which others use", "between": "between whose nodes others have to run"}
    x = torch.randn(5, 16)
    options = {**GREEDY, "recipe": RECIPE}
    with registered(replace(TRIPLE, match=match)), pytest.warns(RuntimeWarning, match=words[case]):
        torch.testing.assert_close(torch.compile(model, backend="fpga", options=options)(x), model(x))


def test_a_pattern_that_fails_for_some_nodes_is_used_for_the_others() -> None:
    def lower(match: Match, emitter: Emitter) -> Sequence[View]:
        return [] if match.root.args[1] == 1.0 else lower_triple(match, emitter)

    def model(x: torch.Tensor) -> torch.Tensor:
        return triple(triple(triple(x, 0.5), 1.0), 0.25)

    with registered(replace(TRIPLE, lower=lower)), pytest.warns(RuntimeWarning, match="lower returned 0 views"):
        report = fpga_dynamo.explain(model, torch.randn(5, 17), options={**GREEDY, "recipe": RECIPE})
    assert [node.place for graph in report.graphs for node in graph.nodes] == ["PL", "PS", "PL"]


def test_a_pattern_that_fails_for_every_node_is_given_up() -> None:
    calls = []

    def lower(match: Match, emitter: Emitter) -> Sequence[View]:
        calls.append(match.root.name)
        raise RuntimeError

    def model(x: torch.Tensor) -> torch.Tensor:
        for i in range(20):
            x = triple(x, i / 2)
        return torch.tanh(x)

    with registered(replace(TRIPLE, lower=lower)), pytest.warns(RuntimeWarning, match="raised RuntimeError"):
        report = fpga_dynamo.explain(model, torch.randn(5, 17), options={**GREEDY, "recipe": RECIPE})
    assert len(calls) < 8 and report.pl_launches == 1
    assert any("has failed for 3 other nodes" in node.how for graph in report.graphs for node in graph.nodes)


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
