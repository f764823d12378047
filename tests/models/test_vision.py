"""Networks for detection, segmentation and classification: almost all arithmetic is on the card, in few launches, and
the answer is as exact as eager mode's."""

from __future__ import annotations

import copy
import gc
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from examples.models import UNet
from fpga_dynamo import Explanation
from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.runtime.observe.rounding import in_float64
from fpga_dynamo.testing.reference import assert_close_to_eager
from fpga_dynamo.tools.explain import report
from fpga_dynamo.tools.zoo import import_torchvision, randomise_batch_norm
from tests.models.detection_ops import detection_ops  # noqa: F401 - a fixture
from tests.models.offload_table import OffloadTable, Partitioned

FACTOR, WINOGRAD_FACTOR = 4.0, 8.0
"""Of eager float32's own error against float64: with direct sums, and where Winograd's method is taken."""

SHARE = 0.99
"""Of the multiply-accumulates."""


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    gc.collect()


class Heads(nn.Module):
    """The part of a detector in front of the choice of boxes: backbone, pyramid and what is predicted everywhere."""

    def __init__(self, detector: Any) -> None:
        super().__init__()
        self.backbone = detector.backbone
        self.head = detector.rpn.head if hasattr(detector, "rpn") else detector.head

    def forward(self, image: torch.Tensor) -> Any:
        features = self.backbone(image)
        maps = [features] if isinstance(features, torch.Tensor) else list(features.values())
        return self.head(maps)


def models() -> Any:
    import_torchvision()
    import torchvision.models

    return torchvision.models


def detector(name: str, **settings: Any) -> nn.Module:
    """With few candidates, as random weights find something everywhere."""
    build = getattr(models().detection, name)
    return build(weights=None, weights_backbone=None, num_classes=5, **settings)


SURE = frozenset({"ssd300_vgg16", "fasterrcnn_resnet50_fpn"})
"""With random weights these are sure of one class, everywhere: many boxes have one score, or none is found."""


def with_distinct_scores(name: str) -> nn.Module:
    model: Any = randomised(DETECTORS[name]())
    if name in SURE:
        heads: Any = (model.rpn.head, model.roi_heads.box_predictor) if hasattr(model, "rpn") else (model.head,)
        with torch.no_grad():
            for parameter in itertools.chain.from_iterable(head.parameters() for head in heads):
                parameter.mul_(0.02)
    return model


FEW = {"topk_candidates": 30, "detections_per_img": 20, "score_thresh": 0.0}
SMALL = {"min_size": 96, "max_size": 128}
DETECTORS: dict[str, Callable[[], nn.Module]] = {
    "ssd300_vgg16": lambda: detector("ssd300_vgg16", **FEW),
    "ssdlite320_mobilenet_v3_large": lambda: detector("ssdlite320_mobilenet_v3_large", **FEW),
    "retinanet_resnet50_fpn": lambda: detector("retinanet_resnet50_fpn", **FEW, **SMALL),
    "fasterrcnn_resnet50_fpn": lambda: detector(
        "fasterrcnn_resnet50_fpn",
        rpn_pre_nms_top_n_test=50,
        rpn_post_nms_top_n_test=20,
        box_detections_per_img=10,
        box_score_thresh=0.0,
        **SMALL,
    ),
}
SIDES = {"ssd300_vgg16": 300, "ssdlite320_mobilenet_v3_large": 320}


def segmentation(name: str) -> nn.Module:
    return getattr(models().segmentation, name)(weights=None, weights_backbone=None)


def vision_transformer() -> nn.Module:
    return models().VisionTransformer(64, 16, num_layers=4, num_heads=6, hidden_dim=192, mlp_dim=768)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "unet": (UNet, (1, 3, 96, 96)),
    "fcn_resnet50": (lambda: segmentation("fcn_resnet50"), (1, 3, 64, 64)),
    "deeplabv3_resnet50": (lambda: segmentation("deeplabv3_resnet50"), (1, 3, 64, 64)),
    "lraspp_mobilenet_v3_large": (lambda: segmentation("lraspp_mobilenet_v3_large"), (1, 3, 64, 64)),
    "efficientnet_b0": (lambda: models().efficientnet_b0(), (1, 3, 64, 64)),
    "regnet_y_400mf": (lambda: models().regnet_y_400mf(), (1, 3, 64, 64)),
    "convnext_tiny": (lambda: models().convnext_tiny(), (1, 3, 64, 64)),
    "vision transformer, 4 layers": (vision_transformer, (1, 3, 64, 64)),
    "swin_t": (lambda: models().swin_t(), (1, 3, 64, 64)),
    "swin_v2_t": (lambda: models().swin_v2_t(), (1, 3, 64, 64)),
    "r3d_18": (lambda: models().video.r3d_18(), (1, 3, 4, 32, 32)),
    "r2plus1d_18": (lambda: models().video.r2plus1d_18(), (1, 3, 4, 32, 32)),
}


def randomised(model: nn.Module) -> nn.Module:
    """In eval mode, with no layer that is zero: some models begin with such a head."""
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(0.0, 0.05)
    return randomise_batch_norm(model, seed=2).eval()


def check(name: str, model: nn.Module, inputs: tuple[Any, ...], *, launches: int = 1) -> Partitioned:
    """Asserts error, offload and launches of a network that is one graph."""
    with torch.no_grad():
        eager = model(*inputs)
        card, explained = compiled(model, *inputs)
        exact = copy.deepcopy(model).double()(*in_float64(inputs))
    factor = WINOGRAD_FACTOR if "winograd" in str(explained) else FACTOR
    errors = assert_close_to_eager(card, eager, exact, factor)
    assert explained.mac_offload >= SHARE, str(explained)
    assert explained.pl_launches <= launches, str(explained)
    ratio = max(e.compiled / e.eager for e in errors if e.eager)
    return Partitioned.of(name, explained, ratio)


def compiled(model: nn.Module, *inputs: Any) -> tuple[Any, Explanation]:
    """The answer of the compiled model, and what ran where."""
    with collect_programs() as programs:
        answer = torch.compile(model, backend="fpga")(*inputs)
    return answer, Explanation(tuple(report(program) for program in programs))


def test_a_small_unet_is_one_launch() -> None:
    torch.manual_seed(3)
    row = check("unet", randomised(UNet(width=8)), (torch.randn(1, 3, 16, 16),))
    assert row.node_offload == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str, offload_table: OffloadTable) -> None:
    torch.manual_seed(3)
    build, size = NETWORKS[name]
    offload_table.partitions.append(check(name, randomised(build()), (torch.randn(size),)))


@pytest.mark.slow
@pytest.mark.parametrize("name", DETECTORS)
def test_heads_of_a_detector(name: str, offload_table: OffloadTable) -> None:
    torch.manual_seed(3)
    side = SIDES.get(name, 96)
    heads = Heads(randomised(DETECTORS[name]()))
    offload_table.partitions.append(check(f"{name}, heads", heads, (torch.randn(1, 3, side, side),)))


@pytest.mark.slow
@pytest.mark.usefixtures("detection_ops")
@pytest.mark.parametrize("name", DETECTORS)
def test_detector_from_image_to_boxes(name: str, offload_table: OffloadTable) -> None:
    torch.manual_seed(3)
    model = with_distinct_scores(name)
    images = [torch.rand(3, 96, 128)]
    with torch.no_grad():
        (eager,) = model(images)
        (card,), explained = compiled(model, images)
    torch.testing.assert_close(card["scores"], eager["scores"], rtol=1e-3, atol=1e-5)
    # Which of several boxes with one score comes first, and which is the last to be kept, depends on rounding.
    steps = eager["scores"].diff().abs() > 1e-4 * eager["scores"][1:]
    ends = torch.ones(1, dtype=torch.bool)
    alone = torch.cat([ends, steps]) & torch.cat([steps, ~ends])
    assert alone.sum() > 2
    for kind in ("boxes", "labels"):
        torch.testing.assert_close(card[kind][alone], eager[kind][alone], rtol=1e-3, atol=1e-2)
    assert explained.mac_offload >= SHARE, str(explained)
    # Every graph is one launch at most but for what a choice of boxes waits for: see the reasons in explain.
    offload_table.partitions.append(Partitioned.of(name, explained, None))
