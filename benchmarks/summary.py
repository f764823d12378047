"""The Markdown summary of some results: tables of medians, ratios and targets, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.results import CARD, OURS, Result, Row, Target


def markdown(results: Iterable[Result]) -> str:
    parts = ["# Benchmarks\n\nRatios are a peer's time divided by ours: above 1 ours is the faster.\n"]
    for result in results:
        parts.append(_section(result))
    return "\n".join(parts)


def _section(result: Result) -> str:
    where = result.environment
    versions = ", ".join(f"{name} {version}" for name, version in where.get("packages", {}).items())
    lines = [
        f"## {result.suite}\n",
        f"{where.get('cpu')}, {where.get('threads')} thread(s) and lane(s), commit {where.get('commit') or 'unknown'}; "
        f"{versions}\n",
    ]
    if result.error:
        lines.append(f"**The suite ended early: {result.error}**\n")
    timed = [row for row in result.rows if row.timings]
    compared = [row for row in timed if row.ratios() or row.ratios(CARD)]
    if compared:
        lines.append(_ratio_table(compared))
    others = [row for row in timed if row not in compared]
    if others:
        lines.append(_time_table(others))
    untimed = [row for row in result.rows if not row.timings and row.figures]
    for row in untimed:
        lines.append(_figures(row))
    lines.append(_targets(result.rows))
    lines += [f"- {row.name}, {who}: {why}" for row in result.rows for who, why in row.failures.items()]
    lines.append(f"![{result.suite}]({result.suite}.png)\n")
    return "\n".join(line for line in lines if line)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: the first column left, the others right."""
    lines = [list(head), ["---", *["--:"] * (len(head) - 1)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _ratio_table(rows: Sequence[Row]) -> str:
    ours = [who for who in (OURS, CARD) if any(who in row.timings for row in rows)]
    peers = list(dict.fromkeys(peer for row in rows for peer in row.timings if peer not in (OURS, CARD)))
    head = ["", *ours, *(f"{peer} / {who}" for who in ours for peer in peers), "quartiles", "rounds"]
    body = []
    for row in rows:
        cells = [_milliseconds(row, who) for who in ours]
        cells += [_ratio(row.ratios(who).get(peer)) for who in ours for peer in peers]
        own = row.timings.get(OURS)
        spread = f"{own.lower / own.median - 1:+.0%} {own.upper / own.median - 1:+.0%}" if own else ""
        body.append([row.name, *cells, spread, str(own.rounds) if own else ""])
    return table(head, body)


def _time_table(rows: Sequence[Row]) -> str:
    columns = list(dict.fromkeys(who for row in rows for who in row.timings))
    if len(rows) > 1 and columns == [CARD]:
        figures = list(dict.fromkeys(name for row in rows for name in row.figures))
        body = [
            [row.name, _milliseconds(row, CARD), *(_number(row.figures.get(name)) for name in figures)] for row in rows
        ]
        return table(["", CARD, *figures], body)
    return "\n".join(
        table(["", *row.timings], [[row.name, *(_milliseconds(row, w) for w in row.timings)]]) for row in rows
    )


def _figures(row: Row) -> str:
    return table([row.name, ""], [[name, _number(value)] for name, value in row.figures.items()])


def _targets(rows: Sequence[Row]) -> str:
    body = [
        [
            row.name,
            target.what,
            f"{target.value:.3g}",
            f"{target.sense} {target.limit:.3g}",
            _verdict(target),
        ]
        for row in rows
        for target in row.targets
    ]
    return table(["", "what", "measured", "target", ""], body) if body else ""


def _verdict(target: Target) -> str:
    if target.met:
        return "met"
    beyond = target.ceiling is not None and target.ceiling < target.limit
    return f"not met; at most {target.ceiling:.3g} at this machine's peak" if beyond else "not met"


def _milliseconds(row: Row, who: str) -> str:
    timing = row.timings.get(who)
    if timing is None:
        return "failed" if who in row.failures else ""
    if timing.median >= 1:
        return f"{timing.median:.2f} s"
    return f"{timing.median * 1e3:.2f} ms" if timing.median >= 1e-3 else f"{timing.median * 1e6:.2f} µs"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
