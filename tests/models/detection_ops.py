"""What torchvision's detectors need of its compiled part, in Python, where that part cannot be loaded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from fpga_dynamo.tools.zoo import import_torchvision


def non_maximum_suppression(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Indices of the boxes (N, 4) that overlap with none of a higher score by more than `iou_threshold`, best first."""
    from torchvision.ops import box_iou

    overlaps = box_iou(boxes, boxes) > iou_threshold
    dropped = torch.zeros(len(boxes), dtype=torch.bool)
    kept = []
    for index in scores.argsort(descending=True, stable=True).tolist():
        if not dropped[index]:
            kept.append(index)
            dropped |= overlaps[index]
    return torch.tensor(kept, dtype=torch.int64)


@pytest.fixture
def detection_ops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """nms for the test, if torchvision has none; its roi_align then is torchvision's own in Python."""
    import_torchvision()
    import torchvision.ops.boxes

    if torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "CPU"):
        yield
        return
    monkeypatch.setattr(torchvision.ops.boxes, "_assert_has_ops", lambda: None)
    library = torch.library.Library("torchvision", "IMPL")
    library.impl("nms", non_maximum_suppression, "CPU")
    yield
    library._destroy()
