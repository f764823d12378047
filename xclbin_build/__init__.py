"""Builds, reads and describes xclbins: recipe -> sources -> objects -> torch.xclbin."""

from .axlf import Axlf, read
from .build import build, cached
from .errors import BuildError, RecipeError, RecordError, ToolchainError, XclbinError

__all__ = [
    "Axlf",
    "BuildError",
    "RecipeError",
    "RecordError",
    "ToolchainError",
    "XclbinError",
    "build",
    "cached",
    "read",
]
