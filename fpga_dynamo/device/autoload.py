"""What ``import torch`` calls by the entry point ``torch.backends``: it gives the device its name, and does no more.

So ``torch.ones(2, device="fpga")`` works with nothing else imported. What the device needs is loaded at its first use.
"""

from __future__ import annotations

import warnings


def register() -> None:
    """Makes ``torch.device("fpga")`` and ``torch.fpga`` known; warns if another backend has PyTorch's place for one."""
    from fpga_dynamo.device import module
    from fpga_dynamo.torch_internals.device import give_name

    if not give_name(module):
        warnings.warn(
            "device 'fpga' is not available, because another package has registered PyTorch's one device of its own; "
            "uninstall one of the two packages",
            RuntimeWarning,
            stacklevel=2,
        )
