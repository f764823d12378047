"""An exported model as a program without Python, beside the direct call in Python: python -m benchmarks.exported

CMake builds the program with -O2 in an environment without variables. The page cache has its weights. Blocks
of its calls and of calls in Python take turns, each with one thread. Start-up is the time of `fd_model_open` without
the time for reading weights.bin into memory.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import nn

import fpga_dynamo
from fpga_dynamo.tools import zoo

_SOURCE = Path(__file__).parent / "exported.cpp"
_THREADS = 8
_PLAIN = {"PATH": os.environ.get("PATH", "")}
"""g++ finds its own parts by it."""


class _Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 128, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.lstm(x)[0]
        return result


def _resnet18(*, quantized: bool) -> tuple[Any, tuple[Any, ...]]:
    example = zoo.load("resnet18")
    model = zoo.randomise_batch_norm(example.model)
    if quantized:
        from fpga_dynamo.quantize import quantize

        model = quantize(model, [example.inputs] * 2, scales="pow2", bias="int32", progress=False)
    return model, (torch.zeros_like(example.inputs[0]),)


MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "resnet18": lambda: _resnet18(quantized=False),
    "resnet18 int8": lambda: _resnet18(quantized=True),
    "transformer": lambda: (
        nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True).eval(), (torch.zeros(1, 64, 128),),
    ),
    "lstm": lambda: (_Lstm().eval(), (torch.zeros(1, 32, 64),)),
    "perceptron": lambda: (
        nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).eval(), (torch.zeros(1, 16),),
    ),
}  # fmt: skip


@dataclass
class Row:
    """Milliseconds and MB of one model; `start_ms` without reading weights, `rest_mb` beside weights and arena."""

    model: str
    start_ms: float
    reading_ms: float
    program_ms: float
    python_ms: float
    threads_ms: float
    weights_mb: float
    resident_mb: float
    rest_mb: float


def built(directory: Path) -> Path:
    """The measuring program of an exported model, stripped."""
    shutil.copyfile(_SOURCE, directory / "main.cpp")
    settings = ("-DCMAKE_CXX_FLAGS_RELEASE=-O2", "-DCMAKE_EXE_LINKER_FLAGS=-s")
    for command in (("-B", "build", *settings), ("--build", "build", "--target", "main", "--parallel", "2")):
        subprocess.run(["cmake", *command], cwd=directory, env=_PLAIN, stdout=subprocess.DEVNULL, check=True)
    return directory / "build/main"


def arena_bytes(directory: Path) -> int:
    """Of all launches, whose arenas a call has at once."""
    launches = json.loads((directory / "model.json").read_text())["launches"]
    return sum(int(launch["arena_bytes"]) for launch in launches)


def measure(
    name: str, program: Path, directory: Path, model: Any, args: tuple[Any, ...], rounds: int, calls: int
) -> Row:
    """Blocks of the program and of the compiled model, which take turns."""
    compiled = torch.compile(model, backend="fpga", options={"partition": "greedy"})
    found, python = [], []
    with torch.no_grad():
        for _ in range(3):
            compiled(*args)
        for _ in range(rounds):
            command = [str(program), str(directory), str(calls), str(_THREADS)]
            done = subprocess.run(command, env={"FPGA_DYNAMO_LANES": "1"}, capture_output=True, text=True, check=True)
            found.append(json.loads(done.stdout))
            times = []
            for _ in range(calls):
                begin = perf_counter()
                compiled(*args)
                times.append(1e3 * (perf_counter() - begin))
            python.append(statistics.median(times))

    def median(key: str) -> float:
        return statistics.median(each[key] for each in found)

    weights = (directory / "weights.bin").stat().st_size / 1e6
    resident = median("anonymous_kb") * 1.024e-3
    return Row(
        model=name,
        start_ms=statistics.median(each["open_ms"] - each["reading_ms"] for each in found),
        reading_ms=median("reading_ms"),
        program_ms=median("call_ms"),
        python_ms=statistics.median(python),
        threads_ms=median("threads_ms"),
        weights_mb=weights,
        resident_mb=resident,
        rest_mb=resident - weights - arena_bytes(directory) / 1e6,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="blocks of each kind (9)")
    parser.add_argument("--calls", type=int, default=20, help="calls of a block (20)")
    parser.add_argument("--only", choices=MODELS, action="append", help="these models")
    given = parser.parse_args()
    os.environ["FPGA_DYNAMO_LANES"] = "1"
    torch.set_num_threads(1)
    print("| model | start-up ms | reading weights ms | program ms | Python ms | ratio | 8 threads ms a call "
          "| weights MB | resident MB | beside weights and arena MB |")  # fmt: skip
    print("|---" * 10 + "|")
    with tempfile.TemporaryDirectory() as folder:
        program: Path | None = None
        for number, name in enumerate(given.only or MODELS):
            torch.compiler.reset()
            torch.manual_seed(0)
            model, args = MODELS[name]()
            directory = fpga_dynamo.export(model, args, Path(folder) / str(number))
            program = program or built(directory)
            row = measure(name, program, directory, model, args, given.rounds, given.calls)
            print(
                f"| {row.model} | {row.start_ms:.1f} | {row.reading_ms:.1f} | {row.program_ms:.3f} "
                f"| {row.python_ms:.3f} | {row.program_ms / row.python_ms:.2f} | {row.threads_ms:.3f} "
                f"| {row.weights_mb:.1f} | {row.resident_mb:.1f} | {row.rest_mb:.1f} |",
                flush=True,
            )
        if program is not None:
            print(f"\nprogram: {program.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
