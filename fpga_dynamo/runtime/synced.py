"""A launch by XRT's own calls: inputs into the host's side of the arena, sync, start, wait, sync, outputs out of it.

What a sync moves is what has changed: inputs and outputs lie side by side at the arena's beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fpga_dynamo.lowering.program import Form


def launch(
    driver: Any,
    run: Any,
    arena: Any,
    form: Form,
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    timeout_ms: int,
) -> Any:
    """Runs a task's commands on tensors as they lie in its slots; the state at the end. Outputs only if it completed.

    A run that passes its time-out is ended, as far as the card can do that.
    """
    for tensor, slot in zip(inputs, form.inputs, strict=True):
        arena.write_ptr(tensor.data_ptr(), slot.nbytes, slot.offset * 4)
    begin, end = form.output_end * 4, form.input_end * 4
    if end > begin:
        arena.sync(driver.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE, end - begin, begin)
    run.start()
    state = run.wait(timeout_ms)
    if state == driver.ert_cmd_state.ERT_CMD_STATE_COMPLETED:
        arena.sync(driver.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE, begin, 0)
        for tensor, slot in zip(outputs, form.outputs, strict=True):
            arena.read_ptr(tensor.data_ptr(), slot.nbytes, slot.offset * 4)
    elif state == driver.ert_cmd_state.ERT_CMD_STATE_TIMEOUT:
        run.abort()
    return state
