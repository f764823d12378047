"""The option `--ray` of commands whose work an executor runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from fpga_dynamo.tools.executor import Executor
from fpga_dynamo.tools.extras import extra


def add_ray(parser: Any) -> None:
    """Adds `--ray` to a command, or to a group of its options."""
    parser.add_argument(
        "--ray",
        nargs="?",
        const="auto",
        metavar="ADDRESS",
        help="spread the work over the hosts of this Ray cluster (without an address: of this host's)",
    )


def ray_executor(arguments: argparse.Namespace, facts: Callable[[], Mapping[str, str]] = dict) -> Executor:
    """The executor that `--ray` asks for; facts: see `RayExecutor`. Raises FpgaError if the extra is not installed."""
    with extra("--ray", "ray"):
        from fpga_dynamo.tools.ray_executor import RayExecutor
    return RayExecutor(arguments.ray, facts)
