"""`python -m tests.opinfo`: runs the databases in processes of their own, a share each, and sums up.

Exit codes: 0 nothing wrong, 1 a wrong answer or a crash.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ["FPGA_DYNAMO_PROGRAM_CACHE"] = "0"  # what lowering makes today is what is tested

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")
PLACEMENTS = ("host", "greedy")
"""Where operators of eager mode run in tests of the device: the CPU's kernels, or the card if a core can run them."""
EVERYTHING = (
    ["--samples", "32"],
    ["--backward", "--samples", "8"],
    ["--in-place", "--samples", "6"],
    ["--what", "modules"],
    ["--what", "modules", "--backward"],
    *(["--on-device", where, "--samples", "4"] for where in PLACEMENTS),
    *(["--on-device", where, "--backward", "--samples", "4"] for where in PLACEMENTS),
    *(["--on-device", where, "--what", "modules", "--backward"] for where in PLACEMENTS),
    *(["--dtype", dtype, "--samples", "8"] for dtype in DTYPES if dtype != "float32"),
)
"""What is run if nothing else is asked for, one after the other."""
_DEATHS = 20  # processes of one shard that may die before it is given up


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo", description=__doc__)
    parser.add_argument("--what", choices=("ops", "modules"), default="ops", help="OpInfo or ModuleInfo (ops)")
    parser.add_argument("--everything", action="store_true", help="ops and modules, all dtypes, gradients")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--backward", action="store_true", help="gradients of inputs and parameters too")
    parser.add_argument("--in-place", action="store_true", help="in-place variants of the ops too")
    parser.add_argument(
        "--on-device", choices=PLACEMENTS, help="eager mode on device fpga, not torch.compile; where operators run"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="ops or modules of exactly these names")
    parser.add_argument("--samples", type=int, default=32, metavar="N", help="samples of an op, spread; 0 is all (32)")
    parser.add_argument("--shard", metavar="I/N", help="the I-th of N shares, in this process")
    parser.add_argument("--shards", type=int, default=8, metavar="N", help="how many shares, a process each (8)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time (2)")
    parser.add_argument("--partition", default="greedy", help="option of the backend (greedy)")
    parser.add_argument("--out", type=Path, default=Path("out/opinfo"), metavar="DIR", help="results (out/opinfo)")
    parser.add_argument("--resume", action="store_true", help="keep the results that lie there")
    return parser


def _title(arguments: argparse.Namespace) -> str:
    return "-".join(
        [
            arguments.what,
            arguments.dtype,
            *(["backward"] if arguments.backward else []),
            *(["inplace"] if arguments.in_place else []),
            *(["device", arguments.on_device] if arguments.on_device else []),
        ]
    )


def _run_here(arguments: argparse.Namespace, index: int, shards: int, path: Path) -> list[Any]:
    import torch

    from tests.opinfo import cases, on_device, runs

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = 1 << 16
    torch._dynamo.config.accumulated_recompile_limit = 1 << 20
    dtype = getattr(torch, arguments.dtype)
    if arguments.what == "ops":
        subjects = cases.op_subjects(dtype, backward=arguments.backward, in_place=arguments.in_place)
    else:
        subjects = cases.module_subjects(dtype, backward=arguments.backward)
    if arguments.only:
        subjects = [subject for subject in subjects if subject.name in arguments.only]
    settings = {"samples": arguments.samples, "partition": arguments.partition, "only": arguments.only}
    return runs.run_shard(
        subjects[index::shards],
        path,
        settings,
        on_device.run_on_device if arguments.on_device else runs.run_subject,
        backward=arguments.backward,
        limit=arguments.samples,
        options={"partition": arguments.on_device or arguments.partition},
    )


def _path(arguments: argparse.Namespace, index: int, shards: int) -> Path:
    return Path(arguments.out) / f"{_title(arguments)}.{index}of{shards}.json"


def _run_process(arguments: argparse.Namespace, argv: list[str], index: int, shards: int) -> None:
    """One share in a process, continued by another where it dies of a signal."""
    command = [sys.executable, "-m", "tests.opinfo", *argv, "--resume", "--shard", f"{index}/{shards}"]
    for _ in range(_DEATHS):
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode in (0, 1):
            return


def main(argv: list[str]) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.everything:
        rest = [word for word in argv if word != "--everything"]
        return max(main([*part, *rest]) for part in EVERYTHING)
    if arguments.shard:
        index, shards = map(int, arguments.shard.split("/"))
        mine = [index]
    else:
        shards = 1 if arguments.only else arguments.shards
        mine = list(range(shards))
    paths = [_path(arguments, index, shards) for index in mine]
    if not arguments.resume:
        for path in paths:
            path.unlink(missing_ok=True)
    if arguments.shard or arguments.only:
        _run_here(arguments, mine[0], shards, paths[0])
    else:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(lambda index: _run_process(arguments, argv, index, shards), mine))

    from tests.opinfo.runs import Result, is_clean, summary

    results = [Result(**entry) for path in paths for entry in json.loads(path.read_text())["results"]]
    print(summary(_title(arguments), results))
    return 0 if is_clean(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
