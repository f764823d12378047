"""A delegate of executorch: parts of a model in a .pte file that run on the card; needs executorch 1.5.

:class:`FpgaPartitioner` chooses the parts ahead of time; :func:`register_backend` adds the backend to executorch's
run time of this process; :func:`write_backend` writes its sources for a C++ program. See docs/executorch.md.
"""

from importlib.util import find_spec

from fpga_dynamo.errors import FpgaError

if find_spec("executorch") is None:
    raise FpgaError("fpga_dynamo.executorch needs executorch: pip install 'fpga_dynamo[executorch]'")

from fpga_dynamo.executorch.backend import FpgaBackend
from fpga_dynamo.executorch.partitioner import FpgaPartitioner
from fpga_dynamo.executorch.runtime import register_backend, write_backend

__all__ = ["FpgaBackend", "FpgaPartitioner", "register_backend", "write_backend"]
