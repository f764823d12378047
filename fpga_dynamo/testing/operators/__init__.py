"""The operators of random graphs. Each entry says which values suit it and writes one instruction as text.

The parameters cover what the operator's documentation allows, not what the backend supports: what is not lowered
must fall back to eager and still be right.
"""

from fpga_dynamo.testing.operators import compute, elementwise, indexing, narrow, networks, shape, window
from fpga_dynamo.testing.operators.table import TABLE, VOCABULARY, Operator

# Failures shrink towards the first operator. It has few parameters, so that the whole instruction is removed with ease.
TABLE.sort(key=lambda operator: operator.name != "unary")

__all__ = [
    "TABLE",
    "VOCABULARY",
    "Operator",
    "compute",
    "elementwise",
    "indexing",
    "narrow",
    "networks",
    "shape",
    "window",
]
