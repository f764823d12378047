"""What a scheduling policy is, and the registry of policies by name.

The real scheduler and the simulation call the same objects. A policy may keep state (rotation, measurements): give each
scheduler its own. Calls to one policy are serialised by its scheduler.
"""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from fpga_dynamo.errors import OptionError
from fpga_dynamo.runtime.task import Frame, ProcessingElement, ReadyTask, Task

Assignment = tuple[ReadyTask, ProcessingElement]
Ready = Sequence[ReadyTask]
PEs = Sequence[ProcessingElement]
Available = Mapping[ProcessingElement, float]
"""When each PE is expected to have done all that it was given, in seconds."""


class Policy(ABC):
    """Maps ready tasks to processing elements (PEs)."""

    name: ClassVar[str] = ""
    indifferent: ClassVar[bool] = False
    """Whether a lone ready task of one resource type is always assigned to the first PE of that type while all PEs are
    idle, and :meth:`assign` remembers nothing of it: then it need not be asked. A subclass with an `assign` of its own
    has to say so again."""

    def __init_subclass__(cls) -> None:
        if "assign" in cls.__dict__ and "indifferent" not in cls.__dict__:
            cls.indifferent = False

    def __init__(self) -> None:
        self._pes: PEs = ()
        self._supporting: dict[frozenset[str], tuple[ProcessingElement, ...]] = {}

    @abstractmethod
    def assign(self, ready: Ready, pes: PEs, now: float, available: Available) -> list[Assignment]:
        """Assign tasks of `ready` (oldest first) to PEs that support them; called whenever something changed.

        `available[pe]` is when the PE is expected to have done all that it was given: greater than `now` exactly if it
        is busy. Read it, do not write to it. A task assigned to a busy PE queues there, in the order of the returned
        list. A task that is left out stays ready and is offered again at the next change; while no PE is busy at least
        one task must be assigned. Times are in seconds.
        """

    def estimates(self, task: Task) -> Mapping[str, float]:
        """Expected seconds of `task` by resource type. As in CEDR: the stated costs, communication is free."""
        return task.costs

    def observe(self, task: Task, pe: ProcessingElement, seconds: float) -> None:  # noqa: B027 (optional hook)
        """Told what a task really took, transfers included."""

    def decided(self, latency: float) -> None:  # noqa: B027 (optional hook)
        """Told, where that is measured, how many seconds it took from when something could be decided until it was."""

    def simulated(self) -> None:  # noqa: B027 (optional hook)
        """Told before a simulation: what is skipped to save real time is not to be skipped."""

    def leave(self, frame: Frame) -> None:  # noqa: B027 (optional hook)
        """Told that a frame is over or failed: none of its tasks will be offered again. (Not of a lone task.)"""

    def forget(self) -> None:  # noqa: B027 (optional hook)
        """Told that an exception (Ctrl-C, say) cut one of these methods or the scheduler's own work short.

        What the policy remembers of tasks that it has seen may be wrong: all that are still to run are offered again.
        """

    def evaluations(self, queued: int, pes: int) -> float:
        """How many pairs of a task and a PE a decision on `queued` tasks looks at: what it costs in virtual time."""
        return float(queued * pes)

    def supporting(self, task: Task, pes: PEs) -> tuple[ProcessingElement, ...]:
        """The PEs that can run `task`, in the order of `pes`."""
        if pes is not self._pes:
            self._pes, self._supporting = pes, {}
        found = self._supporting.get(task.resources)
        if found is None:
            found = tuple(pe for pe in pes if pe.resource in task.resources)
            self._supporting[task.resources] = found
        return found

    def earliest_finish(
        self, task: Task, pes: PEs, now: float, available: Available
    ) -> tuple[float, ProcessingElement]:
        """Least finish(pe) = max(now, available[pe]) + estimate over the supporting PEs; the first PE wins a tie."""
        best = None
        least = 0.0
        seconds = self.estimates(task)
        for pe in self.supporting(task, pes):
            free = available[pe]
            finish = (free if free > now else now) + seconds[pe.resource]
            if best is None or finish < least:
                best, least = pe, finish
        assert best is not None, "the scheduler refuses graphs with tasks that no PE supports"
        return least, best


def comparisons(tasks: int) -> float:
    """What sorting so many tasks costs, in evaluations."""
    return tasks * math.log2(tasks) if tasks > 1 else 0.0


_registry: dict[str, Callable[..., Policy]] = {}


def _key(name: str) -> str:
    return name.strip().lower().replace("-", "_")


def register_policy(policy: type[Policy]) -> type[Policy]:
    """Make a policy class available under its `name`; usable as a decorator. A taken name is an error."""
    if not (isinstance(policy, type) and issubclass(policy, Policy)):
        raise OptionError(f"register_policy() expects a subclass of Policy, not {policy!r}")
    key = _key(policy.name)
    if not key:
        raise OptionError(f"policy class {policy.__name__} has no name: set its class attribute `name`")
    if _registry.get(key, policy) is not policy:
        raise OptionError(
            f"policy name {policy.name!r} is already registered by {_registry[key]!r}: choose another name"
        )
    _registry[key] = policy
    return policy


def policy_names() -> list[str]:
    """The registered names, sorted."""
    return sorted(_registry)


def make_policy(policy: str | Policy | type[Policy], **options: Any) -> Policy:
    """A policy object from a name (case-insensitive), a class, or an object (returned as it is).

    `options` go to the class, such as `seed` of "random". OptionError names the nearest known policy.
    """
    if isinstance(policy, Policy):
        if options:
            raise OptionError(
                f"options {sorted(options)} cannot be combined with a {policy.name!r} policy object: "
                "give them to its constructor"
            )
        return policy
    if isinstance(policy, type) and issubclass(policy, Policy):
        return policy(**options)
    if not isinstance(policy, str):
        raise OptionError(f"a scheduling policy is a name ({', '.join(policy_names())}), a Policy, or its class, "
                          f"not {policy!r}")  # fmt: skip
    factory = _registry.get(_key(policy))
    if factory is None:
        near = difflib.get_close_matches(_key(policy), _registry, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise OptionError(f"unknown scheduling policy {policy!r}: {hint}known are {', '.join(policy_names())}")
    return factory(**options)
