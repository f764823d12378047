"""A delegate of executorch: parts of a model in a .pte file that run on the card; needs executorch 1.5.

:class:`FpgaPartitioner` chooses the parts ahead of time; :func:`register_backend` adds the backend to executorch's
run time of this process. See docs/executorch.md.
"""

from fpga_dynamo.executorch.backend import FpgaBackend
from fpga_dynamo.executorch.partitioner import FpgaPartitioner
from fpga_dynamo.executorch.runtime import register_backend

__all__ = ["FpgaBackend", "FpgaPartitioner", "register_backend"]
