"""AMD's XRT under pyxrt's names, by its C++ API; there where XRT's headers were when fpga_dynamo was installed.

Those of ``_pyxrt`` with what follows.
"""

from fpga_dynamo import _pyxrt
from fpga_dynamo._pyxrt import *  # noqa: F403

library_directory: str
"""Where the XRT lies that this module was built with (ours)."""

# XRT 2.15 and later have hw_context(device, uuid), kernel(hw_context, name) and device.register_xclbin(xclbin) too.

class run(_pyxrt.run):  # type: ignore[no-redef]
    @property
    def reads_status(self) -> bool:
        """Whether execute_io looks at the status record in its buffer's first words (ours).

        On a card nothing else tells that a command list has not come to its end; the state is ERT_CMD_STATE_ERROR then.
        """

    @reads_status.setter
    def reads_status(self, wanted: bool) -> None: ...

class ini:
    """XRT's configuration (xrt.ini), before the first card is opened. A module, in truth."""

    @staticmethod
    def set(key: str, value: str, /) -> None: ...
