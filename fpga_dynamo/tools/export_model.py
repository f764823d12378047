"""`fpga-dynamo export`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.tools.extras import extra
from xclbin_build.arguments import output_folder, whole

DONE = 0

_CALIBRATION_CALLS = 2


def add_command(
    commands: Any, option: Callable[[str], tuple[str, Any]], options: Callable[[argparse.Namespace], Any]
) -> None:
    """Adds `export` to the commands of `fpga-dynamo`. option, options: how options of the backend are read."""
    export = commands.add_parser("export", help="write a model as a directory that runs without Python")
    export.add_argument(
        "model", help="a torchvision or timm name, module:callable, file.py:callable, or a .pt2 file of torch.export"
    )
    export.add_argument(
        "-o", "--output", type=output_folder, required=True, metavar="DIR", help="the directory: a new or an empty one"
    )
    export.add_argument("--batch", type=whole(), default=1, metavar="N", help="batch size: images or rows per call (1)")
    export.add_argument(
        "--dtype",
        choices=("float32", "float16", "bfloat16", "int8"),
        help="dtype of parameters and inputs (the model's own); int8 quantizes with random calibration inputs",
    )
    export.add_argument(
        "--options",
        nargs="+",
        action="extend",
        type=option,
        default=[],
        metavar="key=value",
        help="option of the backend; repeatable",
    )
    export.add_argument(
        "--isa", help="instruction set of the machine that runs the kernels: aarch64, x86-64-v3, ... (this machine's)"
    )
    export.set_defaults(action=lambda arguments: _export(arguments, options(arguments)))


def _export(arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    from fpga_dynamo.deployment.export import export

    model, inputs, dtype = arguments.model, (), arguments.dtype
    if not model.endswith(".pt2"):
        model, inputs, dtype = _loaded(arguments)
    elif dtype == "int8":
        raise FpgaError("--dtype int8 quantizes a module, and a .pt2 file is a finished program; leave it out")
    path = export(model, inputs, arguments.output, dtype=dtype, options=options, isa=arguments.isa)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"wrote {path}: {size / 1e6:.1f} MB, {(path / 'weights.bin').stat().st_size / 1e6:.1f} MB of them weights")
    print(f"{path / 'README.md'} says how it is built and run")
    return DONE


def _loaded(arguments: argparse.Namespace) -> tuple[Any, tuple[Any, ...], str | None]:
    """The model, example inputs, and the dtype that is left to convert to."""
    from fpga_dynamo.tools import zoo

    example = zoo.load(arguments.model, batch=arguments.batch)
    if arguments.dtype != "int8":
        return example.model, example.inputs, arguments.dtype
    with extra("int8", "quantize"):
        from fpga_dynamo.quantize import quantize
    calls = [example.inputs] * _CALIBRATION_CALLS
    return quantize(example.model, calls, scales="pow2", bias="int32", progress=False), example.inputs, None
