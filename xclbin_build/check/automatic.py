"""What Vitis HLS does of its own with loops that carry no pragma (UG1399, `config_compile -pipeline_loops`).

A loop without loops in it is pipelined; if it has at most THRESHOLD iterations and lies in another one, that one is
pipelined instead, and the short loop unrolled in it. A loop whose loops all unroll counts as one without loops again:
two nested loops over a 3 x 3 kernel both unroll.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import cfg

if TYPE_CHECKING:
    from .instances import Instance

FULL = 0  # an unroll factor: completely
THRESHOLD = 64


def unroll_short_loops(flow: cfg.Flow, by_header: dict[str, Instance]) -> None:
    """Marks the loops that unroll for being short. by_header: instances by the headers of their loops."""
    for header, loop in flow.loops.items():
        if loop.parent is None:
            _visit(header, flow, by_header)


def _visit(header: str, flow: cfg.Flow, by_header: dict[str, Instance]) -> bool:
    """Whether the loop may unroll in the one around it; if all that lie in it may, they do."""
    loop, instance = flow.loops[header], by_header[header]
    fit = [_visit(child, flow, by_header) for child in loop.children]
    if instance.pipeline is not None or instance.unroll is not None:
        return instance.unroll == FULL
    if not all(fit):
        return False
    for child in loop.children:
        if by_header[child].unroll is None:
            by_header[child].unroll = FULL
    return loop.parent is not None and instance.count is not None and 0 < instance.count <= THRESHOLD
