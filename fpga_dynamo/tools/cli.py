"""The command `fpga-dynamo`: run a model, list the devices, say what is missing, look for wrong answers.

Exit codes: 0 done and right, 1 a wrong answer, 2 it could not be done (a message of one line says why).
"""

from __future__ import annotations

import argparse
import ast
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fpga_dynamo import __version__
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.tools import emulate
from fpga_dynamo.tools.estimate.command import add_command as add_estimate
from fpga_dynamo.tools.explain_text import BY
from fpga_dynamo.tools.export_model import add_command as add_export
from fpga_dynamo.tools.ray_option import add_ray, ray_executor
from fpga_dynamo.tools.serve_card import add_command as add_card_server
from fpga_dynamo.tools.serve_models import add_command as add_serve
from fpga_dynamo.tools.soc.command import add_commands as add_soc_commands
from xclbin_build.arguments import MOST_SEED, output_file, output_folder, whole
from xclbin_build.command_line import parse, refuse, run_command
from xclbin_build.errors import BuildError

if TYPE_CHECKING:
    pass

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
    except (MemoryError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"the value of '{key}' is nested too deeply") from error


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options option of the backend; repeatable; each may be given once."""
    names = [name for name, _ in arguments.options]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--options gives '{name}' {names.count(name)} times; give it once")
    return dict(arguments.options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fpga-dynamo", description="torch.compile on FPGA cards, or without one")
    parser.add_argument("--version", action="version", version=f"fpga-dynamo {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a model and compare it with eager mode")
    run.add_argument("model", help="a torchvision or timm name, module:callable, or file.py:callable")
    run.add_argument("--batch", type=whole(), default=1, metavar="N", help="batch size: images or rows per call (1)")
    run.add_argument("--trace", type=output_file, metavar="FILE", help="write a Chrome/Perfetto trace of one call")
    run.add_argument("--gantt", type=_picture, metavar="FILE", help="draw the trace as a PNG")
    run.add_argument("--explain", action="store_true", help="show what ran where, node by node, and why")
    run.add_argument(
        "--by", choices=BY, default="node", help="how --explain groups its rows: one per node (node), or sums"
    )
    run.set_defaults(action=_run)

    devices = commands.add_parser("devices", help="list the cards")
    devices.add_argument(
        "servers", nargs="*", metavar="ADDRESS", help="those of this card server too (tcp://host:port)"
    )
    devices.set_defaults(action=_devices)

    doctor = commands.add_parser("doctor", help="report what this machine lacks, and how to fix it")
    doctor.add_argument("xclbin", nargs="?", type=Path, help="examine this xclbin too")
    doctor.add_argument("--server", metavar="ADDRESS", help="examine this card server too (tcp://host:port)")
    doctor.set_defaults(action=_doctor)

    fuzz = commands.add_parser("fuzz", help="compare random models with eager mode")
    fuzz.add_argument("--examples", type=whole(), default=100, metavar="N", help="number of models (100)")
    seed, out = whole(0, MOST_SEED), Path("out/fuzz")
    fuzz.add_argument("--seed", type=seed, default=0, metavar="S", help="seed of the random models (0)")
    fuzz.add_argument(
        "--out", type=output_folder, default=out, metavar="DIR", help="folder for reproduction scripts (out/fuzz)"
    )
    fuzz.add_argument(
        "--winograd",
        type=int,
        choices=(2, 4),
        help="models whose convolutions use Winograd's method with tiles of this size",
    )
    fuzz.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16", "int8"),
        default="float32",
        help="dtype of parameters and inputs; int8: quantized networks, which must be bit-identical to eager mode",
    )
    add_ray(fuzz)
    fuzz.set_defaults(action=_fuzz)

    ops = commands.add_parser(
        "ops", help="list where each ATen op runs, with the reason for each that does not run on the card"
    )
    page = ops.add_mutually_exclusive_group()
    page.add_argument("--markdown", type=output_file, metavar="FILE", help="write the list as Markdown (docs/ops.md)")
    page.add_argument("--check", type=Path, metavar="FILE", help="check that this file is up to date")
    page.add_argument("--patterns", action="store_true", help="list the patterns in the order in which they are asked")
    ops.set_defaults(action=_ops)

    emulate.add_command(commands)
    add_estimate(commands)
    add_export(commands, option, _options)
    add_serve(commands)
    add_card_server(commands)
    add_soc_commands(commands)

    for command in (run, fuzz):
        command.add_argument(
            "--options",
            nargs="+",
            action="extend",
            type=option,
            default=[],
            metavar="key=value",
            help="option of the backend; repeatable",
        )
        command.add_argument("--backend", default="fpga", help=argparse.SUPPRESS)
    return parser


# fpga-dynamo run


def _picture(text: str) -> Path:
    """A picture that can be drawn and written."""
    path = output_file(text)
    try:
        from fpga_dynamo.runtime.observe.gantt import picture_format

        picture_format(path)
    except (ValueError, FpgaError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return path


def _median_seconds(call: Callable[[], Any]) -> float:
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
    from fpga_dynamo.tools.answer import compare
    from fpga_dynamo.tools.explain import explain

    options = _options(arguments)
    _check_backend(arguments.backend)
    example = zoo.load(arguments.model, batch=arguments.batch)
    model, inputs = zoo.randomise_batch_norm(example.model), example.inputs
    compiled = torch.compile(model, backend=arguments.backend, options=options or None)

    with torch.no_grad():
        zoo.call(example)  # what eager mode refuses is the model's own mistake
        start = time.perf_counter()
        outputs = compiled(*inputs)
        first_call = time.perf_counter() - start
        before = stats()
        compiled(*inputs)
        after = stats()
        per_call = {name: after[name] - before[name] for name in after}
        wrong, verdict = compare(example, outputs)
        table = Table(show_header=False, title=escape(f"{example.name}, batch {example.batch}"))
        table.add_row("first call, with compilation", f"{first_call:.2f} s")
        table.add_row("a call", f"{_milliseconds(_median_seconds(lambda: compiled(*inputs)))}")
        table.add_row("a call in eager mode", f"{_milliseconds(_median_seconds(lambda: model(*inputs)))}")
        table.add_row(
            "launches on the card per call", f"{per_call['pl_launches']} of {per_call['pl_commands']} commands"
        )
        table.add_row("operators on the host per call", f"{per_call['ps_nodes']}")
        table.add_row(
            "to and from the card per call",
            f"{per_call['bytes_to_device']:,} and {per_call['bytes_from_device']:,} bytes",
        )
        table.add_row("error", verdict)
        _console.print(table)
        if arguments.trace or arguments.gantt:
            with TraceRecorder() as trace:
                compiled(*inputs)
            for path, write in ((arguments.trace, trace.save), (arguments.gantt, trace.gantt)):
                if path is not None:
                    _console.print(f"wrote {write(path)}", markup=False)
        if arguments.explain or arguments.by != "node":
            explained = explain(model, *inputs, options=options, by=arguments.by)
            _console.print(str(explained), markup=False, highlight=False, soft_wrap=True)
    return WRONG if wrong else RIGHT


def _check_backend(name: str) -> None:
    import torch

    known = torch.compiler.list_backends(exclude_tags=())
    if name not in known:
        raise UsageError(f"unknown backend '{name}'; known are {', '.join(known)}")


# fpga-dynamo devices


def _devices(arguments: argparse.Namespace) -> int:
    from fpga_dynamo.tools.devices import devices

    found = devices(*arguments.servers)
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

    findings = examine(arguments.xclbin, arguments.server)
    colours = {GOOD: "green", WRONG: "red"}
    for finding in findings:
        colour = colours.get(finding.state, "yellow")
        found = escape(f"{finding.subject}: {finding.found}")
        _console.print(f"[{colour}]{finding.state:8}[/{colour}]{found}", soft_wrap=True)
        if finding.remedy:
            _console.print(f"        -> {finding.remedy}", markup=False, soft_wrap=True)
    return FAILED if any(finding.state == WRONG for finding in findings) else RIGHT


# fpga-dynamo ops


def _ops(arguments: argparse.Namespace) -> int:
    from fpga_dynamo.options import Options
    from fpga_dynamo.runtime.cards.card import open_card
    from fpga_dynamo.tools.opset import check_page, page, pattern_list
    from xclbin_build import atomic_file

    if arguments.patterns:
        _console.print(pattern_list(), markup=False, highlight=False, soft_wrap=True, end="")
        return RIGHT
    if arguments.check is not None and not arguments.check.is_file():
        raise UsageError(f"there is no file '{arguments.check}'; write it with `fpga-dynamo ops --markdown`")
    target = open_card(Options()).target
    if arguments.check is not None:
        if check_page(arguments.check, target):
            return RIGHT
        told = f"{arguments.check} is out of date; write it again with `fpga-dynamo ops --markdown {arguments.check}`"
        _errors.print(told, markup=False)
        return WRONG
    if arguments.markdown is not None:
        atomic_file.write(arguments.markdown, page(target))
    else:
        _console.print(page(target), markup=False, highlight=False, soft_wrap=True)
    return RIGHT


# fpga-dynamo fuzz


def _fuzz(arguments: argparse.Namespace) -> int:
    try:
        from fpga_dynamo.tools.fuzz_blocks import Fuzzing, fuzz_in_blocks
    except ModuleNotFoundError as error:
        raise UsageError(f"fuzzing needs {error.name}: pip install {error.name}") from error

    _check_backend(arguments.backend)
    if arguments.dtype == "int8" and arguments.winograd is not None:
        raise UsageError("--winograd has no effect with --dtype int8: int8 convolutions do not use it; leave it out")
    if arguments.dtype == "int8" and arguments.backend != "fpga":
        raise UsageError(f"--dtype int8 supports --backend fpga alone, not {arguments.backend!a}; leave --backend out")
    fuzzing = Fuzzing(arguments.dtype, arguments.backend, _fuzz_options(arguments), arguments.winograd)
    executor = None if arguments.ray is None else ray_executor(arguments)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with executor or nullcontext(), Progress(*columns, console=_console, transient=True) as progress:
        task = progress.add_task("random models", total=arguments.examples)

        def done(examples: int) -> None:
            progress.update(task, completed=examples)

        report = fuzz_in_blocks(fuzzing, arguments.examples, arguments.seed, arguments.out, executor, done)
    _console.print(str(report), markup=False, highlight=False, soft_wrap=True)
    return WRONG if report.failures else RIGHT


def _fuzz_options(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Offloads all that can be, unless told: by their cost, models this small would stay on the host untested."""
    options = _options(arguments)
    if arguments.backend == "fpga":
        options.setdefault("partition", "greedy")
    return options or None


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    own, program = emulate.split_program(sys.argv[1:] if argv is None else argv)
    arguments = parse(_parser(), own)
    if program:
        arguments.program = program
    return run_command("fpga-dynamo", lambda: _done(arguments), (FpgaError, BuildError), _cause_of)


def _done(arguments: argparse.Namespace) -> int:
    try:
        return int(arguments.action(arguments))
    except emulate.ProgramEndedBySignal as error:
        refuse("fpga-dynamo", str(error))
        return error.status
    except SystemExit as error:  # a model's: the command itself returns
        if isinstance(error.__context__, BrokenPipeError):  # rich's
            raise error.__context__ from error
        raise UsageError(f"the model, or a module that it imports, called sys.exit({error.code!r})") from error


def _cause_of(error: Exception) -> object:
    """What a backend, or a pass of Dynamo's, raised: Dynamo wraps it."""
    inner = getattr(error, "inner_exception", None)
    return inner or (error.__context__ if isinstance(error.__context__, RecursionError) else error)


if __name__ == "__main__":
    sys.exit(main())
