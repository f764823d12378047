"""The emulator: native code under pyxrt's names. See ``fpga_dynamo/_native.pyi`` for what it adds."""

from fpga_dynamo._native import *  # noqa: F403

COPIES_ON_CARD = True
