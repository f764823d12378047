"""What PyTorch's operators consist of, as PyTorch has it."""

from torch._decomp import decomposition_table
from torch._decomp.decompositions import _upsample_linear as upsample_linear
from torch._decomp.decompositions import upsample_compute_output_size

__all__ = ["decomposition_table", "upsample_compute_output_size", "upsample_linear"]
