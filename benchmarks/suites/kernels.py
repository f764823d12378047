"""Layer by layer: single operators of well-known networks, each compiled alone.

`fpga` is the compiled call as a whole, `card` the time inside the card only (see `OnCard.seconds`). oneDNN with packed
weights is called as an operator of PyTorch, which costs it some microseconds a call that `card` does not have.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import pictures
from benchmarks.card import OnCard
from benchmarks.layers import Layer, layers_of, pointwise_chains
from benchmarks.results import CARD, OURS, Result, Row, Target
from benchmarks.rounds import Contestant, SelfTimed, describe, interleave
from benchmarks.suites import Settings, guarded
from benchmarks.verify import cases, check
from benchmarks.workloads import CHANNELS_LAST, EAGER, INDUCTOR

SECONDS = 0.8
ONEDNN = "onednn"
_LIMITS = {"conv": (ONEDNN, 0.95), "linear": (ONEDNN, 0.95), "pointwise": (INDUCTOR, 1 / 1.3), "rows": (EAGER, 1.0)}
"""By kind of layer: the peer that the core is held against, and how fast it is to be, in the card."""
_SMALLEST = "linear 1 x 512 to 1000"


def rows(settings: Settings, details: dict[str, Any]) -> Iterator[Row]:
    known = {layer.name: layer for layer in (*layers_of(), *pointwise_chains())}
    names = [_SMALLEST] if settings.quick and not settings.only else settings.chosen(list(known))
    for name in names:
        yield from guarded(name, partial(measure, known[name], settings))


def measure(layer: Layer, settings: Settings, row: Row) -> None:
    """Fills the row of one layer."""
    torch.compiler.reset()
    model, x = layer.make()
    row.details |= {"kind": layer.kind, "models": layer.models}
    with torch.no_grad():
        wanted = cases(model, x)
        contestants: dict[str, Contestant] = {}
        on_card = OnCard(model, x)
        check(on_card, wanted)
        contestants[OURS] = lambda: on_card(x)
        contestants[CARD] = SelfTimed(lambda: on_card.seconds(x))
        for name, make in _PEERS.items():
            try:
                call = make(layer, model, x)
                if call is None:
                    continue
                check(call, wanted)
                contestants[name] = partial(call, x.contiguous() if name == EAGER else x)
            except Exception as error:
                row.failures[name] = describe(error)
        row.add(interleave(contestants, settings.seconds, least_rounds=settings.least_rounds))
    if CARD in row.timings and layer.macs:
        row.figures |= {"macs": layer.macs, "card_gflops": 2e-9 * layer.macs / row.timings[CARD].median}
    peer, limit = _LIMITS.get(layer.kind, ("", 0.0))
    if CARD in row.timings and peer in row.timings:
        row.targets.append(Target(f"card over {peer}", row.ratios(CARD)[peer], limit))


def _eager(layer: Layer, model: nn.Module, x: Tensor) -> Callable[[Tensor], Tensor]:
    return model


def _channels_last(layer: Layer, model: nn.Module, x: Tensor) -> Callable[[Tensor], Tensor] | None:
    if not layer.of_images:
        return None
    return copy.deepcopy(model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _onednn(layer: Layer, model: nn.Module, x: Tensor) -> Callable[[Tensor], Tensor] | None:
    ops: Any = torch.ops.mkldnn
    if isinstance(model, nn.Conv2d):
        window: Any = (list(model.padding), list(model.stride), list(model.dilation), model.groups)
        packed = ops._reorder_convolution_weight(model.weight, *window, list(x.shape))
        return lambda x: ops._convolution_pointwise(x, packed, model.bias, *window, "none", [], "")
    if isinstance(model, nn.Linear):
        packed = ops._reorder_linear_weight(model.weight, x.shape[0])
        return lambda x: ops._linear_pointwise(x, packed, model.bias, "none", [], "")
    return None


def _inductor(layer: Layer, model: nn.Module, x: Tensor) -> Callable[[Tensor], Tensor] | None:
    return torch.compile(model) if layer.kind in ("pointwise", "rows", "pool") else None


_PEERS = {EAGER: _eager, CHANNELS_LAST: _channels_last, ONEDNN: _onednn, INDUCTOR: _inductor}


def draw(result: Result, path: Path) -> None:
    pictures.layers(result, path)
