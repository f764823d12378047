"""Scheduling policies by name; CEDR's six and our default."""

from .adaptive import Adaptive
from .base import Assignment, Policy, make_policy, policy_names, register_policy
from .eft import EarliestFinishTime
from .etf import EarliestTaskFirst
from .heft_rt import HeftRuntime
from .met import MinimumExecutionTime
from .random_ import Random
from .simple import Simple

__all__ = [
    "Adaptive",
    "Assignment",
    "EarliestFinishTime",
    "EarliestTaskFirst",
    "HeftRuntime",
    "MinimumExecutionTime",
    "Policy",
    "Random",
    "Simple",
    "make_policy",
    "policy_names",
    "register_policy",
]
