"""Forged cache entries: entries of real models with wrong fields and a right checksum, loaded and run.

``python -m tests.compile_cache.forging XCLBIN MODEL SEED COUNT WRITER``: WRITER "stranger" has not the user's key, and
every answer has to be right; "owner" has it (a mistake of this package's, say), and nothing may crash. Prints how many
entries were refused and how many answers were wrong.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fpga_dynamo.cache import seal, store
from fpga_dynamo.quantize import quantize

VALUES: list[Any] = [None, -1, 0, 1, 7, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, 10**30, 0.5, -1e300]
VALUES += ["x", "float32", [], {}, [[]], True, False, ["dtype", "float64"], ["tuple", 1], ["float", "nan"]]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm, self.first, self.second = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.second(torch.nn.functional.gelu(self.first(self.norm(x))))


class HostInTheMiddle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.special.bessel_j0(torch.relu(self.first(x)))))


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(8 * 9, 5))  # fmt: skip


def quantised() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).eval()
    result = quantize(model, [(torch.randn(1, 3, 8, 8),)], progress=False)
    assert isinstance(result, nn.Module)
    return result


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolutions": (convolutions, (1, 3, 8, 8)),
    "block": (Block, (2, 6, 32)),
    "host": (HostInTheMiddle, (8, 16)),
    "quantised": (quantised, (1, 3, 8, 8)),
}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every position in nested lists and objects."""
    found = []
    for at in value if isinstance(value, dict) else range(len(value)):
        found.append((value, at))
        if isinstance(value[at], dict | list):
            found += places(value[at])
    return found


def forge(header: dict[str, Any], raw: bytearray, chance: random.Random) -> None:
    """Changes one to three fields or words."""
    for _ in range(chance.choice([1, 1, 2, 3])):
        if raw and chance.random() < 0.2:
            raw[chance.randrange(len(raw))] = chance.randrange(256)
            continue
        holder, at = chance.choice([place for place in places(header) if place[1] not in ("key", "seal")])
        old, how = holder[at], chance.random()
        if how < 0.4 and type(old) is int:
            holder[at] = chance.choice([old + 1, old - 1, 2 * old, old ^ (1 << chance.randrange(40)), 1000 * old + 999])
        elif how < 0.5:
            del holder[at]
        elif how < 0.6 and isinstance(old, list) and old:
            holder[at] = [*old, chance.choice(old)]
        else:
            holder[at] = chance.choice(VALUES)


def forged(key: str, content: bytes, chance: random.Random, writer: str) -> bytes:
    entry = store.parse(key, content)
    text = json.dumps(entry.header)
    header, raw = json.loads(text), bytearray(entry.raw)
    while json.dumps(header) == text and raw == entry.raw:  # a changed field may get the value that it had
        forge(header, raw, chance)
    header.pop("key", None)
    return (seal if writer == "owner" else store).serialise(key, header, bytes(raw))


def attack(xclbin: str, name: str, seed: int, count: int, writer: str) -> tuple[int, int]:
    """How many runs refused an entry, and how many gave a wrong answer."""
    torch.manual_seed(seed)
    make, size = MODELS[name]
    model, x = make(), torch.randn(size)
    if not isinstance(model, torch.fx.GraphModule):  # whose eval() is not a module's
        model.eval()

    def run() -> torch.Tensor:
        torch._dynamo.reset()
        options: dict[str, Any] = {"xclbin": xclbin, "partition": "greedy"}
        with torch.no_grad():
            return torch.compile(model, backend="fpga", options=options)(x)

    expected = run()
    good = {path: path.read_bytes() for path in store.directory().glob("*.program")}
    assert good, "nothing is cached"
    chance = random.Random(seed)
    refused = wrong = 0
    for number in range(count):
        path = sorted(good)[chance.randrange(len(good))]
        path.write_bytes(forged(path.stem, good[path], chance, writer))
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("always")
            try:
                result = run()
            except Exception:
                if writer == "stranger":
                    raise
                result = expected  # a graph with a wrong argument fails as the same graph of the user's does
        refused += any("ignored and compiled again" in str(warning.message) for warning in caught)
        if not torch.allclose(result, expected, rtol=1e-4, atol=1e-4):
            wrong += 1
            print(f"wrong: {name} {writer} seed {seed} number {number}", file=sys.stderr)
        for path, content in good.items():
            path.write_bytes(content)
    return refused, wrong


if __name__ == "__main__":
    print(*attack(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]))
