"""Writes the task graphs of the study to `graphs/`: `python -m examples.soc.make_graphs`.

Of every workload, an operator (with what is fused to it) a task; seconds for a ZCU102: a model of its cores, cycles of
the kernels counted from the sources. The first time, the emulator's kernels are compiled, which takes minutes.
"""

from __future__ import annotations

from pathlib import Path

import torch

import fpga_dynamo
from examples.soc.workloads import WORKLOADS
from fpga_dynamo.runtime.application import save

FOLDER = Path(__file__).with_name("graphs")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, example in WORKLOADS.items():
        torch.compiler.reset()
        model, inputs = example()
        graph = fpga_dynamo.task_graph(model, *inputs, granularity="op", platform="zcu102", measure=False, name=name)
        print(save(graph, FOLDER / f"{name}.json"), f"{len(graph.tasks)} tasks")


if __name__ == "__main__":
    main()
