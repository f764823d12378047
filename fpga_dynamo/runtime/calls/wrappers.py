"""What is known of AOTAutograd: when its wrappers do nothing at run time, and which graphs it does not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fpga_dynamo.ir.graph import hints
from fpga_dynamo.torch_internals.aot import OutputType, PlainTensorMeta, TracingContext, ViewAndMutationMeta
from fpga_dynamo.torch_internals.dispatch import autocast_active

_OVERLAP = "it writes to a tensor some elements of which share memory"
_NOT_TRACED = {
    "Encountered a set_ on a graph input": "it puts another tensor's memory behind an input",
    "being mutated that has internal overlap": _OVERLAP,
    "refers to a single memory location": _OVERLAP,
}
"""Of a message of AOTAutograd's a part -> what about a graph it is that it does not take."""


def why_not_traced(error: Exception) -> str | None:
    """What is beyond AOTAutograd in a graph for which it raised `error`; None if that says no such thing."""
    return next((reason for part, reason in _NOT_TRACED.items() if part in str(error)), None)


def why_not_replayed(example_inputs: Sequence[Any]) -> str | None:
    """What AOTAutograd has traced but does not do as eager at run time; None if there is no such thing.

    It computes a changed input in memory of its own and copies it back, element by element.
    """
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return None
    changed = [info.mutates_data for info in metadata.input_info]
    if len(changed) != len(example_inputs):  # some were merged: whichever it is
        changed = [any(changed)] * len(example_inputs)
    overlap = any(at and _may_overlap(given) for at, given in zip(changed, example_inputs, strict=True))
    return _OVERLAP if overlap else None


def _may_overlap(given: Any) -> bool:
    """Whether two elements may lie at one place: where a stride is not beyond all that the smaller ones reach."""
    if not isinstance(given, torch.Tensor) or given.layout is not torch.strided:
        return False
    sizes, strides = hints(given.shape), hints(given.stride())
    if sizes is None or strides is None:
        return True
    reach = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False


def do_nothing(example_inputs: Sequence[Any]) -> bool:
    """Whether calling what AOTAutograd has just made of a graph of Dynamo's is calling the compiled graph, no more.

    That is so without gradients, changed inputs, outputs that are inputs or views of them, tensor subclasses, effects,
    inputs that AOTAutograd merges, and autocast, which the wrappers switch off for what runs in eager.
    """
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return (
        metadata is not None
        and all(type(given) in (torch.Tensor, torch.nn.Parameter) for given in example_inputs)
        and nothing_to_do(metadata, len(example_inputs))
        and not any(out.requires_grad for out in metadata.output_info)
        and not autocast_active()
    )


def nothing_to_do(metadata: ViewAndMutationMeta, inputs: int) -> bool:
    """Whether AOTAutograd's record of a graph with `inputs` inputs asks for nothing before or after a call."""
    return (
        len(metadata.input_info) == inputs
        and not any(
            i.mutates_data or i.mutates_metadata or i.mutates_storage_metadata or i.mutation_inductor_storage_resize
            for i in metadata.input_info
        )
        and all(out.output_type is OutputType.non_alias for out in metadata.output_info)
        and all(type(m) is PlainTensorMeta for m in (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta))
        and not metadata.num_intermediate_bases
        and not metadata.num_graphsafe_rng_states
        and not metadata.tokens
        and not metadata.act_input_indices
        and metadata.grad_enabled_mutation is None
    )
