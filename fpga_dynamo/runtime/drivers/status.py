"""The status record of a command list, for drivers in Python: how a card says that one was not run to its end."""

from __future__ import annotations

from typing import Any

import numpy as np

RECORD_BYTES = 64
"""More than its two words: the status, and the position of the command that did not succeed (command.hpp, STATUS_*)."""


def refused(buffer: Any, from_device: Any) -> str:
    """Why the last list that ran on `buffer` did not succeed, a sentence; "" if it did."""
    record = np.zeros(RECORD_BYTES // 4, np.uint32)
    buffer.sync(from_device, RECORD_BYTES, 0)
    buffer.read_ptr(record.ctypes.data, RECORD_BYTES, 0)
    if record[0] == 0:
        return ""
    return f"command {record[1]} ended with status {record[0]} (STATUS_* of hls_kernels/command.hpp)"
