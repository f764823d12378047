"""Where operators of eager mode run on ``torch.device("fpga")``, and what is counted of them and of copies."""

from __future__ import annotations

from typing import Any


def set_operator_placement(placement: str) -> None:
    """Where operators of eager mode run: "cost", "greedy" or "host". All that was compiled for them is dropped.

    By "cost", a call is on the card if the cost model says so at the third call with such arguments, and if five
    launches are then faster than the host was. By "greedy", it is on the card if a core can run it. By "host", the
    kernels of the CPU run it. Raises OptionError for other words.
    """
    from fpga_dynamo.device import extension
    from fpga_dynamo.errors import OptionError

    known = ("cost", "greedy", "host")
    if placement not in known:
        raise OptionError(f"the placement of operators must be one of {', '.join(known)}, not {placement!r}")
    extension.place_operators(placement)


def operator_stats() -> dict[str, Any]:
    """How many calls of eager mode's operators ran where since the start or the last ``reset_operator_stats``.

    card: calls by operator; host: by operator and reason; programs, kinds: how many programs there are, and kinds of
    calls (operator, dtypes, sizes, strides, scalars) that are known. The placement "host" counts nothing.
    """
    from fpga_dynamo.device import extension

    started = extension.start()
    counts: dict[str, dict[str, int]] = started.count_operators()
    programs, kinds = started.operator_cache_sizes()
    host = {op: {why: number for why, number in row.items() if why} for op, row in counts.items()}
    return {
        "card": {op: row[""] for op, row in counts.items() if "" in row},
        "host": {op: row for op, row in host.items() if row},
        "programs": programs,
        "kinds": kinds,
    }


def reset_operator_stats() -> None:
    """Begins the counts of ``operator_stats`` again."""
    from fpga_dynamo.device import extension

    extension.start().reset_operator_counts()


def transfer_stats() -> dict[str, int]:
    """Bytes that were copied since the start or the last ``reset_transfer_stats``.

    to_card, from_card, between_cards: by what the program asks for, such as ``.to("fpga")`` and ``.item()``;
    of_results: results that a kernel of the CPU left in the host's memory. Launches of compiled graphs are not in it.
    """
    from fpga_dynamo.device import extension

    found: dict[str, int] = extension.start().traffic(False)
    return found


def reset_transfer_stats() -> None:
    """Begins the counts of ``transfer_stats`` again."""
    from fpga_dynamo.device import extension

    extension.start().traffic(True)
