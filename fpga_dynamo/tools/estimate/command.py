"""`fpga-dynamo estimate`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fpga_dynamo.errors import FpgaError
from xclbin_build.arguments import whole

if TYPE_CHECKING:
    from fpga_dynamo.tools.estimate.report import Report

DONE = 0


def add_command(commands: Any) -> None:
    """Adds `estimate` to the commands of `fpga-dynamo`."""
    estimate = commands.add_parser("estimate", help="estimate a model on a card's engine: time, traffic, resources")
    estimate.add_argument("model", help="a torchvision or timm name, module:callable, or file.py:callable")
    estimate.add_argument(
        "--dtype", choices=("int8", "bf16", "fp32"), default="int8", help="element type of the engine (int8)"
    )
    estimate.add_argument(
        "--platform", required=True, metavar="P", help="a platform such as u250 or kv260, or a .toml file"
    )
    estimate.add_argument("--recipe", metavar="R", help="recipe with the engine (the platform's own)")
    estimate.add_argument(
        "--cus", type=whole(), default=1, metavar="N", help="compute units that work on one input (1)"
    )
    estimate.add_argument(
        "--batch", type=whole(), default=1, metavar="N", help="batch size: images or rows per call (1)"
    )
    estimate.add_argument(
        "--simulate", action="store_true", help="run the model on the cycle simulator, instead of using the cost model"
    )
    estimate.add_argument(
        "--calibration", type=Path, metavar="FILE", help="calibration inputs: a list saved by torch.save (random)"
    )
    estimate.add_argument("--scales", choices=("float", "pow2"), help="quantization scales of int8 (pow2)")
    estimate.add_argument(
        "--sizes-only", action="store_true", help="estimate resources without logic; saves half a minute"
    )
    estimate.add_argument("--json", action="store_true", help="print JSON")
    estimate.set_defaults(action=_estimate)


def _estimate(arguments: argparse.Namespace) -> int:
    from fpga_dynamo.tools.estimate.report import show

    found = _made(arguments)
    if arguments.json:
        print(json.dumps(found.as_dict(), indent=1))
    else:
        show(found)
    return DONE


def _made(arguments: argparse.Namespace) -> Report:
    if arguments.scales and arguments.dtype != "int8":
        raise FpgaError(f"--scales requires --dtype int8, and --dtype is {arguments.dtype}: leave it out")
    from fpga_dynamo.tools.estimate.report import estimate

    return estimate(
        arguments.model,
        arguments.platform,
        dtype=arguments.dtype,
        recipe=arguments.recipe,
        cus=arguments.cus,
        batch=arguments.batch,
        simulate=arguments.simulate,
        calibration=arguments.calibration,
        scales=arguments.scales or "pow2",
        sizes_only=arguments.sizes_only,
    )
