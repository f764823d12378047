"""Operators of eager mode as programs of one node, for the extension's cache of them (cpp/operators.hpp).

A program is lowered as a graph of ``torch.compile`` is, for tensors of the CPU: the extension hands views of the card's
memory to it, and tensors for its results. So a program whose launch fails runs by the CPU's kernel, and never comes
back here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.lowering.passes.pipeline import lower
from fpga_dynamo.lowering.patterns import TABLE
from fpga_dynamo.lowering.tracing.decompose import DECOMPOSITIONS, kept_whole
from fpga_dynamo.lowering.tracing.strides import settle_strides
from fpga_dynamo.options import Options
from fpga_dynamo.runtime.calls.direct import direct
from fpga_dynamo.runtime.calls.executor import Executor
from fpga_dynamo.runtime.calls.lifetime import Lifetime
from fpga_dynamo.runtime.cards.card import open_card
from fpga_dynamo.runtime.internal_errors import or_else
from fpga_dynamo.runtime.observe.reproduction import Case
from fpga_dynamo.torch_internals.dispatch import OpOverload, schema
from fpga_dynamo.torch_internals.tracing import FakeTensorMode, fake_of, traced

aten = torch.ops.aten

Result = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]
"""Sizes, strides and dtype of a tensor."""

_DEVICES_OWN: dict[Any, OpOverload] = {
    aten.convolution_overrideable.default: aten.convolution.default,
    aten.convolution_backward_overrideable.default: aten.convolution_backward.default,
}
"""What PyTorch calls on a device of one's own, and what the same is called on the CPU."""


@dataclass(frozen=True)
class _Call:
    """A call of an operator that returns new tensors. wanted: which of them the caller asks for."""

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    wanted: tuple[bool, ...]


class Operators:
    """Compiles operators for the cards of the device.

    options: what the cards are opened with, and `partition`: ``cost`` has operators run on the card that are estimated
    to be faster there, ``greedy`` all that a core can run.
    """

    def __init__(self, options: Options) -> None:
        self._options = replace(options, cache=False)
        self._known: frozenset[Any] = frozenset()
        self._table_version = -1

    def refusal(self, name: str, overload: str) -> str:
        """Why the card runs no call of an operator; "" if it may run some."""
        op = _overload(name, overload)
        signature = schema(op)
        if torch.Tag.nondeterministic_seeded in op.tags:
            return "it draws random numbers"
        if any(a.alias_info is not None and not a.is_out for a in signature.arguments):
            return "it changes an argument, or returns a part of one"
        if not signature.returns or any(str(result.type) != "Tensor" for result in signature.returns):
            return "it returns something else than tensors"
        made = _returning_new(op)
        if made is None:
            return "it has no variant that returns new tensors"
        return "" if made in self._anchors() else "no core computes it"

    def compile(
        self, name: str, overload: str, arguments: Sequence[Any], index: int
    ) -> tuple[Callable[..., Any] | None, list[Result | None], str]:
        """A program for calls like this one, what its results are, and ""; None, nothing, and the reason.

        arguments: those of the schema in its order, tensors of the device among them. None stands for a result that
        such a call does not have.
        """
        try:
            return self._compile(_overload(name, overload), arguments, index)
        except FpgaError as error:
            return None, [], str(error)

    def _compile(
        self, op: OpOverload, arguments: Sequence[Any], index: int
    ) -> tuple[Callable[..., Any] | None, list[Result | None], str]:
        call, given = _functional(op, arguments)
        try:
            module, inputs, wanted = _graph(call)
        except Exception as error:  # of whatever kind: the host runs the call, and raises what there is to raise
            return None, [], f"its results cannot be told from its arguments' shapes ({type(error).__name__})"
        options = replace(self._options, device=index)
        failures: list[str] = []
        compiled = or_else(lambda: _executor(module, options), failures.append, Case(module, options))
        if compiled is None:
            return None, [], failures[0]
        program = compiled.program
        if not program.card_tasks:
            why = next(iter(program.reasons.values()), "it computes nothing")
            return None, [], why.split("; options=")[0]
        if len(program.tasks) > 1:
            return None, [], "it is more than one launch, or a part of it runs on the host"
        run = direct(compiled, compiled, len(inputs))
        if run is compiled:
            if options.partition == "cost":
                return None, [], "its results are checked after a launch, which takes longer than the host"
            run = _by_the_whole_way(compiled)
        made = _kinds(program.graph.module)
        results = [next(made) if is_wanted else None for is_wanted in wanted]
        if any(_differs(tensor, kind) for tensor, kind in zip(given, results, strict=False)):
            return None, [], "the result argument has other sizes, strides or another dtype than the result"
        return run, results, ""

    def _anchors(self) -> frozenset[Any]:
        if self._table_version != TABLE.version:
            self._known = frozenset(anchor for pattern in TABLE.patterns() for anchor in pattern.anchors)
            self._known |= DECOMPOSITIONS.keys()
            self._table_version = TABLE.version
        return self._known


def _overload(name: str, overload: str) -> OpOverload:
    space, _, short = name.partition("::")
    found: OpOverload = getattr(getattr(getattr(torch.ops, space), short), overload or "default")
    return found


def _returning_new(op: OpOverload) -> OpOverload | None:
    """The variant with the same arguments and new results: `op` itself if it is that."""
    if op in _DEVICES_OWN:
        return _DEVICES_OWN[op]
    given = _plain_arguments(op)
    if len(given) == len(schema(op).arguments):
        return op
    packet = op.overloadpacket
    for name in packet.overloads():
        other: OpOverload = getattr(packet, name)
        if not schema(other).is_mutable and _plain_arguments(other) == given:
            return other
    return None


def _plain_arguments(op: OpOverload) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in schema(op).arguments if not argument.is_out]


def _functional(op: OpOverload, arguments: Sequence[Any]) -> tuple[_Call, list[torch.Tensor]]:
    """The call that returns new tensors, and the tensors that the given one writes to."""
    made = _returning_new(op)
    assert made is not None, "an operator that is compiled was not refused"
    expected = schema(op).arguments
    given = [value for argument, value in zip(expected, arguments, strict=True) if argument.is_out]
    values = [value for argument, value in zip(expected, arguments, strict=True) if not argument.is_out]
    wanted = (True,) * len(schema(made).returns)
    if made is aten.convolution_backward.default:
        weight, transposed, groups, wanted = values[2], values[6], values[8], tuple(values[9])
        values.insert(3, [weight.shape[1] * groups if transposed else weight.shape[0]])
    return _Call(made, *_written(made, values), wanted), given


def _written(op: OpOverload, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments, without those that are as their defaults say."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    expected = schema(op).arguments
    for argument, value in zip(expected, values, strict=True):
        if not argument.kwarg_only:
            args.append(value)
        elif not (argument.has_default_value() and _is(argument.default_value, value)):
            kwargs[argument.name] = value
    while args and (last := expected[len(args) - 1]).has_default_value() and _is(last.default_value, args[-1]):
        args.pop()
    return tuple(args), kwargs


def _is(default: Any, value: Any) -> bool:
    return not isinstance(value, torch.Tensor) and type(default) is type(value) and default == value


def _executor(module: GraphModule, options: Options) -> Executor | None:
    settle_strides(module)
    card = open_card(options)
    return Executor(lower(module, card.target, options), card, options, Lifetime())


def _by_the_whole_way(executor: Executor) -> Callable[..., Any]:
    """What runs a program whose results have to be looked at, such as for whether they are finite."""

    def run(*inputs: torch.Tensor, into: tuple[torch.Tensor, ...]) -> Any:
        return executor(*inputs)  # the extension copies the results

    return run


def _graph(call: _Call) -> tuple[GraphModule, list[torch.Tensor], Sequence[bool]]:
    """The call as a graph with tensors of the CPU as its inputs, these as fake ones, and which results there are."""
    inputs: list[torch.Tensor] = []
    mode = FakeTensorMode()

    def enter(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [enter(each) for each in value]
        if not isinstance(value, torch.Tensor):
            return value
        meta = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        inputs.append(fake_of(meta, mode))
        return inputs[-1]

    args, kwargs = tuple(map(enter, call.args)), {name: enter(value) for name, value in call.kwargs.items()}
    parts = _decomposed(call, args, kwargs, inputs)
    if parts is not None:
        return parts, inputs, call.wanted
    return _one_node(call, args, kwargs, inputs, mode)


def _decomposed(
    call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[torch.Tensor]
) -> GraphModule | None:
    """The operators that lowering decomposes it into; None if it does not."""
    decomposition = DECOMPOSITIONS.get(call.op)
    if decomposition is None:
        return None

    def run(*tensors: torch.Tensor) -> Any:
        of_input = dict(zip(map(id, inputs), tensors, strict=True))
        shown = [of_input.get(id(value), value) for value in args]
        made = decomposition(*shown, **{name: of_input.get(id(value), value) for name, value in kwargs.items()})
        if made is NotImplemented:
            raise _WholeError
        several = made if isinstance(made, (tuple, list)) else (made,)
        return tuple(result for result, wanted in zip(several, call.wanted, strict=True) if wanted)

    try:
        with torch.no_grad(), kept_whole():
            return traced(run, inputs)
    except _WholeError:
        return None


class _WholeError(Exception):
    """The operator stays whole for such arguments."""


def _one_node(
    call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[torch.Tensor], mode: FakeTensorMode
) -> tuple[GraphModule, list[torch.Tensor], Sequence[bool]]:
    graph = Graph()
    nodes: dict[int, Node] = {}
    for i, tensor in enumerate(inputs):
        nodes[id(tensor)] = graph.placeholder(f"x{i}")
        nodes[id(tensor)].meta["val"] = tensor

    def shown(value: Any) -> Any:
        return [shown(each) for each in value] if isinstance(value, list) else nodes.get(id(value), value)

    node = graph.call_function(call.op, tuple(map(shown, args)), {name: shown(value) for name, value in kwargs.items()})
    node.meta["val"] = _result(call.op, args, kwargs, mode)
    if len(call.wanted) == 1:
        graph.output((node,))
        return GraphModule(torch.nn.Module(), graph), inputs, call.wanted
    # By its arguments an operator may have less results than its schema says.
    wanted = [asked and made is not None for asked, made in zip(call.wanted, node.meta["val"], strict=True)]
    parts = []
    for i, made in enumerate(node.meta["val"]):
        if wanted[i]:
            parts.append(graph.call_function(operator.getitem, (node, i)))
            parts[-1].meta["val"] = made
    graph.output(tuple(parts))
    return GraphModule(torch.nn.Module(), graph), inputs, wanted


def _result(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], mode: FakeTensorMode) -> Any:
    """What the operator gives for fake tensors, by its kernel for "meta" if there is one, which is faster."""
    try:
        with torch.no_grad():
            made = op(*_on_meta(args), **_on_meta(kwargs))
    except NotImplementedError:
        with torch.no_grad():
            return op(*args, **kwargs)
    if isinstance(made, torch.Tensor):
        return fake_of(made, mode)
    return tuple(each if each is None else fake_of(each, mode) for each in made)


def _on_meta(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _on_meta(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_on_meta, value))
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def _kinds(module: GraphModule) -> Iterator[Result]:
    output = next(node for node in reversed(module.graph.nodes) if node.op == "output")
    for node in output.args[0]:
        value = node.meta["val"]
        yield tuple(value.shape), tuple(value.stride()), value.dtype


def _differs(tensor: torch.Tensor, kind: Result | None) -> bool:
    """Whether a result argument cannot get such a result; one without elements is made larger."""
    if kind is None or tensor.dtype is not kind[2]:
        return True
    return (tuple(tensor.shape), tuple(tensor.stride())) != kind[:2] and tensor.numel() > 0
