"""What export and load raise."""

from __future__ import annotations

from fpga_dynamo.errors import FpgaError


class ExportError(FpgaError):
    """A model that cannot be exported; the message names what is not supported, and every node with its reason."""


class ModelFileError(FpgaError, ValueError):
    """A directory that is no exported model, is damaged, or needs another version."""
