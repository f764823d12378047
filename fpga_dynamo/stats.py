"""Process-wide counters: what has been compiled and what ran where."""

from __future__ import annotations

import threading

COUNTERS = (
    "graphs_compiled",
    "compile_seconds",
    "pl_launches",
    "pl_commands",
    "ps_nodes",
    "ps_fallbacks",
    "bytes_to_device",
    "bytes_from_device",
    "weights_packed",
)

_lock = threading.Lock()
_values: dict[str, float] = dict.fromkeys(COUNTERS, 0)


def add(**amounts: float) -> None:
    """Adds to counters, as one step for whoever reads them."""
    with _lock:
        for name, amount in amounts.items():
            _values[name] += amount


def stats() -> dict[str, float]:
    """The counters since the process began or the last :func:`reset_stats`.

    graphs_compiled: graphs lowered; compile_seconds: the backend's own lowering time.
    pl_launches, pl_commands: runs of a compute unit, and commands in them.
    ps_nodes: eager nodes that ran because nothing on the card could take them (views not counted).
    ps_fallbacks: launches that failed and were run by eager instead.
    bytes_to_device, bytes_from_device: activations and results; weights_packed: blocks written to the card.
    """
    with _lock:
        return dict(_values)


def reset_stats() -> None:
    """Sets all counters to zero."""
    with _lock:
        for name in _values:
            _values[name] = 0
