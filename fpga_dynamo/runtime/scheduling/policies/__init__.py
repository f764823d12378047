"""Scheduling policies by name: CEDR's six, two for deadlines, and two of ours."""

from fpga_dynamo.runtime.scheduling.policies.adaptive import Adaptive
from fpga_dynamo.runtime.scheduling.policies.base import Assignment, Policy, make_policy, policy_names, register_policy
from fpga_dynamo.runtime.scheduling.policies.deadlines import EarliestDeadlineFirst, LeastLaxityFirst
from fpga_dynamo.runtime.scheduling.policies.eft import EarliestFinishTime
from fpga_dynamo.runtime.scheduling.policies.etf import EarliestTaskFirst
from fpga_dynamo.runtime.scheduling.policies.heft_rt import HeftRuntime
from fpga_dynamo.runtime.scheduling.policies.least_work import LeastWork
from fpga_dynamo.runtime.scheduling.policies.met import MinimumExecutionTime
from fpga_dynamo.runtime.scheduling.policies.random_ import Random
from fpga_dynamo.runtime.scheduling.policies.simple import Simple

__all__ = [
    "Adaptive",
    "Assignment",
    "EarliestDeadlineFirst",
    "EarliestFinishTime",
    "EarliestTaskFirst",
    "HeftRuntime",
    "LeastLaxityFirst",
    "LeastWork",
    "MinimumExecutionTime",
    "Policy",
    "Random",
    "Simple",
    "make_policy",
    "policy_names",
    "register_policy",
]
