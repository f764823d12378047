"""The command `fpga-dynamo`: run a model, list the devices, say what is missing, look for wrong answers.

Exit codes: 0 done and right, 1 a wrong answer, 2 it could not be done (a message of one line says why).
"""

from __future__ import annotations

import argparse
import ast
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.tools.estimate.command import add_command as add_estimate
from fpga_dynamo.tools.explain_text import BY
from fpga_dynamo.tools.soc.command import add_commands as add_soc_commands

if TYPE_CHECKING:
    from fpga_dynamo.tools.zoo import ZooModel

RIGHT, WRONG, FAILED = 0, 1, 2

_TIMED_CALLS = 5

_console = Console()
_errors = Console(stderr=True, soft_wrap=True, highlight=False)


class UsageError(FpgaError):
    """A command line that cannot be followed."""


# Options


def option(text: str) -> tuple[str, Any]:
    """`key=value` as a pair; the value is a Python literal where it reads as one (true, 3, 0.5), else text."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"'{text}' is not key=value")
    lowered = value.lower()
    if lowered in ("true", "false", "none"):
        return key, {"true": True, "false": False, "none": None}[lowered]
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive whole number")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fpga-dynamo", description="torch.compile on FPGA cards, or without one")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a model and compare it with eager")
    run.add_argument("model", help="a torchvision or timm name, module:callable, or file.py:callable")
    run.add_argument("--batch", type=_positive, default=1, metavar="N", help="images or rows a call (1)")
    run.add_argument("--trace", type=Path, metavar="FILE", help="write a Chrome/Perfetto trace of one call")
    run.add_argument("--gantt", type=Path, metavar="FILE", help="draw the same as a PNG")
    run.add_argument("--explain", action="store_true", help="show what ran where, node by node, and why")
    run.add_argument("--by", choices=BY, default="node", help="rows of what --explain shows: nodes (node), or sums")
    run.set_defaults(action=_run)

    devices = commands.add_parser("devices", help="list the cards")
    devices.set_defaults(action=_devices)

    doctor = commands.add_parser("doctor", help="say what this machine lacks, and what to do")
    doctor.add_argument("xclbin", nargs="?", type=Path, help="look at this file too")
    doctor.set_defaults(action=_doctor)

    fuzz = commands.add_parser("fuzz", help="compare random models with eager")
    fuzz.add_argument("--examples", type=_positive, default=100, metavar="N", help="how many models (100)")
    fuzz.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed draws the same models (0)")
    fuzz.add_argument("--out", type=Path, default=Path("out/fuzz"), metavar="DIR", help="repro scripts (out/fuzz)")
    fuzz.add_argument(
        "--winograd",
        type=int,
        choices=(2, 4),
        help="models with convolutions by Winograd's method, in tiles of this size",
    )
    fuzz.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16", "int8"),
        default="float32",
        help="of parameters and inputs; int8: quantised networks, which must be eager's to the bit",
    )
    fuzz.set_defaults(action=_fuzz)

    ops = commands.add_parser("ops", help="list what the card does with each ATen op, and why not")
    ops.add_argument("--markdown", type=Path, metavar="FILE", help="write it to a file as Markdown (docs/ops.md)")
    ops.add_argument("--check", type=Path, metavar="FILE", help="say whether the file is what would be written")
    ops.set_defaults(action=_ops)

    add_estimate(commands)
    add_soc_commands(commands)

    for command in (run, fuzz):
        command.add_argument(
            "--options", nargs="+", type=option, default=[], metavar="key=value", help="of the backend"
        )
        command.add_argument("--backend", default="fpga", help=argparse.SUPPRESS)
    return parser


# fpga-dynamo run


def _timed(call: Callable[[], Any]) -> float:
    """Median seconds of a call."""
    seconds = []
    for _ in range(_TIMED_CALLS):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[_TIMED_CALLS // 2]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def _run(arguments: argparse.Namespace) -> int:
    import torch

    from fpga_dynamo.runtime.observe.counters import stats
    from fpga_dynamo.runtime.observe.trace import TraceRecorder
    from fpga_dynamo.tools import zoo
    from fpga_dynamo.tools.explain import explain

    for path in (arguments.trace, arguments.gantt):
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"there is no folder '{path.absolute().parent}' to write {path.name} into")
    options = dict(arguments.options)
    example = zoo.load(arguments.model, batch=arguments.batch)
    model, inputs = zoo.randomise_batch_norm(example.model), example.inputs
    compiled = torch.compile(model, backend=arguments.backend, options=options or None)

    with torch.no_grad():
        start = time.perf_counter()
        outputs = compiled(*inputs)
        first_call = time.perf_counter() - start
        before = stats()
        compiled(*inputs)
        after = stats()
        per_call = {name: after[name] - before[name] for name in after}
        wrong, verdict = _compare(example, outputs)
        table = Table(show_header=False, title=f"{example.name}, batch {example.batch}")
        table.add_row("first call, with compilation", f"{first_call:.2f} s")
        table.add_row("a call", f"{_milliseconds(_timed(lambda: compiled(*inputs)))}")
        table.add_row("a call in eager", f"{_milliseconds(_timed(lambda: model(*inputs)))}")
        table.add_row("launches on the card a call", f"{per_call['pl_launches']} of {per_call['pl_commands']} commands")
        table.add_row("operators on the host a call", f"{per_call['ps_nodes']}")
        table.add_row(
            "to and from the card a call",
            f"{per_call['bytes_to_device']:,} and {per_call['bytes_from_device']:,} bytes",
        )
        table.add_row("error against float64", verdict)
        _console.print(table)
        if arguments.trace or arguments.gantt:
            with TraceRecorder() as trace:
                compiled(*inputs)
            for path, write in ((arguments.trace, trace.save), (arguments.gantt, trace.gantt)):
                if path is not None:
                    _console.print(f"wrote {write(path)}")
        if arguments.explain or arguments.by != "node":
            explained = explain(model, *inputs, options=options, by=arguments.by)
            _console.print(str(explained), markup=False, highlight=False, soft_wrap=True)
    return WRONG if wrong else RIGHT


def _compare(example: ZooModel, outputs: Any) -> tuple[bool, str]:
    """Whether the answer is wrong, and how far it is off."""
    import copy

    from fpga_dynamo.runtime.observe.rounding import in_float64
    from fpga_dynamo.testing.reference import Mismatch, assert_close_to_eager

    eager = example.model(*example.inputs)
    exact = copy.deepcopy(example.model).double()(*in_float64(example.inputs))
    try:
        errors = assert_close_to_eager(outputs, eager, exact)
    except Mismatch as error:
        return True, f"[red]WRONG[/red]: {error}"
    compiled, own = max(e.compiled for e in errors), max(e.eager for e in errors)
    return False, f"{compiled:.2g}, eager's own {own:.2g}"


# fpga-dynamo devices


def _devices(arguments: argparse.Namespace) -> int:
    from fpga_dynamo.tools.devices import devices

    found = devices()
    if not found:
        raise FpgaError("no device was found")
    for device in found:
        table = Table(show_header=False, title=f"device {device.index}: {device.name}")
        table.add_row("driver", device.driver)
        table.add_row("platform", device.platform or "-")
        table.add_row("xclbin", f"{device.xclbin} {device.uuid}" if device.uuid else "none loaded")
        table.add_row("compute units", ", ".join(device.compute_units) or "-")
        table.add_row("memory in use", f"{device.memory_used:,} of {device.memory_total:,} bytes")
        _console.print(table)
    return RIGHT


# fpga-dynamo doctor


def _doctor(arguments: argparse.Namespace) -> int:
    from fpga_dynamo.tools.doctor import GOOD, WRONG, examine

    findings = examine(arguments.xclbin)
    colours = {GOOD: "green", WRONG: "red"}
    for finding in findings:
        colour = colours.get(finding.state, "yellow")
        _console.print(f"[{colour}]{finding.state:8}[/{colour}]{finding.subject}: {finding.found}", soft_wrap=True)
        if finding.remedy:
            _console.print(f"        -> {finding.remedy}", markup=False, soft_wrap=True)
    return FAILED if any(finding.state == WRONG for finding in findings) else RIGHT


# fpga-dynamo ops


def _ops(arguments: argparse.Namespace) -> int:
    from fpga_dynamo.options import Options
    from fpga_dynamo.runtime.cards.card import open_card
    from fpga_dynamo.tools.opset import check_page, page
    from xclbin_build import atomic_file

    target = open_card(Options()).target
    if arguments.check is not None:
        if check_page(arguments.check, target):
            return RIGHT
        _errors.print(f"{arguments.check} is old; write it with `fpga-dynamo ops --markdown {arguments.check}`")
        return WRONG
    if arguments.markdown is not None:
        atomic_file.write(arguments.markdown, page(target))
    else:
        _console.print(page(target), markup=False, highlight=False, soft_wrap=True)
    return RIGHT


# fpga-dynamo fuzz


def _fuzz(arguments: argparse.Namespace) -> int:
    try:
        from fpga_dynamo.testing.fuzz import run_fuzz
        from fpga_dynamo.testing.quantised import fuzz_quantised
    except ModuleNotFoundError as error:
        raise UsageError(f"fuzzing needs {error.name}: pip install {error.name}") from error

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_console, transient=True) as progress:
        task = progress.add_task("random models", total=arguments.examples)

        def done(examples: int) -> None:
            progress.update(task, completed=examples)

        drawn, options = (arguments.examples, arguments.seed), _fuzz_options(arguments)
        report: Any
        if arguments.dtype == "int8":
            report = fuzz_quantised(*drawn, options, arguments.out, done)
        else:
            report = run_fuzz(
                *drawn,
                backend=arguments.backend,
                options=options,
                winograd=arguments.winograd,
                dtype=arguments.dtype,
                out_dir=arguments.out,
                progress=done,
            )
    _console.print(str(report), markup=False, highlight=False, soft_wrap=True)
    return WRONG if report.failures else RIGHT


def _fuzz_options(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Offloads all that can be, unless told: by their cost, models this small would stay on the host untested."""
    options = dict(arguments.options)
    if arguments.backend == "fpga":
        options.setdefault("partition", "greedy")
    return options or None


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.action(arguments))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        # Dynamo wraps what a backend raises.
        cause = getattr(error, "inner_exception", None) or error
        if not isinstance(cause, FpgaError):
            raise
        _errors.print(f"fpga-dynamo: {cause}", markup=False)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
