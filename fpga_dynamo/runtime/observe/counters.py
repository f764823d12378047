"""Process-wide counters: what has been compiled and what ran where."""

from __future__ import annotations

from fpga_dynamo._native import critical_section, direct_totals

COUNTERS = (
    "graphs_compiled",
    "compile_seconds",
    "programs_loaded",
    "traces_loaded",
    "pl_launches",
    "pl_commands",
    "ps_nodes",
    "ps_fallbacks",
    "internal_errors",
    "bytes_to_device",
    "bytes_from_device",
    "weights_packed",
    "card_cycles",
    "card_seconds",
)

_section = critical_section()
_values: dict[str, float] = dict.fromkeys(COUNTERS, 0)
_DIRECT = ("pl_launches", "pl_commands", "bytes_to_device", "bytes_from_device")
"""Counters that direct calls have sums of, natively: adding here would take longer than a small launch."""


def add(**amounts: float) -> None:
    """Adds to counters, as one step for whoever reads them."""
    _section(_add, amounts)


def _add(amounts: dict[str, float]) -> None:
    for name, amount in amounts.items():
        _values[name] += amount


def stats() -> dict[str, float]:
    """The counters since the process began or the last :func:`reset_stats`.

    graphs_compiled: graphs lowered; compile_seconds: the backend's own lowering time.
    programs_loaded: graphs whose program came from the disk cache instead; traces_loaded: those that were not even
    traced by AOTAutograd.
    pl_launches, pl_commands: runs of a compute unit, and commands in them.
    ps_nodes: eager nodes that no kernel on the card supports (views not counted).
    ps_fallbacks: launches that failed and ran in eager mode instead.
    internal_errors: faults of the compiler, after which a graph ran in eager mode or was lowered for each size.
    bytes_to_device, bytes_from_device: activations and results.
    weights_packed: blocks written to the card.
    card_cycles, card_seconds: of launches on a cycle simulator, as it has counted them.
    """
    return _section(_totals)


def _totals() -> dict[str, float]:
    totals = dict(_values)
    for name, amount in zip(_DIRECT, direct_totals(), strict=True):
        totals[name] += amount
    return totals


def reset_stats() -> None:
    """Sets all counters to zero."""
    _section(_reset)


def _reset() -> None:
    _values.update(dict.fromkeys(COUNTERS, 0))
    for name, amount in zip(_DIRECT, direct_totals(), strict=True):
        _values[name] = -amount
