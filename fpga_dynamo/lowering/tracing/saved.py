"""Layout of the images that a forward graph saves for its backward graph: channels-last, as the card's cores have them.

Only the backward graph sees these values, and AOTAutograd lets a compiler choose their strides (as inductor does).
Their fake tensors get the strides before lowering, because lowering lays out transferred tensors as their fake tensors.
Images that eager ops read keep their strides, except those of max-pooling. Otherwise the result of an eager op might
have other strides than the user expects, or draw random numbers in another order. An eager op may still read such an
image in the backward graph or in place of a failed launch: it is given a copy in the strides of tracing (submodule.py).
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.dtypes import FLOATS
from fpga_dynamo.ir.graph import TRACED_STRIDES, aten, is_view, value
from fpga_dynamo.ir.operators import facts
from fpga_dynamo.ir.program import HostTask, Program
from fpga_dynamo.ir.sizes.size import Size

Strides = tuple[int, ...]

_DETACH = aten.detach.default


def lay_out_images(module: GraphModule, saved: slice = slice(0)) -> dict[Node, torch.Tensor]:
    """Makes images among the outputs `saved` channels-last, and those between a max-pooling and its neighbours.

    Returns their former fake tensors, for :func:`restore`.
    """
    results = _results(module)
    others = {result for i, result in enumerate(results) if i not in range(*saved.indices(len(results)))}
    chosen = {}
    for node in (*results[saved], *_around_pools(module)):
        if not isinstance(node, Node) or node in chosen:
            continue
        shown = _aliases(_root(node))
        if others.isdisjoint(shown) and all(map(_is_movable, shown)):
            for alias in shown:
                chosen[alias] = value(alias)
                _relay(alias)
    return chosen


def save_copies(module: GraphModule, changed: Collection[int], saved: slice) -> None:
    """Saves copies of those inputs, by their positions, that the training step changes.

    A checkpointed batch norm is computed again from its running statistics: autograd would refuse to hand them over,
    because they have changed since.
    """
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    changing = {node for i, node in enumerate(placeholders) if i in changed}
    output, results = module.graph.output_node(), _results(module)
    for i in range(*saved.indices(len(results))):
        if results[i] in changing:
            with module.graph.inserting_before(output):
                copy = module.graph.call_function(aten.clone.default, (results[i],))
            copy.meta = dict(results[i].meta)
            results[i] = copy
    output.args = (tuple(results),)


def restore(former: dict[Node, torch.Tensor], nodes: Collection[Node]) -> None:
    """Gives `nodes` the layout back that tracing gave them."""
    for node in nodes:
        node.meta["val"] = former.pop(node)
        del node.meta[TRACED_STRIDES]


def misplaced(program: Program, chosen: Collection[Node]) -> set[Node]:
    """Of the images that were laid out those that eager ops make, or read in a way that their order shows in."""
    hosts = [task for task in program.tasks if isinstance(task, HostTask)]
    on_host = {node for task in hosts for node in task.nodes}
    made = {node for node in chosen if _maker(_root(node)) in on_host and not _is_pooled(_root(node))}
    read = {
        n
        for n in chosen
        if any(u in on_host and u.target is not _DETACH and not _keeps_order(u, on_host, chosen) for u in n.users)
    }
    wrong = {_root(node) for node in made | read}
    return {node for node in chosen if _root(node) in wrong}


def output_strides(module: GraphModule, chosen: Collection[Node]) -> list[Strides | None]:
    """For each of a graph's outputs the strides that were chosen for it, as AOTAutograd wants to know them."""
    return [tuple(value(node).stride()) if node in chosen else None for node in _results(module)]


def follow(module: GraphModule, inputs: Sequence[Any]) -> None:
    """Gives the placeholders of a backward graph the strides of its actual inputs."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, given in zip(placeholders, inputs, strict=True):
        if isinstance(given, torch.Tensor) and given.stride() != value(node).stride():
            node.meta[TRACED_STRIDES] = value(node).stride()
            node.meta["val"] = given


def _around_pools(module: GraphModule) -> Iterator[Node]:
    for node in module.graph.nodes:
        if images := facts(node.target).images:
            yield from (*(node.args[position] for position in images), *_images_of_pool(node))


def _results(module: GraphModule) -> list[Any]:
    results: Any = module.graph.output_node().args[0]
    return list(results)


def _is_movable(node: Node) -> bool:
    """Whether `node` is an image of several pixels and channels that is row-major and that no view shows."""
    fake = value(node)
    if node.op != "call_function" or not isinstance(fake, torch.Tensor) or fake.dim() != 4 or fake.dtype not in FLOATS:
        return False
    if any(isinstance(n, (torch.SymInt, Size)) for n in fake.shape):
        return False
    if any(is_view(shown) and shown.target is not _DETACH for shown in node.users):
        return False
    own = not is_view(node) or node.target in (operator.getitem, _DETACH)
    return own and fake.is_contiguous() and not _is_channels_last(fake)


def _root(node: Node) -> Node:
    """What `node` is a detached alias of, in the end."""
    while node.target is _DETACH:
        node = node.all_input_nodes[0]
    return node


def _aliases(root: Node) -> list[Node]:
    """`root` and what is detached of it."""
    return [root, *(alias for user in root.users if user.target is _DETACH for alias in _aliases(user))]


def _is_channels_last(fake: torch.Tensor) -> bool:
    return fake.dim() == 4 and fake.is_contiguous(memory_format=torch.channels_last)


def _relay(node: Node) -> None:
    fake = value(node)
    _, channels, height, width = fake.shape
    node.meta[TRACED_STRIDES] = fake.stride()
    node.meta["val"] = fake.as_strided(fake.shape, (channels * height * width, 1, width * channels, channels))


def _keeps_order(user: Node, on_host: Collection[Node], chosen: Collection[Node]) -> bool:
    """Whether `user` is a max-pooling, or its gradient, whose result is laid out too and only the card reads."""
    return facts(user.target).like is not None and not any(
        image not in chosen or any(reader in on_host for reader in image.users) for image in _images_of_pool(user)
    )


def _is_pooled(node: Node) -> bool:
    """Whether `node` is what eager mode's max-pooling, or its gradient, makes of a channels-last image."""
    maker = _maker(node)
    source = facts(maker.target).like
    return source is not None and _is_channels_last(value(maker.args[source]))


def _images_of_pool(pool: Node) -> list[Node]:
    """The images that a max-pooling or its gradient makes."""
    if isinstance(value(pool), torch.Tensor):
        return [pool]
    return [item for item in pool.users if item.target is operator.getitem and item.args[1] == 0]


def _maker(node: Node) -> Any:
    return node.args[0] if node.target is operator.getitem else node
