"""How a change of a parameter is noticed that neither its storage nor its version counter shows.

Autograd counts in-place writes, but not those through ``.data`` or through a NumPy array. ``sampled`` looks at a few
elements of each parameter on every call: that sees an update of the whole tensor, and may miss one of single elements
(``refresh_weights()`` is for those); ``full`` reads everything.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fpga_dynamo._native import fingerprints
from fpga_dynamo.torch_internals.tensors import versions

SAMPLES = 8
"""Words of each parameter that ``sampled`` reads."""

Stamp = tuple[int, int, int]
"""Address, version and fingerprint of a tensor."""


def memory_of(tensor: torch.Tensor) -> object:
    """What to hold a weak reference to, to learn of a tensor's end: its storage, if it has one.

    One to the tensor itself would have ``torch.utils.swap_tensors`` refuse it.
    """
    try:
        return tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):  # sparse, or of another library's layout
        return tensor


class ChangeDetector:
    """Stamps for a fixed list of sources, whose shapes and strides do not change from call to call."""

    def __init__(self, weight_check: str) -> None:
        self.samples = {"version": None, "sampled": SAMPLES, "full": 0}[weight_check]
        """Words of each tensor that are looked at: 0 for all, None for none."""
        self._sizes: list[int] | None = None

    def stamps(self, tensors: Sequence[torch.Tensor]) -> list[Stamp]:
        """One stamp each; a tensor whose stamp is the same as before has (as far as can be seen) not changed."""
        addresses = [tensor.data_ptr() for tensor in tensors]
        counts = versions(tensors)
        if self.samples is None:
            prints = [0] * len(addresses)
        else:
            prints = fingerprints(addresses, self.sizes(tensors), self.samples)
        return list(zip(addresses, counts, prints, strict=True))

    def sizes(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        """Bytes that each of the sources takes up."""
        if self._sizes is None:
            self._sizes = [_extent(tensor) for tensor in tensors]
        return self._sizes


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from the first to behind the last element."""
    if tensor.numel() == 0:
        return 0
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return (reach + 1) * tensor.element_size()
