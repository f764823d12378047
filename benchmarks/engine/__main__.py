"""``python -m benchmarks.engine``: networks on the engine, counted by the simulator, beside published figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from benchmarks.engine.measure import Outcome, measure, sizes_of
from benchmarks.engine.networks import NETWORKS
from fpga_dynamo.codegen.engine.choose import DoesNotFitError
from fpga_dynamo.codegen.engine.target import FITTED

# Milliseconds of a batch of one: TVM BYOC on a U250 and on a Zynq, AMD's Vitis AI on a KV260 (84.4 frames/s).
PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "u250": {"resnet18": 2.66, "resnet50": 5.59, "inception_v3": 7.51, "darknet53": 6.78},
    "zcu102": {"resnet18": 5.83, "resnet50": 14.7, "inception_v3": 19.47, "darknet53": 18.29, "mobilenet_v2": 4.72},
    "kv260": {"resnet50": 11.85},
}
TABLES = (*PUBLISHED, "u50")
"""Platforms of the tables in docs/evaluation/engine.md; U280 and U55C count as U50 does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a Markdown table for each platform; answers 1 if a result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"{', '.join(NETWORKS)}; all if none is named")
    parser.add_argument("--platform", action="append", choices=sorted(FITTED), help=f"{', '.join(TABLES)} if left out")
    parser.add_argument("--mhz", type=float, default=300.0, help="the kernel's clock")
    parser.add_argument("--cus", type=int, default=1, help="compute units that share a network; 1 if left out")
    parser.add_argument("--no-check", action="store_true", help="count only; results are not compared")
    parser.add_argument("--commands", action="store_true", help="print each command's cycles as well")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.networks if name not in NETWORKS]
    if unknown:
        parser.error(f"no network is called {unknown[0]}; there are {', '.join(NETWORKS)}")
    wrong = 0
    for platform in options.platform or TABLES:
        sizes = sizes_of(platform)
        array = f"{sizes.pixels} x {sizes.out_channels} x {sizes.in_channels}"
        units = "one CU" if options.cus == 1 else f"{options.cus} CUs"
        print(f"\n{platform}, {units} of {array}, {options.mhz:g} MHz\n")
        print("| network | counted ms | cost model ms | published ms | array used | beats in bursts >= 16 | wrong |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        for name in options.networks or NETWORKS:
            try:
                outcome = measure(name, platform, check=not options.no_check, mhz=options.mhz, units=options.cus)
            except DoesNotFitError as error:
                print(f"| {name} | does not fit: a layer {error} | | | | | |", flush=True)
                continue
            print(_row(name, outcome, PUBLISHED.get(platform, {}).get(name)), flush=True)
            wrong += outcome.wrong or 0
            if options.commands:
                _commands(outcome)
    return 1 if wrong else 0


def _row(name: str, outcome: Outcome, published: float | None) -> str:
    long, beats = outcome.bursts
    cells = [
        name,
        f"{outcome.milliseconds:.2f}",
        f"{outcome.model_milliseconds:.2f}",
        "-" if published is None else f"{published:.2f}",
        f"{outcome.utilisation:.0%}",
        f"{long / beats:.1%}",
        "-" if outcome.wrong is None else str(outcome.wrong),
    ]
    return "| " + " | ".join(cells) + " |"


def _commands(outcome: Outcome) -> None:
    for command in outcome.commands:
        ratio = command.model / command.cycles
        print(f"    {command.name:32s} {command.cycles:9d} cycles, model {command.model:9.0f} ({ratio:.2f})")
    total = sum(outcome.stalls.values())
    print(f"    the array waited {total} cycles:", end=" ")
    print(", ".join(f"{cause} {n}" for cause, n in sorted(outcome.stalls.items(), key=lambda item: -item[1])))


if __name__ == "__main__":
    sys.exit(main())
