"""The strides that PyTorch's own rules give a result."""

from torch._prims_common import (
    make_channels_last_strides_for,
    make_contiguous_strides_for,
    suggest_memory_format,
)

__all__ = ["make_channels_last_strides_for", "make_contiguous_strides_for", "suggest_memory_format"]
