"""Steps of a flow that takes hours: each runs a tool, and is left out the next time if nothing that it reads changed.

A step leaves a stamp, with digests of its command, of the files that it reads and of those that it writes. Times of
files do not count. Before a step runs, its stamp and its outputs are deleted, so one that was killed runs again.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import atomic_file
from ..errors import ToolchainError
from ..toolchain import process
from ..trusted_path import printable
from . import failures

STAMPS, LOGS = "stamps", "logs"
_STAGE = re.compile(r"Run \w+: Step (\w+): Started|^Starting (\w[\w ]{0,40}) Task$", re.MULTILINE)
_KEPT_BYTES = 4 << 20  # of a log, its end
_CHUNK = 1 << 20

# Called as (steps finished, steps in all, what runs now).
StepProgress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Step:
    """A call of a tool in the build directory, or of Python where `action` is given.

    inputs: files whose content decides whether it has to run. outputs: files or folders that it has to write.
    salt: what else decides.
    """

    name: str
    command: tuple[str, ...]
    inputs: tuple[Path, ...] = ()
    outputs: tuple[Path, ...] = ()
    salt: str = ""
    action: Callable[[], None] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Outcome:
    """How a step went. ran: whether it ran now. seconds: that it took, now or before. clock_mhz: to which the tool has
    lowered the clock, if it has."""

    ran: bool
    seconds: float
    clock_mhz: float | None = None


def run_steps(
    steps: Sequence[Step], directory: Path, progress: StepProgress | None = None, keep_open: Sequence[int] = ()
) -> dict[str, Outcome]:
    """Runs the steps that are not done yet, in order; what each took, by name.

    Raises ToolchainError with a sentence for one that fails. keep_open: descriptors of locks for the tools.
    """
    found: dict[str, Outcome] = {}
    for index, step in enumerate(steps):
        if progress is not None:
            progress(index, len(steps), step.name)
        before = _finished(step, directory)
        if before is None:
            stage = None if progress is None else _stages(progress, index, len(steps), step.name)
            before = _run(step, directory, stage, keep_open)
        found[step.name] = before
    if progress is not None:
        progress(len(steps), len(steps), "done")
    return found


def _finished(step: Step, directory: Path) -> Outcome | None:
    stamp = _stamp(step, directory)
    try:
        said: dict[str, Any] = json.loads(stamp.read_text())
        if said["inputs"] != _inputs(step) or said["outputs"] != _outputs(step):
            return None
        return Outcome(False, float(said["seconds"]), said["clock_mhz"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _run(step: Step, directory: Path, stage: Callable[[str], None] | None, keep_open: Sequence[int]) -> Outcome:
    stamp, log = _stamp(step, directory), directory / LOGS / f"{_file(step)}.log"
    for folder in (stamp.parent, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    for output in step.outputs:
        _delete(output)
    inputs = _inputs(step)
    began = time.monotonic()
    text = ""
    if step.action is not None:
        step.action()
    if step.command:
        text = _call(step, directory, log, stage, keep_open)
    missing = next((output for output in step.outputs if not output.exists()), None)
    if missing is not None:
        raise ToolchainError(
            f"the step '{step.name}' reported success and has not written {printable(missing)}; look into its log, "
            f"{printable(log)}, and {failures.RESUMES}."
        )
    outcome = Outcome(True, round(time.monotonic() - began, 1), failures.lowered_clock(text))
    document = {"inputs": inputs, "outputs": _outputs(step), "seconds": outcome.seconds, "clock_mhz": outcome.clock_mhz}
    atomic_file.write(stamp, json.dumps(document, indent=1), durable=True)
    return outcome


def _call(step: Step, directory: Path, log: Path, stage: Callable[[str], None] | None, keep_open: Sequence[int]) -> str:
    """Runs the tool and logs its output. Returns the end of the output."""
    kept = bytearray()
    with log.open("wb") as file:

        def take(data: bytes) -> None:
            file.write(data)
            file.flush()
            kept.extend(data)
            del kept[: max(0, len(kept) - _KEPT_BYTES)]
            if stage is not None:
                for one, other in _STAGE.findall(data.decode(errors="replace")):
                    stage(one or other)

        try:
            # A link takes hours. What others could write to would be deleted from the cache.
            status = process.follow(step.command, take, cwd=directory, keep_open=keep_open, umask=0o077)
        except OSError as error:
            raise ToolchainError(
                f"the step '{step.name}' cannot start {step.command[0]}: {error.strerror or error}; run Vitis' "
                "settings64.sh first."
            ) from error
    text = kept.decode(errors="replace")
    if status:
        raise ToolchainError(failures.sentence(step.name, status, text, log))
    return text


def _stages(progress: StepProgress, done: int, total: int, name: str) -> Callable[[str], None]:
    return lambda stage: progress(done, total, f"{name}, {stage}")


def _inputs(step: Step) -> str:
    """A digest of the command and of the content of its inputs."""
    total = hashlib.sha256(json.dumps([step.name, *step.command, step.salt]).encode("utf-8", "surrogateescape"))
    for path in sorted(step.inputs):
        total.update(f"\0{path}\0{content(path)}".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _outputs(step: Step) -> dict[str, str]:
    return {str(path): content(path) for path in step.outputs}


def content(path: Path) -> str:
    """A digest of a file; of a folder, in which later steps work on, that it is there; "" where there is nothing."""
    if path.is_dir():
        return "folder"
    total = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while data := file.read(_CHUNK):
                total.update(data)
    except OSError:
        return ""
    return total.hexdigest()


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _stamp(step: Step, directory: Path) -> Path:
    return directory / STAMPS / f"{_file(step)}.json"


def _file(step: Step) -> str:
    return re.sub(r"[^\w.+-]+", "_", step.name)
