"""What is known of AOTAutograd: when its wrappers do nothing at run time, and which graphs it does not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import GlobalStateSource
from torch._functorch._aot_autograd.schemas import OutputType, PlainTensorMeta, ViewAndMutationMeta
from torch._guards import TracingContext
from torch.autograd import forward_ad

REPLACED_INPUT = "Encountered a set_ on a graph input"
"""In AOTAutograd's error for ``x.data = y`` and its like on a graph input."""


def in_forward_ad() -> bool:
    """Whether inputs may be dual tensors, whose tangents eager's ops carry. Dynamo compiles anew when that changes."""
    context = TracingContext.try_get()
    if context is not None:
        context.guards_context.dynamo_guards.add(GlobalStateSource().make_guard(GuardBuilder.DUAL_LEVEL))
    return forward_ad._current_level >= 0


def say_unboxed(compiled: Any) -> None:
    """Marks what AOTAutograd has made as a function of several arguments: it carries the mark of the one inside, which
    takes a list, and Dynamo's minifier goes by that.
    """
    compiled._boxed_call = False


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
        and not torch._C._is_any_autocast_enabled()
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
