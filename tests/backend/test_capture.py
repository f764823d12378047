"""Graphs that tools look at: of one model at many sizes, in one process."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fpga_dynamo.frontend.capture import capture


class _Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.convolution(x)).mean((2, 3))


def test_a_model_is_captured_at_any_number_of_sizes_and_each_graph_has_its_own() -> None:
    model = _Small().eval()
    for i in range(torch._dynamo.config.recompile_limit + 2):
        image = torch.randn(1 + i % 3, 3, 8 + i, 9)
        captured = capture(model, (image,))
        (node,) = (node for node, value in captured.tensors().items() if value is image)
        assert list(node.meta["val"].shape) == list(image.shape)
        assert not any(isinstance(value, int) for value in captured.arguments)
        assert torch.equal(captured.results[0], model(image))
