"""The message where torchao cannot be imported: it says which of the possible reasons holds."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch

from fpga_dynamo.errors import FpgaError

INSTALL = "pip install 'fpga_dynamo[quantize]'"


def torchao_error(error: Exception) -> FpgaError:
    """What to raise where the import of torchao's PT2E flow raised `error`: torchao is missing, or does not fit."""
    if find_spec("torchao") is None:
        return FpgaError(f"fpga_dynamo.quantize needs torchao, which is not installed: {INSTALL}")
    return FpgaError(
        f"fpga_dynamo.quantize needs torchao, which is installed ({_version()}) but cannot be imported with torch "
        f"{torch.__version__} ({type(error).__name__}: {error}); {INSTALL} installs the version that is tested"
    )


def _version() -> str:
    try:
        return f"version {version('torchao')}"
    except PackageNotFoundError:
        return "version unknown"
