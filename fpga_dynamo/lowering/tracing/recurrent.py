"""Decomposition of the op that PyTorch makes of an LSTM layer on a CPU: a product for all steps, and for each of them
another one with element-wise ops behind it."""

from __future__ import annotations

from typing import Any

import torch

LSTM = 2
"""Among the modes of mkldnn_rnn_layer."""

MOST_STEPS = 128
"""Longer sequences stay one op: the graph grows with the steps."""


def lstm_layer(
    x: torch.Tensor,
    input_weight: torch.Tensor,
    state_weight: torch.Tensor,
    input_bias: torch.Tensor,
    state_bias: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    reverse: bool,
    batch_sizes: list[int],
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> Any:
    """x (steps, N, features), hidden and cell of N x hidden_size elements -> (all h, last h, last c, nothing).

    Steps come first in x whatever `batch_first` says, which is the layer's argument and not the operator's.

    h' = s(o) tanh(c'), c' = s(f) c + s(i) tanh(g), where i, f, g, o are quarters of W x + b + V h + a. The fourth
    result is what a backward pass would need; so this is no decomposition while gradients are recorded.
    """
    steps = x.shape[0]
    plain = mode == LSTM and num_layers == 1 and not batch_sizes
    if not plain or train or torch.is_grad_enabled() or x.dtype is not torch.float32 or not x.numel():
        return NotImplemented
    if not isinstance(steps, int) or steps > MOST_STEPS:
        return NotImplemented

    def product(bias: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.addmm(bias, rows, weight.t()) if has_biases else rows @ weight.t()  # biases are zeros otherwise

    given = product(input_bias, x.flatten(0, 1), input_weight).view(steps, x.shape[1], -1)
    h, c = hidden.reshape(-1, hidden_size), cell.reshape(-1, hidden_size)
    seen: list[torch.Tensor] = [h] * steps
    for step in reversed(range(steps)) if reverse else range(steps):
        i, f, g, o = (product(state_bias, h, state_weight) + given[step]).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        seen[step] = h
    return torch.stack(seen), h.view_as(hidden), c.view_as(cell), x.new_empty(0)
