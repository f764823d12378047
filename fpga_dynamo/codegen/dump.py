"""``options={"dump_dir": ...}``: what was made of a graph, as text."""

from __future__ import annotations

from pathlib import Path

from fpga_dynamo.errors import OptionError
from fpga_dynamo.ir.command import Command, Operand
from fpga_dynamo.ir.graph import describe
from fpga_dynamo.ir.program import CardTask, HostTask, KernelTask, Program
from fpga_dynamo.ir.target import Target
from xclbin_build import atomic_file


def dump_program(program: Program, target: Target, directory: str) -> None:
    """Writes ``<name>.graph.py`` (the ATen graph), ``<name>.tasks.txt`` and one ``<task>.commands.txt`` a launch.

    Raises :class:`OptionError` if they cannot be written there.
    """
    try:
        _dump(program, target, Path(directory))
    except OSError as error:
        raise OptionError(f"option 'dump_dir': cannot write to {directory}: {error}") from error


def _dump(program: Program, target: Target, root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    atomic_file.write(root / f"{program.name}.graph.py", program.module.code)
    lines = []
    for task in program.tasks:
        reads = ", ".join(node.name for node in task.reads)
        writes = ", ".join(node.name for node in task.writes)
        where = "PS"
        if isinstance(task, (CardTask, KernelTask)):
            where = f"kernel {task.kernel if isinstance(task, CardTask) else task.kernel.name}"
        lines.append(f"{task.name} on {where} after {list(task.dependencies)}: ({reads}) -> ({writes})")
        if isinstance(task, HostTask) and not isinstance(task, KernelTask):
            lines += [f"    {describe(n)}: {program.reasons.get(n, 'a view or constant')}" for n in task.nodes]
    atomic_file.write(root / f"{program.name}.tasks.txt", "\n".join(lines) + "\n")
    for task in program.card_tasks:
        listing = "\n".join(_line(i, command, task, target) for i, command in enumerate(task.commands))
        atomic_file.write(root / f"{task.name}.commands.txt", listing + "\n")


def _line(index: int, command: Command, task: CardTask, target: Target) -> str:
    in_record = [entry.name for entry in target.records.get(command.opcode, ())]
    order = {name: place for place, name in enumerate(in_record) if name != "slices"}  # which comes last
    given = sorted(command.fields.items(), key=lambda field: order.get(field[0], len(in_record)))
    fields = ", ".join(f"{name}={_text(value, task)}" for name, value in given)
    return f"{index:4} {command.opcode} [{' '.join(command.nodes)}] {fields}"


def _text(value: object, task: CardTask) -> str:
    if isinstance(value, Operand):
        place = task.plan.places.get(value.buffer)
        region = "weights" if place is None else "arena"
        name = f" {value.buffer.name}" if value.buffer.name else ""
        element = value.buffer.element
        kind = f" {element.name}" if element.is_narrow else ""
        offset = value.offset if place is None else place * element.lanes + value.offset
        return f"{region}[{offset}{kind}{name}]"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(_text(v, task) for v in value) + ")"
    return str(value)
