"""Broadcast operands as outer and inner images with steps between them."""

from __future__ import annotations

import itertools
import random

import pytest

from fpga_dynamo.lowering.ops.repetition import repetition


@pytest.mark.parametrize("seed", range(40))
def test_each_image_goes_with_the_one_that_broadcasting_gives(seed: int) -> None:
    draw = random.Random(seed)
    images = [draw.randint(1, 4) for _ in range(draw.randint(0, 4))]
    own = [draw.choice([1, size]) for size in images]
    skipped = next((d for d, size in enumerate(own) if size != 1), len(own))
    found = repetition(images, own[draw.randint(0, skipped) :])  # leading dimensions of 1 may be left out
    kinds = [size == 1 for size, count in zip(own, images, strict=True) if count != 1]
    changes = sum(a != b for a, b in itertools.pairwise(kinds))
    if changes > 1:
        assert found is None
        return
    assert found is not None
    of_own = []
    for index in itertools.product(*map(range, images)):
        at = 0
        for i, size in zip(index, own, strict=True):
            at = at * size + (i if size != 1 else 0)
        of_own.append(at)
    outer, inner = found.heads
    steps = [h0 * found.step[0] + h1 * found.step[1] for h0 in range(outer) for h1 in range(inner)]
    assert steps == of_own and found.images == max(of_own, default=0) + 1
