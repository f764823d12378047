"""Rows of the offload table and their Markdown; the README shows what `make models` wrote."""

from __future__ import annotations

from dataclasses import dataclass, field

from fpga_dynamo import Explanation


@dataclass(frozen=True)
class Row:
    """One network: what ran on the card, and how far its answer is from float64 next to eager mode's."""

    name: str
    parameters: int
    node_offload: float
    mac_offload: float
    launches: int
    commands: int
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
            str(self.commands),
            f"{self.error / self.eager_error:.2f}" if self.eager_error else "-",
            PUBLISHED.get(self.name, "-"),
        )


@dataclass(frozen=True)
class Partitioned:
    """One network of tests/models/test_vision.py: launches as partitioned by cost and greedily, over all its graphs."""

    name: str
    node_offload: float
    mac_offload: float
    graphs: int
    launches: int
    greedy_launches: int
    error_ratio: float | None

    @classmethod
    def of(cls, name: str, explained: Explanation, error_ratio: float | None) -> Partitioned:
        return cls(
            name,
            explained.node_offload,
            explained.mac_offload,
            explained.graph_count,
            explained.pl_launches,
            explained.greedy_launches,
            error_ratio,
        )

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            self.name,
            f"{self.node_offload:.1%}",
            f"{self.mac_offload:.2%}",
            str(self.graphs),
            str(self.launches),
            str(self.greedy_launches),
            "-" if self.error_ratio is None else f"{self.error_ratio:.2f}",
        )


PARTITIONED_HEAD = (
    "model",
    "nodes on the card",
    "MACs on the card",
    "graphs",
    "launches by cost",
    "launches, greedy",
    "error / eager error",
)

HEAD = (
    "model",
    "parameters",
    "nodes on the card",
    "MACs on the card",
    "launches",
    "commands",
    "error / eager error",
    "TVM BYOC: nodes, MACs",
)

# TVM's BYOC with the Vitis AI DPU, INT8, batch 1: share of nodes on a U250 (MobileNet V2: Zynq UltraScale+), and of
# multiply-accumulates.
PUBLISHED = {
    "resnet18": "96%, 99-100%",
    "resnet50": "98%, 99-100%",
    "vgg19": "80%, 99-100%",
    "inception_v3": "99%, 99-100%",
    "mobilenet_v2": "99%, 99-100%",
    "darknet53": "98%, 99-100%",
}


@dataclass
class OffloadTable:
    rows: list[Row] = field(default_factory=list)
    partitions: list[Partitioned] = field(default_factory=list)

    def markdown(self) -> str:
        return "\n".join(
            _table(head, [row.cells for row in rows])
            for head, rows in ((HEAD, self.rows), (PARTITIONED_HEAD, self.partitions))
            if rows
        )


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" if i == 0 else "--:" for i in range(len(head))), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
