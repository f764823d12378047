"""How the arguments and results of an exported model are nested in tuples, lists and dictionaries.

It is the part of model.json that only :func:`fpga_dynamo.load` reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fpga_dynamo.deployment.errors import ModelFileError
from fpga_dynamo.torch_internals.pytree import TreeSpec, tree_flatten, tree_unflatten, treespec_loads


@dataclass(frozen=True)
class Nesting:
    """leaves: of each leaf of the arguments, whether it is an input; the others have no effect.

    constants: results that are no tensors, by their positions among all.
    """

    call: TreeSpec
    result: TreeSpec
    leaves: Sequence[bool]
    constants: Mapping[int, Any]

    def flat(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The inputs in the model's order. Raises ValueError for a call in another nesting than the example."""
        given, spec = tree_flatten((tuple(args), dict(kwargs)))
        if spec != self.call:
            raise ValueError(
                f"the example call of the model has {self.call.num_leaves} argument(s), and this call has another "
                f"nesting, with {len(given)}; give the arguments as in the example call"
            )
        return [leaf for leaf, used in zip(given, self.leaves, strict=True) if used]

    def nested(self, results: Sequence[Any]) -> Any:
        """The results as the module returns them."""
        waiting = iter(results)
        total = len(results) + len(self.constants)
        flat = [self.constants[i] if i in self.constants else next(waiting) for i in range(total)]
        return tree_unflatten(flat, self.result)


def read_nesting(text: str, inputs: int, outputs: int) -> Nesting:
    """The nesting in model.json, of a model with so many inputs and outputs. Raises :class:`ModelFileError`."""
    try:
        about = json.loads(text)["python"]
        nesting = Nesting(
            treespec_loads(about["call"]), treespec_loads(about["result"]), about["leaves"], dict(about["constants"])
        )
        positions = range(outputs + len(nesting.constants))
        fits = (
            all(type(leaf) is bool for leaf in nesting.leaves)
            and len(nesting.leaves) == nesting.call.num_leaves
            and sum(nesting.leaves) == inputs
            and all(type(position) is int and position in positions for position in nesting.constants)
            and nesting.result.num_leaves == len(positions)
        )
    except Exception as error:  # of whatever kind: PyTorch's reader has many
        raise ModelFileError(
            f"model.json is damaged: its part for Python cannot be read ({type(error).__name__})"
        ) from error
    if not fits:
        raise ModelFileError("model.json is damaged: its part for Python has other inputs or outputs than the model")
    return nesting
