"""Rows of the offload table and their Markdown; the README shows what `make models` wrote."""

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


HEAD = (
    "model",
    "parameters",
    "nodes on the card",
    "MACs on the card",
    "launches",
    "commands",
    "error / eager's",
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

    def markdown(self) -> str:
        lines = [HEAD, tuple("---" if i == 0 else "--:" for i in range(len(HEAD)))]
        lines += [row.cells for row in self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)
