"""Rows of the offload table and their Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One network: what ran on the card, and how far its answer is from float64 next to eager's."""

    name: str
    parameters: int
    node_offload: float
    mac_offload: float
    launches: int
    error: float
    eager_error: float

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            self.name,
            f"{self.parameters / 1e6:.1f} M",
            f"{self.node_offload:.1%}",
            f"{self.mac_offload:.1%}",
            str(self.launches),
            f"{self.error:.1e}",
            f"{self.error / self.eager_error:.2f}x" if self.eager_error else "-",
        )


_HEAD = (
    "model",
    "parameters",
    "operators on the card",
    "multiply-accumulates on the card",
    "launches a call",
    "largest error against float64",
    "of eager's own error",
)


@dataclass
class OffloadTable:
    rows: list[Row] = field(default_factory=list)

    def markdown(self) -> str:
        lines = [_HEAD, tuple("---" if i == 0 else "--:" for i in range(len(_HEAD)))]
        lines += [row.cells for row in self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)
