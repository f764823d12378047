"""Applications as data: a graph of tasks with what each costs on each kind of unit, and its JSON.

Nothing here runs or schedules: `fpga_dynamo.task_graph` makes such graphs of models, the simulator and the real-time
injector of `fpga-dynamo soc` take them.
"""

from fpga_dynamo.runtime.application.classes import CPU_CLASSES, CpuClass, cpu_class, scaled_seconds
from fpga_dynamo.runtime.application.drawing import to_svg
from fpga_dynamo.runtime.application.graph import Application, ApplicationError, ApplicationTask, Edge, Result
from fpga_dynamo.runtime.application.text import from_json, load, save, schema, to_json

__all__ = [
    "CPU_CLASSES",
    "Application",
    "ApplicationError",
    "ApplicationTask",
    "CpuClass",
    "Edge",
    "Result",
    "cpu_class",
    "from_json",
    "load",
    "save",
    "scaled_seconds",
    "schema",
    "to_json",
    "to_svg",
]
