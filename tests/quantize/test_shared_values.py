"""Weights and values with several readers, zero channels, positions, norms in training mode, joins of unlike ranges."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

pytest.importorskip("torchao")

from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

from fpga_dynamo.errors import OptionError
from fpga_dynamo.quantize import FPGAQuantizer, compare, mixed_precision, prepare, quantize
from fpga_dynamo.torch_internals.pytree import tree_leaves

LOSS = 0.04
"""Of a few layers in 8 bits, as a share of a result's norm."""

Forward = Callable[[Any, Tensor], Any]


def few(names: Iterable[str], *first: str) -> list[Any]:
    """Names as parameters: the first ones for `make test`, the others for `make quantised`."""
    return [name if name in first else pytest.param(name, marks=pytest.mark.slow) for name in names]


def norm(channels: int, kind: type[nn.Module] = nn.BatchNorm2d) -> nn.Module:
    """A batch norm that has seen something."""
    made: Any = kind(channels)
    with torch.no_grad():
        made.weight.uniform_(0.5, 2.0), made.bias.normal_()
        made.running_mean.normal_(), made.running_var.uniform_(0.3, 3.0)
    return made


class Net(nn.Module):
    """Modules and parameters by name, and what is computed with them."""

    def __init__(self, way: Forward, **parts: Any) -> None:
        super().__init__()
        self.way = way
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Any:
        return self.way(self, x)


def images(count: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(2, 8, 6, 7, generator=generator) for _ in range(count)]


def losses(wanted: Any, found: Any) -> list[float]:
    """Distances of results, as shares of their norms."""
    pairs = zip(tree_leaves(wanted), tree_leaves(found), strict=True)
    return [float((a.double() - b.double()).norm() / a.double().norm().clamp(min=1e-30)) for a, b in pairs]


def check(model: Any, data: list[Any], loss: float = LOSS, **options: Any) -> torch.fx.GraphModule:
    """Quantises; the results are those of the model, but for the loss, which `compare` tells rightly."""
    graph = quantize(model, data, progress=False, **options)
    signal: list[float] = []
    error: list[float] = []
    with torch.no_grad():
        for item in data:
            args = item if isinstance(item, tuple) else (item,)
            wanted, found = tree_leaves(model(*args)), tree_leaves(graph(*args))
            assert max(losses(wanted, found)) < loss, losses(wanted, found)
            signal = [s + float(w.double().square().sum()) for s, w in zip(signal or [0.0] * 9, wanted, strict=False)]
            error = [
                e + float((w.double() - f.double()).square().sum())
                for e, w, f in zip(error or [0.0] * 9, wanted, found, strict=False)
            ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = compare(model, graph, data)
    by_hand = [math.inf if e == 0 else 10 * math.log10(s / e) for s, e in zip(signal, error, strict=True)]
    assert told.outputs_db == pytest.approx(by_hand, abs=1e-3)
    assert told.output_db == pytest.approx(min(by_hand), abs=1e-3)
    return graph


def tied(first: Any, second: Any, *names: str) -> dict[str, Any]:
    for name in names:
        setattr(second, name, getattr(first, name))
    return {"first": first, "second": second}


SHARED: dict[str, Callable[[], Net]] = {
    "a norm for each level": lambda: Net(
        lambda m, x: (m.n1(m.c(x)).relu(), m.n2(m.c(x[..., ::2])).relu()), c=nn.Conv2d(8, 8, 3), n1=norm(8), n2=norm(8)
    ),
    "a norm behind one of two": lambda: Net(
        lambda m, x: (m.n(m.first(x)), m.second(x)),
        **tied(nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3), "weight"), n=norm(8),
    ),
    "a shared bias": lambda: Net(
        lambda m, x: (m.n(m.first(x)), m.second(x)),
        **tied(nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 1), "bias"), n=norm(8),
    ),
    "a functional call": lambda: Net(
        lambda m, x: (m.n(F.conv2d(x, m.w)), F.conv2d(x, m.w)), w=nn.Parameter(torch.randn(8, 8, 3, 3) / 9), n=norm(8)
    ),
    "called twice": lambda: Net(
        lambda m, x: m.c(m.n(m.c(x)).relu()), c=nn.Conv2d(8, 8, 3, padding=1), n=norm(8)
    ),
    "a value that others read": lambda: Net(
        lambda m, x: (y := m.c(x)) + m.n(y), c=nn.Conv2d(8, 8, 3), n=norm(8)
    ),
    "two norms of a value": lambda: Net(
        lambda m, x: (m.n1(y := m.c(x)), m.n2(y)), c=nn.Conv2d(8, 8, 3), n1=norm(8), n2=norm(8)
    ),
    "one norm of two layers": lambda: Net(
        lambda m, x: m.n(m.c1(x)) + m.n(m.c2(x)), c1=nn.Conv2d(8, 8, 3), c2=nn.Conv2d(8, 8, 3), n=norm(8)
    ),
    "linear": lambda: Net(
        lambda m, x: (m.n(m.first(x[:, :, 0, 0])), m.second(x[:, :, 0, 0])),
        **tied(nn.Linear(8, 6), nn.Linear(8, 6), "weight", "bias"), n=norm(6, nn.BatchNorm1d),
    ),
    "signals": lambda: Net(
        lambda m, x: (m.n1(m.c(x[:, :, 0])), m.n2(m.c(x[:, :, 1]))),
        c=nn.Conv1d(8, 6, 3), n1=norm(6, nn.BatchNorm1d), n2=norm(6, nn.BatchNorm1d),
    ),
    "transposed, in groups": lambda: Net(
        lambda m, x: (m.n(m.c(x)), m.c(x)), c=nn.ConvTranspose2d(8, 6, 2, groups=2), n=norm(6)
    ),
    "parametrized": lambda: Net(
        lambda m, x: m.n(m.c(x)), c=nn.utils.parametrizations.weight_norm(nn.Conv2d(8, 8, 3)), n=norm(8)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", few(SHARED, "a norm for each level", "a norm behind one of two"))
def test_readers_of_a_shared_weight_or_value_keep_theirs(name: str) -> None:
    torch.manual_seed(0)
    check(SHARED[name]().eval(), images())


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in SHARED])
@pytest.mark.parametrize("scales", ["float", "pow2"])
def test_so_do_they_with_int32_biases(name: str, scales: Any) -> None:
    torch.manual_seed(0)
    check(SHARED[name]().eval(), images(), scales=scales, bias="int32", loss=2 * LOSS)


@pytest.mark.parametrize("name", few([*SHARED][:6]))
def test_training_in_8_bits_keeps_shared_weights_and_values(name: str) -> None:
    torch.manual_seed(0)
    model = SHARED[name]().train()
    (x,) = images(1)
    graph = torch.export.export(copy.deepcopy(model), (x,)).module()
    prepared = prepare_qat_pt2e(graph, FPGAQuantizer(training=True))
    prepared(x), model(x)  # which also moves the norms' statistics
    move_exported_model_to_eval(prepared)
    with torch.no_grad():
        assert max(losses(model.eval()(x), convert_pt2e(prepared)(x))) < LOSS


def test_prepare_is_prepare_pt2e_without_the_wrong_folds() -> None:
    torch.manual_seed(0)
    model = SHARED["a norm for each level"]().eval()
    (x,) = images(1)
    prepared = prepare(torch.export.export(model, (x,)).module(), FPGAQuantizer())
    with torch.no_grad():
        prepared(x)
        assert max(losses(model(x), convert_pt2e(prepared)(x))) < LOSS
    with pytest.warns(RuntimeWarning, match="use fpga_dynamo.quantize.prepare"):
        prepare_pt2e(torch.export.export(model, (x,)).module(), FPGAQuantizer())


def test_compare_sees_what_a_wrong_fold_does() -> None:
    torch.manual_seed(0)
    model = SHARED["a norm for each level"]().eval()
    (x,) = images(1)
    with pytest.warns(RuntimeWarning):
        prepared = prepare_pt2e(torch.export.export(model, (x,)).module(), FPGAQuantizer())
    prepared(x)
    assert compare(model, convert_pt2e(prepared), [x]).output_db < 10


def test_tied_embeddings() -> None:
    torch.manual_seed(0)
    model = Net(lambda m, ids: m.second(m.first(ids).tanh()), **tied(nn.Embedding(40, 16), nn.Linear(16, 40), "weight"))
    for bias in ("float", "int32"):
        check(model.eval(), [torch.randint(0, 40, (2, 9)) for _ in range(2)], bias=bias)


@pytest.mark.parametrize("scales", ["float", "pow2"])
@pytest.mark.parametrize("zero", few(["norm", "weights", "inputs", "small weights"], "norm"))
def test_int32_biases_of_zero_channels(scales: Any, zero: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(8, 8, 3, bias=zero == "inputs"), norm(8)).eval()
    data = images()
    with torch.no_grad():
        model[1].bias[3] = 2.0  # type: ignore[operator]
        if zero == "norm":
            model[1].weight[3] = 0  # type: ignore[operator]
        elif zero == "inputs":
            data = [torch.zeros_like(x) for x in data]
        else:
            model[0].weight[3] = 0 if zero == "weights" else 1e-9  # type: ignore[operator]
    graph = check(model, data, scales=scales, bias="int32")
    found = [n for n in graph.graph.nodes if "dequantize_per_channel" in str(n.target)]
    assert len(found) == 2, "the weight and its bias"
    if scales == "pow2":
        for node in found:
            assert torch.all(torch.frexp(getattr(graph, str(node.args[1].target)))[0] == 0.5)


def test_a_bias_that_does_not_fit_is_named_and_stays() -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 4).eval()
    with torch.no_grad():
        model.bias[2] = 1e37
    with pytest.warns(RuntimeWarning, match="the bias of linear stays in float32"):
        graph = quantize(model, [torch.zeros(3, 8)], bias="int32", progress=False)
    assert sum("dequantize_per_channel" in str(node.target) for node in graph.graph.nodes) == 1
    assert any(torch.equal(value, model.bias) for value in graph.parameters())


class Positions(nn.Module):
    """Tokens with positions counted by a mask, as in OPT."""

    def __init__(self, way: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.way, self.tokens, self.places, self.layer = way, nn.Embedding(9, 8), nn.Embedding(400, 8), nn.Linear(8, 8)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.layer(self.tokens(ids) + self.places(self.way(mask)))


PLACES: dict[str, Callable[[Tensor], Tensor]] = {
    "cumsum": lambda mask: (mask.cumsum(1) * mask).long(),
    "integers": lambda mask: mask.long().cumsum(1) * mask.long(),
    "counted by a range": lambda mask: (torch.arange(mask.shape[1]).float() * mask[0] + mask[0] * 0.25).long(),
    "argmax": lambda mask: (mask.cumsum(1)[..., None] - torch.arange(300.0)).abs().neg().argmax(-1),
    "buckets": lambda mask: torch.bucketize(mask.cumsum(1) * mask + mask, torch.arange(300.0)),
    "gathered": lambda mask: torch.arange(300).expand(2, -1).gather(1, (mask.cumsum(1) + mask).sub(2).long()),
    "compared": lambda mask: ((mask.cumsum(1) + mask)[..., None] > torch.arange(300.0)).sum(-1),
}


@pytest.mark.parametrize("name", few(PLACES, "cumsum"))
def test_positions_are_no_activations(name: str) -> None:
    torch.manual_seed(0)
    data = [(torch.randint(0, 9, (2, 300)), torch.ones(2, 300))]
    check(Positions(PLACES[name]).eval(), data)


def standardised(m: Any, x: Tensor) -> Tensor:
    flat = m.c.weight.reshape(1, 8, -1)
    weight = F.batch_norm(flat, None, None, weight=m.g, training=True).reshape_as(m.c.weight)
    return F.conv2d(x, weight, m.c.bias).relu()


IN_TRAINING: dict[str, Callable[[], nn.Module]] = {
    "weight standardisation": lambda: Net(standardised, c=nn.Conv2d(8, 8, 3), g=nn.Parameter(torch.rand(8))),
    "batch statistics": lambda: nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8, track_running_stats=False)),
    "batch statistics by hand": lambda: Net(
        lambda m, x: F.batch_norm(m.c(x), None, None, training=True), c=nn.Conv2d(8, 8, 3)
    ),
    "instance norm": lambda: nn.Sequential(nn.Conv2d(8, 8, 3), nn.InstanceNorm2d(8), nn.ReLU()),
}


@pytest.mark.parametrize("name", few(IN_TRAINING))
def test_norms_of_the_batch_stay_what_they_are(name: str) -> None:
    torch.manual_seed(0)
    check(IN_TRAINING[name]().eval(), images())


def test_dropout_that_drops_in_eval_mode_still_drops() -> None:
    torch.manual_seed(0)
    model = Net(lambda m, x: F.dropout(m.c(x).relu() + 1, 0.5, training=True), c=nn.Conv2d(8, 8, 3)).eval()
    graph = quantize(model, images(), progress=False)
    assert graph.eval() is graph and not graph.training
    (x,) = images(1)
    with torch.no_grad():
        found = graph(x)
        assert 0.3 < float((found == 0).float().mean()) < 0.7
        kept = found != 0
        wanted = 2 * (model.c(x).relu() + 1)  # type: ignore[operator]
        assert losses(wanted[kept], found[kept])[0] < LOSS
    with pytest.raises(OptionError, match="no training mode"):
        graph.train()


def boxes_and_scores(m: Any, x: Tensor) -> Tensor:
    y = m.c(x).relu()
    return torch.cat([m.b(y) * 600, m.s(y).sigmoid()], 1)


def test_parts_of_a_cat_with_unlike_ranges_keep_their_scales() -> None:
    torch.manual_seed(0)
    model = Net(boxes_and_scores, c=nn.Conv2d(8, 8, 3), b=nn.Conv2d(8, 4, 1), s=nn.Conv2d(8, 3, 1)).eval()
    data = images()
    with pytest.warns(RuntimeWarning, match=r"cat stays in float32.*\(sigmoid\).*\(mul\).*1 of 256 levels"):
        graph = quantize(model, iter(data), progress=False)
    with torch.no_grad():
        for x in data:
            assert losses(model(x)[:, 4:], graph(x)[:, 4:])[0] < LOSS
    assert compare(model, graph, data).few_levels == []
    # With the scale shared, compare names what has no levels left, and mixed_precision gets it back.
    sharing = prepare(torch.export.export(model, (data[0],)).module(), FPGAQuantizer())
    for x in data:
        sharing(x)
    with pytest.warns(RuntimeWarning, match="sigmoid uses 1 of 256 levels"):
        found = compare(model, convert_pt2e(sharing), data)
    assert [value.name for value in found.few_levels] == ["sigmoid"]


def test_a_cat_within_a_cat_is_measured_with_its_parts() -> None:
    """Each join is within the limit, but not both together."""
    torch.manual_seed(0)
    model = Net(
        lambda m, x: torch.cat([torch.cat([(y := m.c(x)).tanh(), 6 * y.sigmoid()], 1), 36 * y.sigmoid()], 1),
        c=nn.Conv2d(8, 8, 3),
    ).eval()
    check(model, images())
    with torch.no_grad():
        graph = quantize(model, images(), progress=False)
        (x,) = images(1)
        assert losses(model(x)[:, :8], graph(x)[:, :8])[0] < LOSS


def test_what_people_hold() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(8, 8, 3), norm(8), nn.Dropout(0.5), nn.Sequential(nn.ReLU(), nn.Conv2d(8, 4, 1)))
    model.train()
    model[3].eval()
    modes = [module.training for module in model.modules()]
    state = copy.deepcopy(model.state_dict())
    data = images()
    graph = quantize(model, data, progress=False)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())
    program = torch.export.export(copy.deepcopy(model).eval(), (data[0],))
    with torch.no_grad():
        wanted = graph(data[0])
        for held in (program, program.module()):
            again = quantize(held, data, progress=False)
            assert torch.equal(again(data[0]), wanted)
            assert compare(held, again, data).output_db == pytest.approx(compare(model, graph, data).output_db)
    chosen = mixed_precision(program, data, lambda candidate: 1.0, 0.0, progress=False)
    assert chosen.in_float == []
    with pytest.raises(OptionError, match="already quantized"):
        quantize(graph, data, progress=False)
    with pytest.raises(OptionError, match="got function"):
        quantize(lambda x: x, data, progress=False)  # type: ignore[arg-type]


class Counter(nn.Module):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)  # type: ignore[operator]
        return self.layer(x)


def test_buffers_that_a_call_writes_are_the_models_own() -> None:
    model = Counter().eval()
    graph = quantize(model, [torch.randn(2, 4)] * 2, progress=False)
    compare(model, graph, [torch.randn(2, 4)])
    assert float(model.calls) == 0  # type: ignore[arg-type]


def drawn(seed: int) -> tuple[Net, list[Tensor]]:
    """Layers, some with a weight of an earlier one, with zero channels and gains far apart, norms of some of their
    values, and sums, joins and second readers of what there is."""
    generator = torch.Generator().manual_seed(seed)

    def pick(count: int) -> int:
        return int(torch.randint(count, (1,), generator=generator))

    torch.manual_seed(seed)
    layers = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1, bias=pick(2) == 0) for _ in range(4))
    norms = nn.ModuleList(norm(8) for _ in range(4))
    with torch.no_grad():
        for i, layer in enumerate(layers):
            if i and pick(3) == 0:
                layer.weight = layers[pick(i)].weight
            elif pick(3) == 0:
                layer.weight[pick(8)] = 0  # type: ignore[operator]
        for each in norms:
            if pick(3) == 0:
                each.weight[pick(8)] = 0  # type: ignore[operator]
    steps = [(pick(5), pick(9), pick(9), pick(2), 4.0 ** (pick(7) - 3)) for _ in range(5)]

    def way(m: Any, x: Tensor) -> list[Tensor]:
        values, results = [x], []
        for kind, a, b, limit, gain in steps:
            left, right = values[a % len(values)], values[b % len(values)]
            value = m.layers[b % 4](left)
            if kind == 1:
                value = m.norms[a % 4](value)
            elif kind == 2:
                value = m.norms[a % 4](value) + value
            elif kind == 3:
                value = left + right
            elif kind == 4:
                joined = torch.cat([left, value.sigmoid() * gain], 1)
                results += [joined[:, :8], joined[:, 8:]]
            values.append(value.relu() if limit else value)
        return [*results, values[-1]]

    return Net(way, layers=layers, norms=norms).eval(), images()


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow) for seed in range(20)])
def test_drawn_graphs(seed: int) -> None:
    model, data = drawn(seed)
    options: list[dict[str, Any]] = [{}, {"bias": "int32"}, {"scales": "pow2", "bias": "int32"}]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* stays? in float32")
        check(model, data, loss=0.15, **options[seed % 3])
