"""AMD's XRT under pyxrt's names, by its C++ API; there where XRT's headers were when fpga_dynamo was installed.

Those of ``_pyxrt`` with what follows.
"""

from fpga_dynamo._pyxrt import *  # noqa: F403

library_directory: str
"""Where the XRT lies that this module was built with (ours)."""

# XRT 2.15 and later have hw_context(device, uuid), kernel(hw_context, name) and device.register_xclbin(xclbin) too.

class ini:
    """XRT's configuration (xrt.ini), before the first card is opened. A module, in truth."""

    @staticmethod
    def set(key: str, value: str, /) -> None: ...
