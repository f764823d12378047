"""A decoder that writes its own next token: one launch a token, one compilation, eager mode's words."""

from __future__ import annotations

import copy

import torch

import fpga_dynamo
from examples.models import TinyLlama
from fpga_dynamo.testing.reference import assert_close_to_eager


def test_a_decode_loop_with_a_key_value_cache_is_one_launch_a_token() -> None:
    torch._dynamo.reset()
    torch.manual_seed(3)
    model = TinyLlama().eval()
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    compiled = torch.compile(model, backend="fpga", options={"partition": "greedy", "strict": True}, fullgraph=True)
    token = torch.tensor([7])
    with torch.no_grad():
        for step in range(6):
            position = torch.tensor([step])
            exact(token, position)
            before = fpga_dynamo.stats()["pl_launches"]
            said, expected = compiled(token, position), eager(token, position)
            assert fpga_dynamo.stats()["pl_launches"] - before == 1
            assert torch.equal(said, expected), f"token {step}"
            token = said
    for ours, theirs, precise in zip(model.buffers(), eager.buffers(), exact.buffers(), strict=True):
        assert_close_to_eager(ours, theirs, precise)
