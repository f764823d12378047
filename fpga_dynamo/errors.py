"""Exception types. Every message names what is wrong and the remedy."""

from __future__ import annotations

from typing import Any


class FpgaError(RuntimeError):
    """Base of all errors that fpga_dynamo raises."""


class InternalError(FpgaError):
    """A fault of the compiler itself. The graph falls back to eager mode, except with ``strict=True``."""


class OptionError(FpgaError, ValueError):
    """An option that does not exist, or a value that it does not take."""


class ArgumentError(FpgaError, TypeError):
    """A call of a plain kernel with an argument that it does not take; the message names the argument."""


class NotLoweredError(FpgaError):
    """``strict=True`` and a node would run on the PS; the message lists the nodes and their reasons.

    Or it says why a whole graph would run in eager.
    """


class PatternError(FpgaError):
    """A pattern of the user's raised an exception, or gave what it must not; the message names it and the node.

    Raised under ``strict=True``; otherwise the node goes without that pattern, with a warning. `pattern` is its name,
    `nodes` what it was asked about.
    """

    def __init__(self, message: str, pattern: str, nodes: tuple[Any, ...]) -> None:
        super().__init__(message)
        self.pattern = pattern
        self.nodes = nodes


class XclbinError(FpgaError, ValueError):
    """An xclbin that cannot be read or built, or that this version does not understand."""


class DeviceError(FpgaError):
    """A card, its memory or a run on it failed."""


class VerificationError(FpgaError):
    """``verify=True`` and a partition's result differs from eager mode's; the message names the first such node."""
