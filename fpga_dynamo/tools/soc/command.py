"""`fpga-dynamo soc run|sweep|report`."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fpga_dynamo.tools.executor import Executor, Threads
from fpga_dynamo.tools.ray_option import add_ray, ray_executor
from xclbin_build.arguments import MOST_SEED, output_file, output_folder, positive_number, whole

if TYPE_CHECKING:
    from fpga_dynamo.tools.soc.outcome import RunOutcome
    from fpga_dynamo.tools.soc.system import System

DONE, SOME_RUNS_FAILED = 0, 1
HERE = "real time on this machine's cores"
_console = Console(soft_wrap=True)


def add_commands(commands: Any) -> None:
    """Adds `soc` and what it can do to the commands of `fpga-dynamo`."""
    soc = commands.add_parser("soc", help="study systems of processors and accelerators")
    actions = soc.add_subparsers(dest="soc_command", required=True, metavar="ACTION")

    run = actions.add_parser("run", help="run a workload on a system, in virtual or in real time")
    run.add_argument("system", type=Path, help="a system (toml)")
    run.add_argument("workload", type=Path, help="a workload (toml)")
    clock = run.add_mutually_exclusive_group()
    clock.add_argument("--virtual", action="store_true", help="simulate (default: without --real)")
    clock.add_argument("--real", action="store_true", help="run it with threads, in real time")
    run.add_argument("--paced", action="store_true", help="with --real: tasks sleep for their estimated durations")
    run.add_argument("--policy", metavar="NAME", help="instead of the policy of the system; or module:Class")
    run.add_argument(
        "--rate", type=positive_number, metavar="R", help="instances per second, instead of the rate of the workload"
    )
    run.add_argument(
        "--seed", type=whole(0, MOST_SEED), default=0, metavar="S", help="seed of arrivals and durations (0)"
    )
    run.add_argument("--trace", type=output_file, metavar="FILE", help="write a Chrome/Perfetto trace")
    run.add_argument("--gantt", type=output_file, metavar="FILE", help="draw the schedule as a picture")
    run.set_defaults(action=_run)

    sweep = actions.add_parser("sweep", help="run a grid of systems, policies, rates and seeds in virtual time")
    sweep.add_argument("sweep", type=Path, help="a sweep (toml), or a folder with a sweep.toml")
    out_help = "folder of results; existing runs are not repeated"
    sweep.add_argument("--out", type=output_folder, required=True, metavar="DIR", help=out_help)
    where = sweep.add_mutually_exclusive_group()
    where.add_argument("--jobs", type=whole(1, 1024), metavar="N", help="number of threads (the usable CPU cores)")
    add_ray(where)
    sweep.add_argument("--parquet", action="store_true", help="write runs.parquet and applications.parquet too")
    sweep.set_defaults(action=_sweep)

    report = actions.add_parser("report", help="write report.html into the folder of a sweep")
    report.add_argument("folder", type=Path, metavar="DIR", help="folder that the sweep wrote")
    report.add_argument(
        "--figures",
        type=output_folder,
        metavar="DIR",
        help="also write the figures to this folder, as SVG, PDF and PNG, with their CSV",
    )
    report.set_defaults(action=_report)


def _run(arguments: argparse.Namespace) -> int:
    from fpga_dynamo.tools.soc.system import System
    from fpga_dynamo.tools.soc.tables import StudyError, read
    from fpga_dynamo.tools.soc.workload import Workload

    if arguments.gantt is not None:
        from fpga_dynamo.runtime.observe.gantt import picture_format

        try:
            picture_format(arguments.gantt)  # before the run, which may take long
        except ValueError as error:
            raise StudyError(f"--gantt: {error}") from error
    if arguments.paced and not arguments.real:
        raise StudyError("--paced requires --real: in virtual time nothing is executed")
    system = System(read(arguments.system))
    workload = Workload(read(arguments.workload), arguments.workload.parent)
    trace = bool(arguments.trace or arguments.gantt)
    for name in system.unused(workload.applications):
        _say(f"no task of the workload runs on the accelerator {name!r}")
    if arguments.rate is None and not workload.has_rate:
        _say(f"no rate given: {workload.rate:g} instances per second")
    clock = "virtual time"
    if arguments.real:
        from fpga_dynamo.tools.soc.graphs import can_run
        from fpga_dynamo.tools.soc.real import calibrated, run_real

        clock = "real time, paced tasks"
        if not arguments.paced and all(map(can_run, workload.applications)):
            clock = HERE
            workload = calibrated(system, workload)
        run = run_real(
            system, workload, arguments.policy, arguments.rate, arguments.seed, paced=arguments.paced, trace=trace
        )
    else:
        from fpga_dynamo.tools.soc.virtual import simulate

        run = simulate(system, workload, arguments.policy, arguments.rate, arguments.seed, trace=trace)
    policy = system.policy if arguments.policy is None else arguments.policy
    _show(run, system, policy, clock, workload.warm_up)
    for path, write in ((arguments.trace, "save"), (arguments.gantt, "gantt")):
        if path is not None and run.trace is not None:
            _console.print(f"wrote {getattr(run.trace, write)(path)}", highlight=False, markup=False)
    return DONE


def _show(run: RunOutcome, system: System, policy: str, clock: str, warm_up: float) -> None:
    """warm_up: share of the instances, the first to arrive, that responses leave out."""
    import numpy as np

    first = int(len(run.ended) * warm_up)
    every, late, which = run.responses[first:] * 1e3, run.late[first:], np.array(run.arrivals.which)[first:]
    table = Table(title=escape(f"{system.title}, {policy}, {clock}"))
    has_deadlines = any(np.isfinite(run.deadlines))
    titles = ["application", "instances", "alone (ms)", "mean (ms)", "median", "95 %", "99 %"]
    for title in [*titles, "missed"] if has_deadlines else titles:
        table.add_column(title, justify="left" if title == "application" else "right")
    for number, name in enumerate(run.applications):
        responses = every[which == number]
        if len(responses):
            values = [responses.mean(), *np.percentile(responses, [50, 95, 99])]
            cells = [f"{value:.3f}" for value in (run.alone[number] * 1e3, *values)]
            if has_deadlines:
                cells.append(f"{late[which == number].mean():.1%}" if np.isfinite(run.deadlines[number]) else "-")
            table.add_row(escape(name), str(len(responses)), *cells)
    _console.print(table)
    span = run.span or 1.0
    facts = Table(show_header=False)
    mean, bound = every.mean() if len(every) else 0.0, run.least_mean_response * 1e3
    facts.add_row("mean response", f"{mean:.3f} ms; lower bound of any scheduler: {bound:.3f} ms")
    facts.add_row("served", f"{len(run.responses) / span:.4g} instances/s in {run.span * 1e3:.4g} ms")
    facts.add_row("busy", escape(", ".join(f"{name} {seconds / span:.0%}" for name, seconds in run.busy.items())))
    per_task, share = run.deciding / max(run.assignments, 1) * 1e6, run.deciding / span
    facts.add_row("scheduling", f"{run.rounds} decisions, {per_task:.2f} us per task, {share:.2%} of the time")
    if clock != HERE:  # of which the watts of the system's cores say nothing
        each = run.joules / max(len(run.responses), 1) * 1e3
        facts.add_row("energy", f"{run.joules:.4g} J, {each:.4g} mJ per instance")
    _console.print(facts)


def _sweep(arguments: argparse.Namespace) -> int:
    from fpga_dynamo.tools.soc.export import write_gantt, write_parquet
    from fpga_dynamo.tools.soc.provenance import code_of
    from fpga_dynamo.tools.soc.sweep import load_sweep, run_sweep, usable_cores

    if arguments.parquet:
        write_parquet(arguments.out, check=True)
    sweep = load_sweep(arguments.sweep)
    again = sweep.made_again(arguments.out)
    for note in [*([again] if again else []), *sweep.notes]:
        _say(note)
    executor: Executor
    if arguments.ray is None:
        executor = Threads(arguments.jobs or usable_cores())
    else:
        executor = ray_executor(arguments, partial(code_of, sweep.policies or [one.policy for one in sweep.systems]))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_console, transient=True, disable=not _console.is_terminal) as progress:
        task = progress.add_task("runs", total=None)
        count, failures = run_sweep(
            sweep,
            arguments.out,
            executor,
            lambda done, total: progress.update(task, completed=done, total=total),
        )
    for failure in failures:
        _say(str(failure))
    write_gantt(sweep, arguments.out, {failure.point.policy for failure in failures})
    if arguments.parquet:
        write_parquet(arguments.out)
    total = sum(1 for _ in sweep.points())
    failed = f", {len(failures)} failed" if failures else ""
    _say(f"{count} runs, {total} in all{failed}, in {arguments.out}")
    return SOME_RUNS_FAILED if failures else DONE


def _say(sentence: str) -> None:
    _console.print(sentence, highlight=False, markup=False)


def _report(arguments: argparse.Namespace) -> int:
    import fpga_dynamo.plotting  # noqa: F401 - a missing matplotlib is an error before anything is read
    from fpga_dynamo.tools.soc.report import write_report

    _console.print(f"wrote {write_report(arguments.folder, arguments.figures)}", highlight=False, markup=False)
    return DONE
