"""Models as applications of a workload: their seconds are modelled, or measured once and kept in a file.

What a model's tasks take is modelled unless `measure = true` asks for this machine's seconds, so that a study gives the
same figures everywhere. Measurements are written beside the workload, and the file is used again: else no two runs
of a study would agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fpga_dynamo.runtime.application import Application, ApplicationTask, load, save
from fpga_dynamo.tools.soc.tables import StudyError, text
from xclbin_build.schema import shown

PLATFORM = "zcu102"
"""Whose cores and clock a model's seconds are for, where a workload does not say: the one of the class a53."""


def graph_of_model(where: str, name: str, row: Mapping[str, Any], folder: Path) -> Application:
    """The task graph of a model that `fpga-dynamo run` takes. StudyError and OptionError name what is wrong."""
    from fpga_dynamo.tools.task_graph import task_graph
    from fpga_dynamo.tools.zoo import load as load_model

    measure = row.get("measure", False)
    if not isinstance(measure, bool):
        raise StudyError(f"{where}: measure must be true or false, not {shown(measure)}")
    platform, granularity = text(where, row, "platform", PLATFORM), text(where, row, "granularity", "layer")
    example = load_model(name, batch=1)

    def made(measured: bool) -> Application:
        graph = task_graph(
            example.model, *example.inputs, granularity=granularity, platform=platform, measure=measured
        )  # fmt: skip
        return replace(graph, name=example.name)

    if not measure:
        return made(False)
    path = folder / measurements_file(example.name, granularity, platform)
    if not path.exists():
        graph = made(True)
        save(graph, path)
        return graph
    return _with_measurements(made(False), load(path), path)


def measurements_file(name: str, granularity: str, platform: str) -> str:
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    return f"{plain}-{granularity}-{platform}.measured.json"


def _with_measurements(graph: Application, measured: Application, path: Path) -> Application:
    """The graph, whose tasks have code, with the seconds of the file."""
    if list(map(_structure, graph.tasks)) != list(map(_structure, measured.tasks)):
        raise StudyError(
            f"{path} has measurements of another model than {graph.name!r} is now: delete the file to measure again"
        )
    tasks = [
        replace(task, seconds=known.seconds, basis=known.basis)
        for task, known in zip(graph.tasks, measured.tasks, strict=True)
    ]
    return replace(graph, tasks=tuple(tasks), source=measured.source)


def _structure(task: ApplicationTask) -> tuple[Any, ...]:
    return task.name, task.kernel, task.inputs, task.outputs, task.dependencies
