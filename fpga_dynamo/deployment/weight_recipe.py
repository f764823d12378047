"""weights.json: how weights.bin follows from a state_dict, so that new parameters need no new export.

Each pack is a packing function with settings, applied to expressions: steps of ATen operators over entries of the
state_dict. Only a process with PyTorch reads the file; the run-time library gets the packed weights.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.fx import Graph, Node

import fpga_dynamo.lowering.order  # noqa: F401  (imports the packing functions)
from fpga_dynamo.cache.checks import integer, text
from fpga_dynamo.cache.plain import SETTINGS, CorruptError, UnstorableError, from_plain, to_plain
from fpga_dynamo.cache.programs import packing_function
from fpga_dynamo.deployment.errors import ModelFileError
from fpga_dynamo.deployment.packed_weights import Layout, write_pack
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.elements import BEAT_BYTES, ELEMENTS
from fpga_dynamo.ir.graph import value
from fpga_dynamo.ir.weights import Expression, Pack
from fpga_dynamo.torch_internals.dispatch import OpOverload, schema

FILE = "weights.json"

_NAMESPACES = ("aten", "prims", "quantized_decomposed")
"""Of operators that an expression may use."""

_T = TypeVar("_T")


def recipe(layout: Layout, names: Mapping[Node, str], constants: Sequence[tuple[Node, torch.Tensor]]) -> dict[str, Any]:
    """The recipe as JSON. names: of each parameter and buffer its name in the state_dict.

    A pack of anything else stays as it was exported.
    """
    sources = list(dict.fromkeys(names.values()))
    steps: list[list[Any]] = []
    places = {node: sources.index(name) for node, name in names.items()}

    def place(node: Node) -> int:
        if node not in places:
            if node.op != "call_function":
                raise UnstorableError(f"{node}, which is no entry of the state_dict")
            for needed in node.all_input_nodes:
                place(needed)
            arguments = to_plain(tuple(node.args), place), to_plain(dict(node.kwargs), place)
            target = "getitem" if node.target is operator.getitem else str(node.target)
            steps.append([target, *arguments])
            places[node] = len(sources) + len(steps) - 1
        return places[node]

    fixed: set[str] = set()

    def stored(write: Callable[[], _T], reads: Iterable[Node]) -> _T | None:
        """What `write` gives; None if an expression has no notation. What it reads cannot be replaced then."""
        nonlocal places
        known = len(steps)
        try:
            return write()
        except UnstorableError:
            del steps[known:]
            places = {node: at for node, at in places.items() if at < len(sources) + known}
            fixed.update(names[node] for node in reads if node in names)
            return None

    def written(pack: Pack, begin: int) -> list[Any]:
        function = f"{pack.layout.__module__}.{pack.layout.__qualname__}"
        operands = [None if e is None else place(e.node) for e in pack.operands]
        return [function, to_plain(pack.params, place), operands, pack.count, pack.element.name, begin]

    packs = [stored(partial(written, pack, begin), pack.sources) for pack, begin in layout.packs]
    held = [
        stored(lambda node=node, begin=begin: [place(node), begin], _sources(node))  # type: ignore[misc]
        for (node, _), begin in zip(constants, layout.constants, strict=True)
    ]
    about = {name: (list(fake.shape), str(fake.dtype).removeprefix("torch.")) for name, fake in _fakes(names).items()}
    return {
        "sources": [[name, *about[name]] for name in sources],
        "steps": steps,
        "packs": [pack for pack in packs if pack is not None],
        "constants": [one for one in held if one is not None],
        "fixed": sorted(fixed),
    }


def _fakes(names: Mapping[Node, str]) -> dict[str, torch.Tensor]:
    return {name: value(node) for node, name in names.items()}


def _sources(node: Node) -> Iterator[Node]:
    """The placeholders that `node` depends on."""
    seen, stack = {node}, [node]
    while stack:
        current = stack.pop()
        if current.op == "placeholder":
            yield current
        new = seen.symmetric_difference(seen.union(current.all_input_nodes))
        seen |= new
        stack += new


def packed(directory: Path, state: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The content of weights.bin for other parameters of the same model.

    Raises ValueError for a state_dict without an entry of the model, or with one of another shape, and
    :class:`ModelFileError` for a directory whose recipe cannot be read or contradicts the state_dict's operators.
    """
    try:
        about = json.loads((directory / FILE).read_text(encoding="utf-8"))
        made = torch.frombuffer(bytearray((directory / "weights.bin").read_bytes()), dtype=torch.uint8)
        read = _Recipe(about, made.nbytes)
    except OSError as error:
        raise ModelFileError(f"'{error.filename}' cannot be read: {error.strerror}") from error
    except Exception as error:  # of whatever kind: CorruptError, or what Python and FX raise of other content
        raise _damaged(directory, error) from error
    if read.fixed:
        raise ValueError(
            f"entry '{read.fixed[0]}' cannot be replaced: the model computes with it and a tensor that is not in the "
            "state_dict; export the model with the new parameters"
        )
    given = {node: _entry(state, *source) for node, source in zip(read.nodes, read.sources, strict=False)}
    try:
        for pack, begin in read.packs:
            write_pack(made, pack, begin, given)
        for node, begin in read.constants:
            dense = Expression(node, "", ()).evaluate(given).contiguous().flatten().view(torch.uint8)
            made[begin : begin + dense.numel()] = dense
    except FpgaError:
        raise
    except Exception as error:  # of whatever kind: an operator or a packing function that gets other operands
        raise _damaged(directory, error) from error
    return made


def _damaged(directory: Path, error: Exception) -> ModelFileError:
    lines = str(error).strip().splitlines()
    return ModelFileError(f"'{directory / FILE}' is damaged: {type(error).__name__}: {lines[0] if lines else ''}")


class _Recipe:
    """What weights.json says, as objects. Raises :class:`CorruptError` or what Python raises for other content.

    sources: name, shape and dtype of the entries of the state_dict; `nodes` begins with a node for each.
    room: bytes of weights.bin.
    """

    def __init__(self, about: Any, room: int) -> None:
        self.sources = [
            (text(name), tuple(integer(n) for n in shape), _dtype(dtype)) for name, shape, dtype in about["sources"]
        ]
        self.fixed = [text(name) for name in about["fixed"]]
        self._graph = Graph()  # which the nodes need as long as they are evaluated
        self.nodes = [self._graph.placeholder(f"source{i}") for i in range(len(self.sources))]
        for target, args, kwargs in about["steps"]:
            settings = from_plain(args, self.nodes), from_plain(kwargs, self.nodes)
            self.nodes.append(self._graph.call_function(_operator(text(target)), *settings))
        self.packs = [self._pack(room, *pack) for pack in about["packs"]]
        self.constants = [(self._node(at), integer(begin, 0, room)) for at, begin in about["constants"]]

    def _node(self, at: Any) -> Node:
        return self.nodes[integer(at, 0, len(self.nodes) - 1)]

    def _pack(
        self, room: int, function: Any, params: Any, operands: Any, count: Any, element: Any, begin: Any
    ) -> tuple[Pack, int]:
        expressions = tuple(None if at is None else Expression(self._node(at), "", ()) for at in operands)
        settings = from_plain(params, ())
        if not isinstance(settings, (tuple, *SETTINGS)):
            raise CorruptError(f"not the settings of a pack: {params!r:.80}")
        kind = ELEMENTS[text(element)]
        pack = Pack(packing_function(text(function)), settings, expressions, integer(count, 1, room), kind)
        return pack, integer(begin, 0, room // BEAT_BYTES - pack.beats)


def _dtype(name: Any) -> torch.dtype:
    found = from_plain(["dtype", text(name)], ())
    assert isinstance(found, torch.dtype)
    return found


def _operator(name: str) -> Any:
    """Raises :class:`CorruptError` for all but operators that compute a result from their operands alone."""
    if name == "getitem":
        return operator.getitem
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    if namespace not in _NAMESPACES:
        raise CorruptError(f"operator {name:.80}")
    found = getattr(getattr(getattr(torch.ops, namespace), packet, None), overload, None)
    if not isinstance(found, OpOverload) or str(found) != name or not _only_computes(found):
        raise CorruptError(f"operator {name:.80}")
    return found


def _only_computes(target: OpOverload) -> bool:
    return not schema(target).is_mutable and target is not torch.ops.aten.from_file.default


def _entry(state: Mapping[str, torch.Tensor], name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """The entry `name` in the model's dtype, as `nn.Module.load_state_dict` copies it."""
    if name not in state:
        raise ValueError(f"the state_dict has no entry '{name}', which the model needs")
    found = state[name]
    if not isinstance(found, torch.Tensor):
        raise ValueError(f"entry '{name}' must be a tensor, not {type(found).__name__}")
    if found.layout is not torch.strided or found.is_meta:
        raise ValueError(f"entry '{name}' must be a dense tensor, not one on '{found.device}' with {found.layout}")
    if tuple(found.shape) != shape:
        raise ValueError(f"entry '{name}' must have shape {shape}, not {tuple(found.shape)}")
    return found.detach().to("cpu", dtype)
