"""Images with dimensions of size 1: a convolution's answer lies as in eager, whatever came before it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule, symbolic_trace

from fpga_dynamo.ir.graph import value
from fpga_dynamo.lowering.tracing.decompose import DECOMPOSITIONS, kept_whole
from fpga_dynamo.lowering.tracing.strides import settle_strides
from fpga_dynamo.testing.reference import assert_close_to_eager, strides_that_matter
from tests.marks import EXTENDED

GREEDY: dict[str, Any] = {"partition": "greedy"}
IMAGES: dict[str, Callable[[], Tensor]] = {
    "channel": lambda: torch.randn(3, 1, 5, 6).to(memory_format=torch.channels_last),
    "pixel": lambda: torch.randn(3, 4, 1, 1).to(memory_format=torch.channels_last),
    "photo": lambda: torch.randn(5, 6, 4).permute(2, 0, 1).unsqueeze(0),
    "column": lambda: torch.randn(4, 2, 7, 5).to(memory_format=torch.channels_last)[1:, :, :, 2:3],
    "windows": lambda: torch.randn(1, 1, 8).unfold(-1, 5, 1),
}

BEFORE: dict[str, Callable[[Tensor], Tensor]] = {
    "nothing": lambda x: x,
    "relu": torch.relu,
    "relu and a number": lambda x: torch.relu(x) * 2,
    "two numbers": lambda x: (x * 2) * (x * 3),
    "itself": lambda x: x + x,
    "hardswish": F.hardswish,
    "where": lambda x: torch.where(x > 0, x, 0.5),
    "mask": lambda x: x.masked_fill(x > 0, 0.5),
    "slice": lambda x: torch.sigmoid(x[:, :1]),
    "transposition": lambda x: torch.relu(x.transpose(2, 3)),
    "turned": lambda x: torch.relu(x).permute(0, 3, 2, 1),
    "type": lambda x: (-x.double()).to(x.dtype),
    "copies": lambda x: torch.relu(x.contiguous()) + x.clone(),
    "flip": lambda x: torch.flip(x, [2]),
    "roll": lambda x: torch.roll(x, 1, 2),
    "concatenation, rolled": lambda x: torch.roll(torch.cat([torch.relu(x), x + x], 1), 1, 2),
    "shuffle": lambda x: F.channel_shuffle(x, 1),
    "batch norm": lambda x: F.batch_norm(x, x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])),
    "batch norm, turned": lambda x: BEFORE["batch norm"](BEFORE["turned"](x)),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "group norm": lambda x: F.group_norm(x, 1),
    "softmax": lambda x: x.softmax(1),
    "log softmax": lambda x: x.log_softmax(-1),
    "gate": lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True)),
    "halves": lambda x: F.glu(torch.cat([x, x, x, x], 2), 2),
    "triangle": torch.tril,
    "pooling": lambda x: F.max_pool2d(torch.relu(x), 1),
    "padding": lambda x: F.pad(torch.relu(x), (1, 0, 0, 1)),
    "nearest": lambda x: F.interpolate(x, scale_factor=2.0),
    "nearest, bounded": lambda x: F.interpolate(x, scale_factor=2.0).clamp(-1.0, 1.0),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
    "concatenation": lambda x: torch.cat([torch.relu(x), x], 1),
}


class Convolved(nn.Module):
    def __init__(self, before: Callable[[Tensor], Tensor], channels: int) -> None:
        super().__init__()
        self.before = before
        self.conv = nn.Conv2d(channels, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.before(x))


def _step(model: Any, x: Tensor) -> tuple[Tensor, ...]:
    """The answer, and the gradient of the input."""
    given = x.detach().requires_grad_()
    answer = model(given)
    return answer, *torch.autograd.grad(answer.tanh().sum(), given)


def _convolved() -> list[Any]:
    """What comes before, an image, whether sizes may change: of each of the first, `make test` takes two images."""
    cases = []
    for i, name in enumerate(BEFORE):
        for j, image in enumerate(IMAGES):
            for dynamic, words in enumerate(("fixed", "dynamic")):
                quick = (i + 2 * dynamic) % len(IMAGES) == j
                marks = () if quick else EXTENDED
                cases.append(pytest.param(name, image, bool(dynamic), id=f"{name}-{image}-{words}", marks=marks))
    return cases


@pytest.mark.parametrize(("name", "image", "dynamic"), _convolved())
def test_convolutions_answer_as_in_eager(name: str, image: str, dynamic: bool) -> None:
    x = IMAGES[image]()
    model = Convolved(BEFORE[name], BEFORE[name](x).shape[1])
    compiled = torch.compile(model, backend="fpga", dynamic=dynamic, options=GREEDY)
    exact = Convolved(BEFORE[name], model.conv.in_channels).double()
    exact.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert_close_to_eager(compiled(x), model(x), exact(x.double()))
    # The gradient of an answer comes in the strides that tracing gave it: those of other images may differ.
    if image in ("channel", "pixel"):
        assert_close_to_eager(_step(compiled, x), _step(model, x), _step(exact, x.double()))


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_whose_gradient_nobody_wants(image: str) -> None:
    torch.manual_seed(0)
    x = IMAGES[image]()
    model = nn.Sequential(nn.BatchNorm2d(x.shape[1]), nn.Conv2d(x.shape[1], 6, 1))
    exact = copy.deepcopy(model).double()
    compiled = torch.compile(model, backend="fpga", options=GREEDY)
    weights = {run: list(run.parameters()) for run in (model, exact)}
    mine, theirs, truth = (
        torch.autograd.grad(run(given).tanh().sum(), weights[of])
        for run, of, given in ((compiled, model, x), (model, model, x), (exact, exact, x.double()))
    )
    assert_close_to_eager(mine, theirs, truth)


def test_other_sizes_are_asked_anew() -> None:
    model = Convolved(lambda x: torch.relu(x) * 2, 1)
    compiled = torch.compile(model, backend="fpga", dynamic=True, options=GREEDY)
    with torch.no_grad():
        for shape in ((3, 1, 5, 6), (2, 1, 4, 9), (1, 1, 5, 6), (2, 1, 1, 7)):
            x = torch.randn(shape).to(memory_format=torch.channels_last)
            assert compiled(x).stride() == model(x).stride()


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
def test_what_data_decides_keeps_its_sizes(dynamic: bool) -> None:
    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(x) * 2
        return y[y > 0.3] * 3, torch.nonzero(_convolution(y))

    compiled = torch.compile(model, backend="fpga", dynamic=dynamic, options=GREEDY)
    x = IMAGES["channel"]()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), torch.no_grad():
        for mine, theirs in zip(compiled(x), model(x), strict=True):
            torch.testing.assert_close(mine, theirs)


def test_what_is_not_ambiguous_is_left_alone() -> None:
    module = symbolic_trace(lambda x: torch.ops.aten.relu.default(x))
    with torch._subclasses.FakeTensorMode():
        for node in module.graph.nodes:
            node.meta["val"] = torch.empty(2, 3, 4, 5, memory_format=torch.channels_last)
    before = [node.meta["val"] for node in module.graph.nodes]
    assert settle_strides(module) == set()
    assert all(node.meta["val"] is val for node, val in zip(module.graph.nodes, before, strict=True))


def _convolution(x: Tensor) -> Tensor:
    return F.conv2d(x, x.new_ones(3, x.shape[1], 1, 1))


PARTS = {**BEFORE, "convolution": _convolution, "one channel": lambda x: _convolution(x)[:, :1], "powers": torch.exp2}
del PARTS["nothing"]
LAYOUTS: dict[str, Callable[[Sequence[int]], Tensor]] = {
    "row-major": torch.randn,
    "channels-last": lambda sizes: torch.randn(sizes).to(memory_format=torch.channels_last),
    "turned": lambda sizes: torch.randn([sizes[i] for i in (2, 0, 3, 1)]).permute(1, 3, 0, 2),
    "cut": lambda sizes: LAYOUTS["channels-last"]([size + 1 for size in sizes])[1:, 1:, 1:, 1:],
}


def _told(model: Callable[[Tensor], Tensor], x: Tensor, dynamic: bool) -> tuple[list[int], Tensor]:
    """The strides that lowering would be given for the answer, and what the traced graph answers in eager."""
    told = []

    def compiler(module: GraphModule, inputs: Sequence[Any]) -> Any:
        settle_strides(module)
        fake = value(module.graph.output_node().args[0][0])  # type: ignore[index, arg-type]
        sizes, strides = ([n if isinstance(n, int) else n.node.hint for n in m] for m in (fake.shape, fake.stride()))
        told.append([stride for size, stride in zip(sizes, strides, strict=True) if size > 1])
        return make_boxed_func(module.forward)

    traced = aot_autograd(fw_compiler=compiler, decompositions=DECOMPOSITIONS)

    def backend(module: GraphModule, inputs: list[Tensor]) -> Any:
        with kept_whole():
            return traced(module, inputs)

    torch._dynamo.reset()
    answer = torch.compile(model, backend=backend, dynamic=dynamic)(x)
    return told[0], answer


PROGRAMS: dict[str, Any] = dict(
    names=st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=4),
    sizes=st.tuples(*[st.sampled_from(sizes) for sizes in ((1, 1, 2, 3), (1, 1, 2, 4), (1, 2, 3), (1, 1, 2, 5))]),
    layout=st.sampled_from(sorted(LAYOUTS)),
    dynamic=st.booleans(),
)


@settings(derandomize=True, max_examples=30, deadline=None)
@given(**PROGRAMS)
def test_any_program_s_strides_are_told(names: list[str], sizes: tuple[int, ...], layout: str, dynamic: bool) -> None:
    _strides_are_told(names, sizes, layout, dynamic)


@pytest.mark.slow
@pytest.mark.extended
@settings(derandomize=True, max_examples=300, deadline=None)
@given(**PROGRAMS)
def test_any_of_many_programs_s_strides_are_told(
    names: list[str], sizes: tuple[int, ...], layout: str, dynamic: bool
) -> None:
    _strides_are_told(names, sizes, layout, dynamic)


def _strides_are_told(names: list[str], sizes: tuple[int, ...], layout: str, dynamic: bool) -> None:
    def model(x: Tensor) -> Tensor:
        for name in names:
            x = PARTS[name](x)
        return x

    x = LAYOUTS[layout](sizes)
    with torch.no_grad():
        try:
            expected = model(x)
        except ValueError:  # a norm of one number
            reject()
        told, answer = _told(model, x, dynamic)
    # What tracing has taken for granted about strides, such as that a copy is not needed, nobody learns any more.
    assume(strides_that_matter(answer) == strides_that_matter(expected))
    assert told == strides_that_matter(expected)
