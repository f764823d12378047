"""AOTAutograd: its entry, and what it has found out about the graph that is being compiled.

Whether a call of its result is a call of the graph and nothing else, AOTAutograd does not say; it follows from its
record of the graph. An unknown field of the record, or an unknown wrapper, may ask for something at run time. Then the
answer is no (:func:`differences`), and calls go through all of AOTAutograd's wrappers.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import CodeType, FunctionType, TracebackType
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd import runtime_wrappers, schemas
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler
from torch._guards import TracingContext

from fpga_dynamo.torch_internals.dynamo import DYNAMO_ERRORS

__all__ = ["SerializableAOTDispatchCompiler", "aot_autograd"]

_EMPTY: dict[str, set[str]] = {
    "ViewAndMutationMeta": {"num_intermediate_bases", "num_graphsafe_rng_states", "tokens"},
    "InputAliasInfo": {
        "mutates_data",
        "mutates_metadata",
        "mutates_storage_metadata",
        "mutation_inductor_storage_resize",
    },
    "OutputAliasInfo": set(),
    "PlainTensorMeta": set(),
}
"""Fields by record that are 0, false or empty where there is nothing to do before or after a call."""

_EMPTY_IF_PRESENT: dict[str, set[str]] = {
    "ViewAndMutationMeta": {
        "act_input_indices",  # 2.13: inputs that are waited for
        "act_input_paths",  # since 2.14
    },
    "InputAliasInfo": {"mutation_is_shallow_copy_data"},  # since 2.14
    "OutputAliasInfo": set(),
    "PlainTensorMeta": {"size_symbol_placeholders", "stride_symbol_placeholders"},  # since 2.14
}
"""Such fields that not all supported versions have."""

_NEEDED: dict[str, set[str]] = {
    "ViewAndMutationMeta": {
        "input_info",
        "output_info",
        "subclass_inp_meta",
        "subclass_fw_graph_out_meta",
        "grad_enabled_mutation",
        "static_input_indices",
    },
    "InputAliasInfo": {"requires_grad"},
    "OutputAliasInfo": {"output_type", "requires_grad"},
    "PlainTensorMeta": set(),
}
"""Other fields that are read."""

_KNOWN: dict[str, set[str]] = {
    "ViewAndMutationMeta": {
        # Of training, and of a call's errors.
        "bw_donated_idxs",
        "compile_id_str",
        "deterministic",
        "indices_of_inputs_that_requires_grad_with_mutations_in_bw",
        "num_backward_tokens",
        "num_opaque_objects_saved_for_bw",
        "num_symints_saved_for_bw",
        "num_tensors_saved_with_no_vc_check",
        "saved_tensor_is_graph_input",  # since 2.14
        "subclass_tangent_meta",
        "tangent_source_stack_traces",
        "traced_tangent_metas",
        "traced_tangents",
        "traced_tangents_descs",
        # Cases that other fields exclude: changed inputs, and graph-safe random states.
        "graphsafe_rng_device",
        "graphsafe_rng_state_index",
        "keep_input_mutations",
        "mutated_inp_stream_indices",
    },
    "InputAliasInfo": {
        "is_leaf",
        "keep_input_mutations",
        "mutations_hidden_from_autograd",
        "mutations_under_no_grad_or_inference_mode",
    },
    "OutputAliasInfo": {
        "base_idx",
        "dynamic_dims",
        "functional_tensor",
        "raw_type",
        "requires_grad_for_backward",
        "view_meta_sequence",
    },
    "PlainTensorMeta": {"memory_format", "unwrapped_idx"},
}
"""Fields that are not read: it is known that they ask for nothing at run time where the others do not."""

_WRAPPERS = {
    "AOTDedupeWrapper",
    "AOTDispatchSubclassWrapper",
    "AOTSyntheticBaseWrapper",
    "DebugAssertWrapper",
    "EffectTokensWrapper",
    "FakifiedOutWrapper",
    "FunctionalizedRngRuntimeWrapper",
    "RuntimeWrapper",
}
"""What AOTAutograd puts around a graph; what each does at run time follows from the record."""


def differences() -> Iterator[str]:
    """What of this PyTorch's record of a graph, and of its wrappers, is not known here."""
    for name in _NEEDED:
        cls: Any = getattr(schemas, name, None)
        if not is_dataclass(cls):
            yield f"there is no record AOTAutograd.{name}"
            continue
        found = {field.name for field in fields(cls)}
        needed = _NEEDED[name] | _EMPTY[name]
        new = sorted(found - needed - _EMPTY_IF_PRESENT[name] - _KNOWN[name])
        yield from (f"AOTAutograd's {name} has the new field {field}" for field in new)
        yield from (f"AOTAutograd's {name} has no field {field}" for field in sorted(needed - found))
    if not hasattr(getattr(schemas, "OutputType", None), "non_alias"):
        yield "AOTAutograd's OutputType has no member non_alias"
    wrappers = {name for name, found in vars(runtime_wrappers).items() if _is_wrapper(found)}
    yield from (f"AOTAutograd has the new wrapper {name}" for name in sorted(wrappers - _WRAPPERS))


def _is_wrapper(found: Any) -> bool:
    bases = (schemas.CompilerWrapper, schemas.InductorWrapper)
    return isinstance(found, type) and issubclass(found, bases) and found not in bases


@dataclass(frozen=True)
class GraphFacts:
    """What AOTAutograd has found out about a graph.

    static: positions of parameters and buffers.
    requires_grad: of each input, whether it records gradients.
    changed: of each input, whether a call may write to it.
    outputs: their number.
    plain: whether AOTAutograd's wrapper does nothing before or after the call of the graph.
    output_requires_grad: whether gradients are recorded for some output.
    shows_input: whether some output is an input or a view of one.
    updates: how many of the graph's results, the first ones, are the new values of changed inputs.
    """

    static: tuple[int, ...]
    requires_grad: tuple[bool, ...]
    changed: tuple[bool, ...]
    outputs: int
    output_requires_grad: bool
    plain: bool
    shows_input: bool
    updates: int

    @property
    def inputs(self) -> int:
        """How many, after those were merged that share memory and are changed."""
        return len(self.changed)


def graph_facts() -> GraphFacts | None:
    """Of the graph that this thread compiles; None before AOTAutograd has looked at it."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return None if metadata is None else facts_of(metadata)


def facts_of(metadata: Any) -> GraphFacts:
    """What a record of AOTAutograd's says. What it does not say is taken to be so."""
    inputs, outputs = metadata.input_info, metadata.output_info
    kinds = getattr(schemas, "OutputType", None)
    inputs_shown = [getattr(kinds, name, None) for name in ("alias_of_input", "is_input")]
    return GraphFacts(
        static=tuple(getattr(metadata, "static_input_indices", None) or ()),
        requires_grad=tuple(bool(getattr(info, "requires_grad", True)) for info in inputs),
        changed=tuple(bool(getattr(info, "mutates_data", True)) for info in inputs),
        outputs=len(outputs),
        output_requires_grad=any(getattr(info, "requires_grad", True) for info in outputs),
        plain=not any(differences()) and _is_plain(metadata),
        shows_input=any(getattr(info, "output_type", None) in inputs_shown for info in outputs),
        updates=getattr(metadata, "num_mutated_inp_runtime_indices", 0),
    )


def _is_plain(metadata: Any) -> bool:
    tensors: Sequence[Any] = (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta)
    return (
        all(info.output_type is schemas.OutputType.non_alias for info in metadata.output_info)
        and all(type(tensor) is schemas.PlainTensorMeta for tensor in tensors)
        and metadata.grad_enabled_mutation is None
        and _asks_nothing("ViewAndMutationMeta", [metadata])
        and _asks_nothing("InputAliasInfo", metadata.input_info)
        and _asks_nothing("OutputAliasInfo", metadata.output_info)
        and _asks_nothing("PlainTensorMeta", tensors)
    )


def _asks_nothing(name: str, records: Iterable[Any]) -> bool:
    """Whether the fields of these records that ask for something at run time ask for nothing."""
    names = _EMPTY[name] | _EMPTY_IF_PRESENT[name]
    return all(_is_nothing(getattr(record, field, None)) for record in records for field in names)


def _is_nothing(value: Any) -> bool:
    """Whether a field is 0, false or empty, or says false of each part: sizes of which none is a symbol."""
    return not value or (isinstance(value, Iterable) and all(part is False for part in value))


def saved_outputs() -> slice | None:
    """Which outputs of a training step's forward graph its backward is given; None if that is not known."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return getattr(metadata, "tensors_saved_for_backwards_slice", None)


def takes_output_strides() -> bool:
    """Whether AOTAutograd asks in which strides a forward graph returns its outputs."""
    context = TracingContext.try_get()
    return context is not None and context.output_strides is not None


def tell_output_strides(strides: Iterable[Any]) -> None:
    """Tells AOTAutograd in which strides a forward graph returns its outputs."""
    context = TracingContext.try_get()
    if context is not None and context.output_strides is not None:
        context.output_strides.extend(strides)


def forget_output_strides() -> None:
    """Takes back what :func:`tell_output_strides` has told: the graph runs in eager, as it was traced."""
    context = TracingContext.try_get()
    if context is not None and context.output_strides:
        context.output_strides.clear()


def donate_no_buffer() -> None:
    """Tells AOTAutograd that the backward graph overwrites none of the tensors that are saved for it.

    Otherwise a call of it refuses ``retain_graph=True``, if it was compiled together with the forward graph.
    """
    context = TracingContext.try_get()
    donated = None if context is None else getattr(context.fw_metadata, "bw_donated_idxs", None)
    if donated is not None:
        donated.clear()  # in place: another record of AOTAutograd's has the same list


def compiles_whole_graph() -> bool:
    """Whether this thread compiles a graph as Dynamo made it, for calls that all go the same way.

    Not where Dynamo has split it for DistributedDataParallel and wants fake results of the first call.
    """
    context = TracingContext.try_get()
    return context is not None and not context.fakify_first_call


OVERLAP = "the function writes to a tensor whose elements overlap in memory"
_NOT_TRACED = {
    "Encountered a set_ on a graph input": "the function replaces the storage of an input (set_)",
    "being mutated that has internal overlap": OVERLAP,
    "refers to a single memory location": OVERLAP,
}
"""Part of a message -> what AOTAutograd does not support in a graph."""

_PACKAGE = str(Path(__file__).resolve().parents[1])


def why_not_traced(error: Exception, decompositions: Iterable[Any], kernels: Iterable[Any] = ()) -> str | None:
    """Why AOTAutograd does not trace the graph for which it raised `error`; None if this package raised it.

    AOTAutograd calls this package's compilers and `decompositions`: the traceback of their errors names them.
    `kernels` only hand a call on to an operator, whose error is that of the call.
    """
    if isinstance(error, DYNAMO_ERRORS):
        return None
    message = str(error).strip()
    for part, reason in _NOT_TRACED.items():
        if part in message:
            return f"{reason}, which cannot be traced"
    ours = {f.__code__ for f in decompositions if isinstance(f, FunctionType) and not f.__module__.startswith("torch.")}
    passing = {f.__code__ for f in kernels if isinstance(f, FunctionType)}
    if _from_this_package(error.__traceback__, ours, passing):
        return None
    return f"AOTAutograd cannot trace it ({type(error).__name__}: {message.splitlines()[0] if message else ''})"


def _from_this_package(
    trace: TracebackType | None, functions: Collection[CodeType], passing: Collection[CodeType]
) -> bool:
    """Whether a frame of the package but those of `passing`, or of one of `functions`, lies behind one of PyTorch."""
    behind_torch = False
    for frame, _ in traceback.walk_tb(trace):
        if frame.f_code in passing:
            continue
        ours = frame.f_code in functions or frame.f_code.co_filename.startswith(_PACKAGE)
        if ours and behind_torch:
            return True
        behind_torch = behind_torch or not ours
    return False


def mark_boxed(function: Any, boxed: bool = True) -> None:
    """Says of what AOTAutograd calls or makes whether it takes its arguments as one list, which it may clear."""
    function._boxed_call = boxed


def is_ahead_of_time() -> bool:
    """Whether PyTorch is going to serialise what is being compiled."""
    config = torch._functorch.config
    return all(getattr(config, name, False) for name in ("bundled_autograd_cache", "force_autograd_cache"))


def settings_hash() -> str:
    """Of AOTAutograd's settings, by which it may make other graphs."""
    return torch._functorch.config.get_hash().hex()
