"""Which pattern matches which nodes, which nodes become one micro-program, and the sentence for every other one."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fpga_dynamo.ir.graph import GraphInfo, computes
from fpga_dynamo.lowering.passes.select.claim import Claims, claim
from tests.lowering.lowering_cases import Call, programs_of, randomise


def claims_of(function: object, *inputs: torch.Tensor, disabled: tuple[str, ...] = ()) -> tuple[GraphInfo, Claims]:
    (program,) = programs_of(function, *inputs)  # type: ignore[arg-type]
    graph = GraphInfo(program.module, program.graph.target, program.graph.static_inputs)
    return graph, claim(graph, disabled)


def groups(claims: Claims) -> list[tuple[str, int]]:
    """Pattern and number of computing nodes of every match, in graph order."""
    order = {node: i for i, node in enumerate(next(iter(claims.matches)).root.graph.nodes)}
    matches = sorted(claims.matches, key=lambda match: order[match.root])
    return [(match.pattern.name, sum(map(computes, match.nodes))) for match in matches]


def conv_block() -> nn.Sequential:
    layers = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1), nn.Sigmoid())
    return layers


def test_batch_norm_and_activation_go_with_their_convolution() -> None:
    _, claims = claims_of(randomise(conv_block()), torch.randn(1, 3, 6, 6))
    assert groups(claims) == [("convolution", 3), ("convolution", 2)]
    assert claims.reasons == {}


def test_no_node_is_in_two_groups_and_every_node_is_in_one_or_has_a_reason() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = F.max_pool2d(F.relu(x), 2)
        return torch.atan(torch.softmax(y * 2 + y.mean(1, keepdim=True), 1)) + y.sum()

    graph, claims = claims_of(function, torch.randn(2, 3, 6, 6))
    nodes = [node for match in claims.matches for node in match.nodes]
    assert len(nodes) == len(set(nodes))
    for node in graph.module.graph.nodes:
        if computes(node) and node not in graph.static:
            assert (node in nodes) != (node in claims.reasons), node


def test_the_convolution_that_comes_last_takes_the_addition() -> None:
    function = Call(
        lambda x, v, w: F.relu(F.conv2d(x, v) + F.conv2d(x, w)),
        v=torch.randn(16, 3, 3, 3), w=torch.randn(16, 3, 3, 3),
    )  # fmt: skip
    _, claims = claims_of(function, torch.randn(1, 3, 6, 6))
    assert sorted(count for _, count in groups(claims)) == [1, 3]
    for match in claims.matches:
        inside = set(match.nodes)
        outside = [arg for node in match.nodes for arg in node.all_input_nodes if arg not in inside]
        assert all(list(match.root.graph.nodes).index(arg) < list(match.root.graph.nodes).index(match.root)
                   for arg in outside)  # fmt: skip


def test_a_chain_of_elementwise_ops_is_one_group() -> None:
    _, claims = claims_of(lambda x, y: torch.tanh(x * 2 + y).exp() - x, torch.randn(3, 5), torch.randn(5))
    assert groups(claims) == [("pointwise", 5)]


def test_a_value_that_others_need_ends_a_group() -> None:
    _, claims = claims_of(lambda x: (lambda y: (y, torch.exp(y) + 1))(x * 2), torch.randn(3, 5))
    assert groups(claims) == [("pointwise", 1), ("pointwise", 2)]


def test_a_diamond_is_one_group() -> None:
    _, claims = claims_of(lambda x: (lambda y: torch.exp(y) + torch.tanh(y))(x * 2), torch.randn(3, 5))
    assert groups(claims) == [("pointwise", 4)]


def test_another_shape_ends_a_group() -> None:
    _, claims = claims_of(lambda x, y: torch.exp(y) + x * 2, torch.randn(3, 5), torch.randn(5))
    assert sorted(groups(claims)) == [("pointwise", 1), ("pointwise", 2)]


def test_a_group_has_no_cycle_through_others() -> None:
    _, claims = claims_of(lambda x: (lambda y: y + y.sum() * y)(torch.exp(x)), torch.randn(3, 5))
    for match in claims.matches:
        inside = set(match.nodes)
        for node in match.nodes:
            if node is not match.root:
                assert set(node.users) <= inside, "only the result leaves a group"


def test_a_large_group_ends_where_its_program_would_not_fit() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for i in range(100):
            x = torch.tanh(x + i)
        return x

    _, claims = claims_of(function, torch.randn(3, 5))
    counts = [count for _, count in groups(claims)]
    assert sum(counts) == 200 and 1 < len(counts) < 15


REASONS = {
    "random numbers": (lambda x: torch.rand_like(x) + x, "rand_like", "random numbers and state changes"),
    "an op without a pattern": (torch.atan, "atan", "no pattern matches aten.atan.default"),
    "a type": (lambda x: x.double() * 2, "mul", "float64"),
    "a number that is not known": (
        lambda x: F.leaky_relu(x, x.sum().item()),
        "leaky_relu",
        "is not known before the call",
    ),
    "a number that is not known, behind a convolution": (
        lambda x: F.leaky_relu(F.conv1d(x[None], x[None, :, :2]), x.sum().item()),
        "leaky_relu",
        "is not known before",
    ),
    "a size that is not known": (lambda x: torch.tanh(x[x > 0]), "tanh", "a size that is not known"),
}


@pytest.mark.parametrize("function, name, why", REASONS.values(), ids=REASONS)
def test_a_node_that_stays_has_its_sentence(function: object, name: str, why: str) -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        _, claims = claims_of(function, torch.randn(3, 5))
    reasons = {node.name: reason for node, reason in claims.reasons.items()}
    assert re.search(why, reasons[name]), reasons


def test_a_disabled_pattern_is_named_in_the_reason() -> None:
    _, claims = claims_of(randomise(conv_block()), torch.randn(1, 3, 6, 6), disabled=("convolution", "pointwise"))
    assert claims.matches == []
    assert set(claims.reasons.values()) == {"no pattern matches it with convolution, pointwise disabled"}


def test_functions_of_parameters_are_nobody_s_work() -> None:
    function = Call(lambda x, w: x @ (w * 2 + 1).t(), w=torch.randn(7, 5))
    graph, claims = claims_of(function, torch.randn(3, 5))
    assert groups(claims) == [("matmul", 1)]
    assert claims.reasons == {}
    assert sum(computes(node) for node in graph.static) == 2
