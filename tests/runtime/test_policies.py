"""Each policy against assignments worked by hand. `IDLE` PEs have been free since long ago."""

from __future__ import annotations

import gc
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpga_dynamo.runtime.scheduling.policies import (
    Adaptive,
    Assignment,
    Policy,
    make_policy,
    policy_names,
    register_policy,
)
from fpga_dynamo.runtime.scheduling.policies.base import _registry
from fpga_dynamo.runtime.task import ProcessingElement, ReadyTask
from tests.runtime.systems import host, named, ready, unit

IDLE = -math.inf


def assign(
    policy: str | Policy, items: list[ReadyTask], pes: Sequence[ProcessingElement], now: float = 0.0, **available: float
) -> list[tuple[str, str]]:
    free = {pe: available.get(pe.name, IDLE) for pe in pes}
    return named(make_policy(policy).assign(items, pes, now, free))


def test_simple_goes_round_all_elements_and_skips_those_that_do_not_support_the_task() -> None:
    policy, pes = make_policy("simple"), (host(0), unit("conv"), host(1))
    both, only_host = {"PS": 1.0, "conv": 1.0}, {"PS": 1.0}
    first = [ready("a", both), ready("b", only_host), ready("c", both)]
    assert assign(policy, first, pes, PS1=99.0) == [("a", "PS0"), ("b", "PS1"), ("c", "PS0")]
    assert assign(policy, [ready("d", both)], pes) == [("d", "conv_1")]  # goes on where it stopped


def test_random_is_a_shuffled_round_robin_that_its_seed_repeats() -> None:
    items, pes = [ready(str(number), {"PS": 1.0}) for number in range(20)], (host(0), host(1))
    orders = [assign(make_policy("random", seed=seed), items, pes) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(int(name) for name, _ in orders[0]) == list(range(20))
    assert [pe for _, pe in orders[0]] == ["PS0", "PS1"] * 10
    assert [name for name, _ in orders[0]] != [str(number) for number in range(20)]


def test_met_takes_the_fastest_type_in_rotation_however_busy_it_is() -> None:
    pes = (host(0), unit("conv", 0), unit("conv", 1))
    items = [ready(name, {"PS": 3.0, "conv": 1.0}) for name in "abc"] + [ready("d", {"PS": 1.0, "conv": 2.0})]
    assert assign("met", items, pes, conv_1=50.0, conv_2=60.0) == [
        ("a", "conv_1"), ("b", "conv_2"), ("c", "conv_1"), ("d", "PS0"),
    ]  # fmt: skip


def test_eft_counts_the_wait_and_what_it_just_assigned() -> None:
    pes = (host(0), unit("conv"))
    items = [ready(name, {"PS": 5.0, "conv": 2.0}) for name in "abc"]
    # At 10, conv free at 11: a 15|13 conv; b 15|15 a tie, the first PE; c 20|15 conv.
    assert assign("eft", items, pes, now=10.0, conv_1=11.0) == [("a", "conv_1"), ("b", "PS0"), ("c", "conv_1")]


def test_cedr_policies_take_communication_as_free_and_adaptive_does_not() -> None:
    pes = (host(0), unit("conv"))
    item = ready("a", {"PS": 3.0, "conv": 2.0}, transfer_seconds={"conv": 2.0})
    for policy in ("met", "eft", "etf", "heft_rt"):
        assert assign(policy, [item], pes) == [("a", "conv_1")], policy
    assert assign("adaptive", [item], pes) == [("a", "PS0")]


def test_etf_takes_the_least_finish_of_all_pairs_again_and_again() -> None:
    pes = (unit("p"), unit("q"))
    items = [ready("a", {"p": 4, "q": 5}), ready("b", {"p": 3, "q": 9}), ready("c", {"p": 2, "q": 2})]
    # c on p ends at 2; then a on q and b on p both end at 5, a is older; then b.
    assert assign("etf", items, pes) == [("c", "p_1"), ("a", "q_1"), ("b", "p_1")]


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans()), min_size=1, max_size=12),
    st.tuples(*[st.integers(0, 9)] * 3),
)
def test_etf_equals_its_definition(rows: list[tuple[int, int, bool]], free: tuple[int, int, int]) -> None:
    pes = (unit("p", 0), unit("p", 1), unit("q"))
    items = [ready(str(number), {"p": p} | ({"q": q} if on_q else {})) for number, (p, q, on_q) in enumerate(rows)]
    planned = dict(zip(pes, map(float, free), strict=True))
    left, expected = list(items), []
    while left:  # the definition, word by word
        pairs = [(item, pe) for item in left for pe in pes if pe.resource in item.task.costs]
        finishes = [max(2.0, planned[pe]) + item.task.costs[pe.resource] for item, pe in pairs]
        item, pe = pairs[finishes.index(min(finishes))]
        planned[pe] = min(finishes)
        left.remove(item)
        expected.append((item.task.name, pe.name))
    available = {pe.name: float(time) for pe, time in zip(pes, free, strict=True)}
    assert assign("etf", items, pes, now=2.0, **available) == expected


def test_heft_rt_sorts_by_the_mean_over_types_not_elements() -> None:
    pes = (host(0), host(1), unit("conv"))
    x, y = ready("x", {"PS": 2.0, "conv": 8.0}), ready("y", {"PS": 4.5})  # means: 5 and 4.5; by elements 12/3 and 9/2
    assert assign("heft_rt", [x, y], pes) == [("x", "PS0"), ("y", "PS1")]


def test_adaptive_takes_the_highest_rank_first_and_binds_only_to_idle_elements() -> None:
    pes = (unit("conv", 0), unit("conv", 1))
    items = [ready(name, {"conv": cost}) for name, cost in [("short", 1.0), ("long", 9.0), ("middle", 4.0)]]
    assert assign("adaptive", items, pes) == [("long", "conv_1"), ("middle", "conv_2")]
    assert assign("adaptive", items, pes, conv_1=3.0) == [("long", "conv_2")]
    assert assign("adaptive", items, pes, conv_1=3.0, conv_2=3.0) == []


def test_adaptive_waits_for_a_busy_element_that_still_finishes_first() -> None:
    pes = (host(0), unit("conv"))
    item = ready("a", {"PS": 10.0, "conv": 2.0})
    assert assign("adaptive", [item], pes, now=0.0, conv_1=5.0) == []  # 7 beats 10
    assert assign("adaptive", [item], pes, now=0.0, conv_1=9.0) == [("a", "PS0")]
    # The task that waits for conv counts: the next one would end there at 5 + 2 + 2 = 9.
    other = ready("b", {"PS": 8.5, "conv": 2.0}, arrival=1.0)
    assert assign("adaptive", [item, other], pes, now=1.0, conv_1=5.0) == []
    other = ready("b", {"PS": 7.0, "conv": 2.0}, arrival=1.0)
    assert assign("adaptive", [item, other], pes, now=1.0, conv_1=5.0) == [("b", "PS0")]


def test_adaptive_lets_no_small_program_starve() -> None:
    pes = (unit("conv"),)
    small, large = ready("small", {"conv": 1.0}, arrival=0.0), {"conv": 5.0}
    assert assign("adaptive", [small, ready("large", large, arrival=3.0)], pes, now=3.0)[0][0] == "large"
    assert assign("adaptive", [small, ready("large", large, arrival=5.0)], pes, now=5.0)[0][0] == "small"


def test_adaptive_follows_what_it_measures() -> None:
    policy, pes = Adaptive(smoothing=0.5), (host(0), unit("conv"))
    item = ready("a", {"PS": 4.0, "conv": 2.0})
    assert assign(policy, [item], pes) == [("a", "conv_1")]
    policy.observe(item.task, pes[1], 8.0)
    assert policy.estimates(item.task)["conv"] == 5.0  # half way from 2 to 8
    assert assign(policy, [item], pes) == [("a", "PS0")]
    assert assign(policy, [ready("new", {"PS": 4.0, "conv": 2.0})], pes) == [("new", "conv_1")]  # another task


def test_adaptive_survives_a_cold_first_run() -> None:
    policy, pe = Adaptive(smoothing=0.25), unit("conv")
    task = ready("a", {"conv": 1.0}).task
    policy.observe(task, pe, 1000.0)
    assert policy.estimates(task)["conv"] == pytest.approx(1.75)  # counted as 4
    for _ in range(20):
        policy.observe(task, pe, 1.0)
    assert policy.estimates(task)["conv"] == pytest.approx(1.0, rel=0.01)


def test_adaptive_tries_again_what_once_was_slow_and_ever_less_often() -> None:
    policy, pes = Adaptive(patience=8), (host(0), unit("conv"))
    item = ready("a", {"PS": 3.0, "conv": 1.0})
    seconds = {"PS0": 3.0, "conv_1": 50.0}  # conv is far worse than stated
    runs = []
    for _ in range(400):
        ((_, name),) = assign(policy, [item], pes)
        runs.append(name)
        policy.observe(item.task, next(pe for pe in pes if pe.name == name), seconds[name])
    tries = [number for number, name in enumerate(runs) if name == "conv_1"]
    assert tries[-1] > 100, "never tried again"
    assert len(tries) < 40
    gaps = [later - earlier for earlier, later in pairwise(tries) if later - earlier > 1]
    assert gaps == sorted(gaps) and len(set(gaps)) == len(gaps)

    seconds["conv_1"] = 1.0  # and when it gets as fast as stated, it is used
    for _ in range(2000):
        ((_, name),) = assign(policy, [item], pes)
        policy.observe(item.task, next(pe for pe in pes if pe.name == name), seconds[name])
    assert name == "conv_1"


def test_adaptive_forgets_tasks_that_are_gone() -> None:
    policy, item = Adaptive(), ready("a", {"PS": 1.0})
    policy.estimates(item.task)
    assert len(policy._records) == 1
    del item
    gc.collect()
    assert len(policy._records) == 0


@pytest.mark.parametrize("options", [{"smoothing": 0.0}, {"smoothing": 1.5}, {"patience": 0}])
def test_adaptive_refuses_meaningless_options(options: Any) -> None:
    with pytest.raises(ValueError, match=f"policy 'adaptive': {next(iter(options))} must be"):
        make_policy("adaptive", **options)


def test_names() -> None:
    assert policy_names() == [
        "adaptive", "edf", "eft", "etf", "heft_rt", "least_work", "llf", "met", "random", "simple",
    ]  # fmt: skip
    assert make_policy("HEFT_RT").name == make_policy("heft-rt").name == "heft_rt"
    with pytest.raises(ValueError, match="unknown scheduling policy 'heftrt': did you mean 'heft_rt'"):
        make_policy("heftrt")
    with pytest.raises(ValueError, match="known are adaptive, edf, eft"):
        make_policy("zzz")
    with pytest.raises(ValueError, match="cannot be combined with a 'eft' policy object"):
        make_policy(make_policy("eft"), seed=1)


def test_users_register_policies() -> None:
    class Last(Policy):
        name = "Last"

        def assign(
            self,
            ready: Sequence[ReadyTask],
            pes: Sequence[ProcessingElement],
            now: float,
            available: Mapping[ProcessingElement, float],
        ) -> list[Assignment]:
            return [(item, self.supporting(item.task, pes)[-1]) for item in ready]

    try:
        assert register_policy(Last) is Last
        assert assign("LAST", [ready("a", {"PS": 1.0})], (host(0), host(1))) == [("a", "PS1")]

        class Other(Last):
            name = "eft"

        with pytest.raises(ValueError, match="'eft' is already registered"):
            register_policy(Other)
    finally:
        _registry.pop("last", None)


def test_a_policy_without_a_name_is_not_registered() -> None:
    class Nameless(Adaptive):
        name = ""

    with pytest.raises(ValueError, match="Nameless has no name"):
        register_policy(Nameless)
