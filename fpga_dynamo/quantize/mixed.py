"""Mixed precision: as few layers in float as an accuracy budget allows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch.export import ExportedProgram
from torch.fx import GraphModule

from fpga_dynamo.errors import OptionError
from fpga_dynamo.quantize.compare import Comparison, Score, compare
from fpga_dynamo.quantize.export import Inputs, Model
from fpga_dynamo.quantize.flow import quantize


@dataclass
class Mixed:
    """What :func:`mixed_precision` chose. in_float: names of nodes. before, after: scores, of float32 and `model`."""

    model: GraphModule
    in_float: list[str]
    before: float
    after: float
    comparison: Comparison


def mixed_precision(model: Model, calibration: Iterable[Inputs], score: Score, budget: float, **options: Any) -> Mixed:
    """The quantised `model` that loses at most `budget` of its score, with the most sensitive products left in float.

    Products are ranked by their own signal-to-noise ratio on the calibration data; what reads values that use few of
    their levels comes first. How many stay in float is found by bisection, so about log2(products) models are
    quantised and scored. options: those of :func:`quantize`.

    Raises OptionError where even all products in float lose more, which tells that the loss comes from elsewhere.
    """
    data = list(calibration)
    before = score(model.module() if isinstance(model, ExportedProgram) else model)
    kept = list(options.pop("keep_float", ()))
    fewest = quantize(model, data, keep_float=kept, **options)
    comparison = compare(model, fewest, data)
    after = score(fewest)
    if before - after <= budget:
        return Mixed(fewest, kept, before, after, comparison)
    few = [name for value in comparison.few_levels for name in (value.name, *value.readers)]
    names = {layer.name for layer in comparison.layers}
    ranked = [name for name in dict.fromkeys(few) if name in names and name not in kept]
    ranked += [layer.name for layer in comparison.most_sensitive() if layer.name not in (*kept, *ranked)]
    # Invariant: `enough` in float are within the budget, `too_few` are not.
    too_few, enough = 0, len(ranked)
    best = quantize(model, data, keep_float=kept + ranked, **options)
    after = score(best)
    if before - after > budget:
        raise OptionError(
            f"with every product in float the score is still {after:g} of {before:g}, beyond the budget of {budget:g}: "
            "leave other operators out with `capabilities`, or calibrate on more data"
        )
    while enough - too_few > 1:
        count = (too_few + enough) // 2
        tried = quantize(model, data, keep_float=kept + ranked[:count], **options)
        found = score(tried)
        if before - found <= budget:
            enough, best, after = count, tried, found
        else:
            too_few = count
    return Mixed(best, kept + ranked[:enough], before, after, compare(model, best, data))
