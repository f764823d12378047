"""The bookkeeping under scheduler and simulation, with a policy that does as it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from fpga_dynamo.runtime.scheduling.dispatch import Dispatcher
from fpga_dynamo.runtime.scheduling.policies import Assignment, Policy, make_policy
from fpga_dynamo.runtime.task import ProcessingElement, ReadyTask
from tests.runtime.systems import host, ready, unit


class Told(Policy):
    """Assigns every ready task to the first PE, and keeps what it was shown."""

    name = "told"

    def assign(
        self,
        ready: Sequence[ReadyTask],
        pes: Sequence[ProcessingElement],
        now: float,
        available: Mapping[ProcessingElement, float],
    ) -> list[Assignment]:
        self.shown = {pe.name: time - now for pe, time in available.items() if time > now}
        return [(item, pes[0]) for item in ready]


def dispatch(dispatcher: Dispatcher, now: float, *items: ReadyTask) -> list[str]:
    dispatcher.ready.update(dict.fromkeys(items))
    return [slot.running.task.name for slot in dispatcher.decide(now) if slot.running is not None]


def test_a_busy_pe_is_available_after_its_task_and_its_queue() -> None:
    policy = Told()
    dispatcher = Dispatcher([host(0), host(1)], policy)
    a, b, c = ready("a", {"PS": 4.0}), ready("b", {"PS": 2.0}), ready("c", {"PS": 1.0})
    assert dispatch(dispatcher, 10.0, a) == ["a"]
    assert dispatch(dispatcher, 11.0, b) == []
    assert policy.shown == {"PS0": 3.0}
    dispatch(dispatcher, 12.0, c)
    assert policy.shown == {"PS0": 4.0}  # 2 left of a, then b
    dispatch(dispatcher, 17.0, ready("d", {"PS": 1.0}))
    assert policy.shown == {"PS0": 3.0 + 2.0 + 1.0}  # a is 3 late and taken to last 3 more; b, c

    slot = dispatcher.slots[dispatcher.pes[0]]
    assert dispatcher.release(slot, a, 20.0) and slot.running is b
    assert dispatcher.available[slot.pe] == 20.0 + 2.0 + 1.0 + 1.0
    dispatcher.drop(c.frame)
    assert dispatcher.available[slot.pe] == 20.0 + 2.0 + 1.0
    assert not dispatcher.release(slot, a, 21.0) and slot.running is b  # released before: nothing happens


def test_a_pe_that_was_freed_a_moment_later_than_now_is_idle() -> None:
    """Threads read the clock before they get the lock, so times may come out of order."""
    dispatcher = Dispatcher([unit("conv")], make_policy("adaptive"))
    a, b = ready("a", {"conv": 1.0}), ready("b", {"conv": 1.0})
    dispatch(dispatcher, 0.0, a)
    dispatcher.release(dispatcher.slots[dispatcher.pes[0]], a, 1.001)
    assert dispatch(dispatcher, 1.0, b) == ["b"]


def test_policies_cannot_write_to_what_they_are_shown() -> None:
    dispatcher = Dispatcher([host()], make_policy("eft"))
    with pytest.raises(TypeError):
        dispatcher.available[dispatcher.pes[0]] = 1.0  # type: ignore[index]
