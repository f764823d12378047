"""The six applications as task graphs in JSON, for studies: ``python -m examples.soc.workloads.graphs DIRECTORY``.

Seconds are those of a ZCU102: a model of its Cortex-A53, and cycles of the kernels counted from the sources.
"""

from __future__ import annotations

import sys
from pathlib import Path

from examples.soc.workloads import WORKLOADS
from fpga_dynamo import task_graph
from fpga_dynamo.runtime.application import Application, save

GRANULARITY = {"detection": "layer", "vgg16": "layer", "speech": "layer"}
"""Networks go by layers, the others by operators."""


def graph(name: str, platform: str = "zcu102") -> Application:
    """One application, not measured, so that it is the same on every machine."""
    model, inputs = WORKLOADS[name]()
    granularity = GRANULARITY.get(name, "op")
    return task_graph(model, *inputs, granularity=granularity, platform=platform, measure=False, name=name)


def main(directory: str) -> None:
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for name in WORKLOADS:
        path = save(graph(name), folder / f"{name}.json")
        print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
