"""The command `xclbin-build --from-model`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fpga_dynamo.errors import FpgaError
from xclbin_build import platform as platforms
from xclbin_build.arguments import output_folder, whole
from xclbin_build.command_line import parse
from xclbin_build.errors import RecipeError, did_you_mean
from xclbin_build.platform import Platform

if TYPE_CHECKING:
    from fpga_dynamo.tools.recipe_search.workload import TracedModel

DTYPES = {"int8": "int8", "bf16": "bfloat16", "float32": "float32"}
"""What --dtype accepts, as recipes name it."""
_GOALS = {
    "latency": "the fastest call (default)",
    "throughput": "the most calls a second, with several compute units that run calls of their own",
    "area": "the smallest engine that is at most twice as slow as the fastest",
}


def run(words: list[str]) -> int:
    """Runs the command; 0: a recipe was written. Raises RecipeError for what cannot be done."""
    if not {"-h", "--help"}.isdisjoint(words):  # also behind --from-model without a model
        _parser().print_help()
        return 0
    options = parse(_parser(), words)
    if options.dtype not in DTYPES:
        raise RecipeError(f"--dtype {options.dtype} is unknown; {did_you_mean(options.dtype, list(DTYPES))}")
    card = platforms.load(options.platform)
    if not card.regions:
        cards = [name for name in platforms.names() if platforms.load(name).regions]
        raise RecipeError(f"platform '{options.platform}' is not a card; cards are {', '.join(cards)}.")
    try:
        return _search(options, card)
    except FpgaError as error:
        raise RecipeError(str(error)) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xclbin-build --from-model",
        usage="xclbin-build --from-model MODEL [MODEL...] --platform P [options]",
        description="Searches the engine that runs models fastest on a platform, by the cost model and the resource "
        "estimate, and writes its recipe.",
    )
    parser.add_argument(
        "--from-model", nargs="+", required=True, metavar="MODEL",
        help="a torchvision or timm name, module:callable, file.py:callable, or a .pt2 of torch.export; several share "
        "the recipe",
    )  # fmt: skip
    parser.add_argument("-f", "--platform", required=True, metavar="P", help="a card, or the path of a .toml")
    parser.add_argument("--dtype", default="int8", metavar="T", help=f"{', '.join(DTYPES)} (int8)")
    goals = parser.add_mutually_exclusive_group()
    for name, words in _GOALS.items():
        goals.add_argument(f"--{name}", dest="goal", action="store_const", const=name, help=words)
    parser.add_argument("--combine", choices=("sum", "max"), default="sum",
                        help="how the times of several models count: their sum, or the longest (sum)")  # fmt: skip
    parser.add_argument("--batch", type=whole(), default=1, metavar="N", help="batch size (1)")
    parser.add_argument("-o", "--output", type=output_folder, default=Path("recipe"), metavar="DIR",
                        help="folder for recipe.toml (recipe)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print no progress")
    parser.set_defaults(goal="latency")
    return parser


def _search(options: argparse.Namespace, card: Platform) -> int:
    from fpga_dynamo.tools.recipe_search import recipe_file, report
    from fpga_dynamo.tools.recipe_search.search import Search
    from fpga_dynamo.tools.recipe_search.space import Card
    from fpga_dynamo.tools.recipe_search.workload import Workload

    console = Console(stderr=True, quiet=options.quiet)
    with console.status("tracing"):
        workload = Workload([_traced(name, options) for name in options.from_model], options.combine)
    with console.status("searching") as status:
        search = Search(workload, Card(card), DTYPES[options.dtype], options.goal)
        search.progress = status.update
        found = search.run()
    path = recipe_file.write(
        options.output, found.best.candidate, options.platform, card, report.comments(found, workload, options.goal)
    )
    summary = report.Summary(workload, search.card, found, options.goal, path)
    if options.json:
        print(json.dumps(summary.document(), indent=1))
    else:
        summary.show()
    return 0


def _traced(name: str, options: argparse.Namespace) -> TracedModel:
    from fpga_dynamo.tools.estimate import model
    from fpga_dynamo.tools.recipe_search.workload import TracedModel

    if options.dtype == "int8":
        return TracedModel(model.quantised(name, options.batch, "pow2", None))
    return TracedModel(model.floating(name, options.batch, {"bf16": "bf16", "float32": "fp32"}[options.dtype]))
