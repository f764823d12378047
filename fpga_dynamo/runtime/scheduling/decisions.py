"""What scheduling costs in virtual time: one serial scheduler, whose rounds take seconds by a formula."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

from fpga_dynamo.errors import OptionError


@dataclass(frozen=True)
class DecisionCost:
    """A round takes round + evaluation * (pairs of a task and a PE that it looks at) + assignment * (tasks assigned).

    Rounds begin whenever something has changed, or at multiples of `period`. All in seconds. What becomes ready during
    a round waits for the next one. A PE that was idle begins `wake` later, but for the one whose task has just ended
    and made the round begin: it is awake.
    """

    round: float = 0.0
    evaluation: float = 0.0
    assignment: float = 0.0
    period: float = 0.0
    wake: float = 0.0

    def __post_init__(self) -> None:
        for name in ("round", "evaluation", "assignment", "period", "wake"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and 0 <= float(value) < math.inf):
                raise OptionError(f"the {name} of a decision's cost must be a finite number of seconds, not {value!r}")

    def seconds(self, evaluations: float, assignments: int) -> float:
        return self.round + self.evaluation * evaluations + self.assignment * assignments


DECISIONS: Mapping[str, DecisionCost] = {
    "free": DecisionCost(),
    "native": DecisionCost(1e-6, 5e-9, 0.3e-6),
    "a53": DecisionCost(5e-6, 20e-9, 1e-6),
    "cedr": DecisionCost(5e-6, 20e-9, 1e-6, period=1e-3),
}
"""native: about what the policies in C++ take on an x86 core; a53: the same work on a Cortex-A53; cedr: that once a
millisecond, so that tasks pile up for each round."""
