"""The fuzzer itself, against backends that are known to be wrong; then the backend, against the fuzzer."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, find, settings
from torch._dynamo.backends.common import aot_autograd

from fpga_dynamo.errors import DeviceError
from fpga_dynamo.lowering.ops import winograd
from fpga_dynamo.rounding import FLOAT32_ULP, OperatorRecorder, in_float64
from fpga_dynamo.runtime.launch import Launcher
from fpga_dynamo.testing import fuzz, graphs
from fpga_dynamo.testing.calls import Undecided, call_once, check_against_eager, reference
from fpga_dynamo.testing.fuzz import Failure, run_fuzz
from fpga_dynamo.testing.graphs import Graph
from fpga_dynamo.testing.reference import Mismatch, assert_close_to_eager

EXAMPLES = 60
WINOGRAD_EXAMPLES = 6
SEED = 20_260

aten = torch.ops.aten


def _backend(name: str, damage: Callable[[torch.fx.GraphModule], None]) -> Iterator[str]:
    def compiler(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        damage(graph)
        graph.recompile()
        return graph

    torch._dynamo.register_backend(aot_autograd(fw_compiler=compiler), name=name)  # type: ignore[arg-type]
    yield name
    torch._dynamo.backends.registry._COMPILER_FNS.pop(name)
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def backend_with_wrong_sum() -> Iterator[str]:
    def damage(graph: torch.fx.GraphModule) -> None:
        for node in graph.graph.nodes:
            if node.target is aten.add.Tensor:
                node.target = aten.sub.Tensor

    yield from _backend("wrong_sum", damage)


@pytest.fixture
def backend_that_drops_strides() -> Iterator[str]:
    def damage(graph: torch.fx.GraphModule) -> None:
        output = graph.graph.output_node()
        for node in output.all_input_nodes:
            if isinstance(node.meta.get("val"), torch.Tensor):
                with graph.graph.inserting_before(output):
                    layout = {"memory_format": torch.contiguous_format}
                    output.replace_input_with(node, graph.graph.call_function(aten.clone.default, (node,), layout))

    yield from _backend("drops_strides", damage)


@pytest.fixture(scope="module")
def wrong_sum(backend_with_wrong_sum: str, tmp_path_factory: pytest.TempPathFactory) -> Failure:
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "MODES", ({},))  # gradients are full of sums
        patch.setattr(fuzz, "CONTROLS", ())  # they would run every model of the hundreds that shrinking tries again
        kinds = ("unary", "binary", "linear", "conv2d", "reshape", "reduction")  # none in which torch itself differs
        patch.setattr(graphs.operators, "TABLE", [op for op in graphs.operators.TABLE if op.name in kinds])
        report = run_fuzz(
            100, seed=1, backend=backend_with_wrong_sum, out_dir=folder, max_failures=1, max_instructions=3
        )
    smallest, *others = report.failures
    # Beside it only the first one found is kept, and that only if it fails in another way.
    assert len(others) <= 1 and all(fuzz.kind(other.message) != fuzz.kind(smallest.message) for other in others)
    return smallest


def test_a_wrong_operator_is_found_and_shrunk_to_itself(wrong_sum: Failure) -> None:
    (instruction,) = wrong_sum.graph.instructions
    assert " + " in instruction.call
    assert "is off by" in wrong_sum.message


def test_the_script_of_a_failure_shows_it(wrong_sum: Failure) -> None:
    assert wrong_sum.script is not None
    torch._dynamo.reset()
    with pytest.raises(AssertionError, match="is off by"):
        runpy.run_path(str(wrong_sum.script), run_name="__main__")


def test_the_script_of_a_failure_passes_once_the_backend_is_right(
    wrong_sum: Failure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wrong_sum.script is not None
    mended = tmp_path / "mended.py"
    mended.write_text(wrong_sum.script.read_text().replace("wrong_sum", "aot_eager"))

    torch._dynamo.reset()
    runpy.run_path(str(mended), run_name="__main__")

    assert "as good as eager" in capsys.readouterr().out


def test_wrong_strides_are_found(backend_that_drops_strides: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [op for op in graphs.operators.TABLE if op.name in ("unary", "binary")]  # they keep their operands' strides
    monkeypatch.setattr(graphs.operators, "TABLE", kept)
    report = run_fuzz(200, seed=2, backend=backend_that_drops_strides, max_failures=1, max_instructions=1)

    (failure,) = report.failures
    assert "has strides" in failure.message


def test_the_same_seed_draws_the_same_models(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(fuzz, "_check", lambda graph, *_: drawn.append(graph.source()))
    for seed in (5, 5, 6):  # which of them count is not said: that may hang on rounding
        run_fuzz(10, seed=seed, backend="eager")

    assert drawn[:10] == drawn[10:20] != drawn[20:] and len(drawn) == 30


def test_the_first_failure_is_kept_where_a_smaller_model_fails_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    large: list[Graph] = []

    def check(graph: Graph, *_: Any) -> None:
        if len(graph.instructions) > 1:
            large.append(graph)
            raise Mismatch("call 0: the output is off by 2.5e-3 (eager by 0)")
        if large:
            raise Mismatch("output 1 has strides [1, 2], in eager [2, 1]")

    monkeypatch.setattr(fuzz, "_check", check)
    monkeypatch.setattr(fuzz, "CONTROLS", ())
    small, first = run_fuzz(20, seed=5, backend="eager", max_failures=1).failures

    assert "has strides" in small.message and len(small.graph.instructions) == 1
    assert "is off by" in first.message and first.graph is large[0]


def test_a_launch_that_fails_is_a_failure_though_eager_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise DeviceError("the card is on fire")

    monkeypatch.setattr(Launcher, "__call__", fails)
    compiled = torch.compile(torch.relu, backend="fpga", options={"partition": "greedy"})
    with fuzz._quiet_and_single_threaded(), pytest.raises(RuntimeWarning, match="the card is on fire"):
        compiled(torch.ones(3))


@pytest.mark.parametrize(
    ("message", "other"),
    [
        ("call 0: the output is off by 9.4e-06 (eager by 0)", "call 2: output 1 is off by 2 (eager by 1)"),
        ("gradient 3 is nan at (0, 1), in eager 0.0: NaN", "the gradient is 1.5 at (0,), in eager inf: NaN"),
        ("output 2 has strides [96, 1, 16], in eager [96, 6, 1]", "the output has strides [1], in eager [2]"),
    ],
)
def test_failures_that_differ_in_numbers_are_of_one_kind(message: str, other: str) -> None:
    assert fuzz.kind(message) == fuzz.kind(other)


def test_memory_that_nobody_has_written_decides_nothing() -> None:
    recorder, ones = OperatorRecorder(), torch.ones(3)
    with recorder:
        truth, number = torch.empty(3, dtype=torch.bool), torch.empty_like(ones)
        assert not recorder.decisions and not recorder.overflows
        truth.copy_(number.fill_(torch.inf) > 0)
    assert recorder.decisions and not recorder.overflows[0].any()


def test_a_decision_that_hangs_on_what_a_norm_leaves_is_undecided() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.GroupNorm(1, 1)  # without scale and shift eager leaves nothing

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            left = self.norm(3 * torch.stack([x, x], 1).unsqueeze(1))
            return (left.square() * torch.tensor([1, 2])).argmax(-1)

    with pytest.raises(Undecided, match="hangs on rounding"):
        reference(Model(), lambda: (torch.rand(200, generator=torch.Generator().manual_seed(0)),))


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x == 0,
        lambda x: x.ne(torch.zeros(x.shape)),
        torch.logical_not,
        torch.Tensor.bool,
        torch.nonzero,
        lambda x: torch.empty(x.shape, dtype=torch.bool).copy_(x),
    ],
    ids=["==", "ne", "not", "bool", "nonzero", "copy"],
)
def test_an_equality_met_by_chance_is_undecided(ask: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def check(*terms: float) -> None:
        reference(_Calls(lambda x: ask(x.sum(-1))), lambda: (torch.tensor(terms).repeat(8, 1),))

    with pytest.raises(Undecided, match="hangs on rounding"):
        check(1.0, 1e-7, -1.0)  # eager has a number left, but less than such a sum may be rounded by
    check(1e-3, 1e-3, 0.0)
    check(0.0, 0.0, 0.0)


def test_complex_numbers_are_on_no_side_of_each_other() -> None:
    x = torch.randn(4, generator=torch.manual_seed(0))
    answer = reference(_Calls(lambda x: (x == 1j, x != torch.tensor(2j))), lambda: (x,)).outcome.outputs
    assert [part.all().item() for part in answer] == [False, True]


@pytest.mark.parametrize(
    ("model", "number", "backward"),
    [
        (torch.nn.ReLU6(), torch.nan, True),
        (torch.prod, 100.0, False),
        (lambda x: torch.prod(1 / x), 100.0, False),
    ],
    ids=["NaN by its place", "overflow", "underflow"],
)
def test_what_hangs_on_eager_s_kernels_is_compared_with_nothing(
    model: Callable[..., Any], number: float, backward: bool
) -> None:
    module = model if isinstance(model, torch.nn.Module) else _Calls(model)
    with pytest.raises(Undecided, match="how they go about"):
        reference(module, lambda: (torch.full((32,), number),), backward=backward)
    reference(module, lambda: (torch.full((32,), 1.5),), backward=backward)


class _Calls(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function


def test_noise_makes_nothing_infinite_and_comes_to_complex_numbers_too() -> None:
    largest = torch.finfo(torch.float64).max
    recorder = OperatorRecorder(magnitude=1e-3)
    with recorder:
        masked = torch.full((100,), largest, dtype=torch.float64) * -1.0
        turned = torch.fft.fft(torch.ones(4, dtype=torch.float64))
    assert masked.isfinite().all() and (masked != -largest).any()
    assert turned[0] != 4 and not recorder.decisions


def test_how_inputs_are_made_decides_nothing() -> None:
    def make_inputs() -> tuple[torch.Tensor]:
        return (torch.randint(0, 5, (3,), generator=torch.Generator().manual_seed(0)),)

    answer = reference(_Calls(lambda i: (i + 1).float()), make_inputs)
    assert torch.equal(answer.outcome.outputs, make_inputs()[0] + 1.0)


def test_what_a_norm_leaves_of_equal_numbers_may_be_nothing() -> None:
    single = torch.rand(200, 1, generator=torch.manual_seed(0), dtype=torch.float64).unsqueeze(1)
    different = single * torch.tensor([1, 2, 4])
    norm = torch.nn.GroupNorm(1, 1).double()
    with OperatorRecorder(cancel=True):
        nothing, something = norm(single), norm(different)

    assert not nothing.any()
    assert torch.equal(something, norm(different))


def test_what_shares_memory_does_so_in_float64() -> None:
    x = torch.randn(2, 3)
    whole, column, alone = in_float64((x, x[:, 1], torch.randn(3)))
    column.fill_(7.0)
    assert torch.equal(whole[:, 1], column) and alone.dtype == torch.float64
    assert not (x == 7).any()


def test_eager_is_not_watched_where_it_is_compared_with() -> None:
    """A max pool along one dimension is one kernel, or, if someone looks, a max pool of an image, with its strides."""
    windows = torch.randn(2, 4).unfold(-1, 3, 1)
    model = _Calls(lambda x: F.max_pool1d(x, 1))
    expected = reference(model, lambda: (windows,)).outcome.outputs
    with torch.no_grad():
        assert expected.stride() == model(windows).stride()


def test_a_function_may_err_by_two_ulps() -> None:
    values = torch.linspace(0.5, 3.0, 1000, dtype=torch.float64)
    errors = {}
    for function in (torch.cos, torch.sqrt):
        with OperatorRecorder(FLOAT32_ULP):
            noisy = function(values)
        errors[function] = ((noisy / function(values) - 1).abs().max() / FLOAT32_ULP).item()
    assert 1.5 < errors[torch.cos] <= 2 and 0.75 < errors[torch.sqrt] <= 1


def test_a_sum_may_err_by_what_its_partial_sums_do() -> None:
    values = torch.tensor([1.0, -1.0] * 50, dtype=torch.float64)
    errors = []
    for seed in range(50):
        with OperatorRecorder(FLOAT32_ULP, seed):
            errors.append((values.sum() / values.abs().sum() / FLOAT32_ULP).abs().item())
    assert 0.5 < max(errors) <= 1


def test_a_gradient_of_a_norm_errs_in_all_elements_alike() -> None:
    x = torch.randn(1, 1, 16, 16, generator=torch.manual_seed(0), dtype=torch.float64)
    z = (x - x.mean()) / x.std(correction=0)
    zero, one = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    nothing = []
    for seed in range(20):
        recorder = OperatorRecorder(FLOAT32_ULP, seed)
        with recorder:
            gradient, *_ = torch.ops.aten.native_batch_norm_backward(
                z, z, one, None, None, zero, one, True, 0.0, [True, False, False]
            )
        nothing.append(((gradient * z).sum() / 256 / FLOAT32_ULP).abs().item())
        assert not recorder.decisions and len(recorder.overflows) == 1
    assert 0.2 < max(nothing) < 4, "noise of each element alone would leave a sixteenth of it"


@pytest.mark.parametrize("how", ["plain", "causal", "masked", "grouped"])
def test_a_gradient_of_attention_is_computed_again_in_parts(how: str) -> None:
    generator = torch.manual_seed(0)
    heads = 2 if how == "grouped" else 4
    tensors = [
        torch.randn(2, n, rows, 8, generator=generator, dtype=torch.float64, requires_grad=True)
        for n, rows in ((4, 5), (heads, 7), (heads, 7))
    ]
    options: dict[str, Any] = {
        "causal": {"is_causal": True},
        "masked": {"attn_mask": torch.randn(5, 7, generator=generator).log().nan_to_num(-torch.inf).double()},
        "grouped": {"enable_gqa": True, "scale": 0.7},
    }.get(how, {})

    def gradients(magnitude: float) -> tuple[torch.Tensor, ...]:
        with OperatorRecorder(magnitude) as recorder:
            out = F.scaled_dot_product_attention(*tensors, **options)
            found = torch.autograd.grad(out.square().sum(), tensors)
        assert not recorder.decisions
        return found

    for exact, noisy in zip(gradients(0.0), gradients(1e-9), strict=True):
        error = (noisy - exact).abs().max()
        assert 1e-10 < error / exact.abs().max() < 1e-7


def test_a_gradient_of_attention_that_is_nothing_errs_by_a_sum() -> None:
    query, key, value = torch.randn(3, 1, 1, 1, 64, generator=torch.manual_seed(0), dtype=torch.float64)
    query.requires_grad_()
    with OperatorRecorder(FLOAT32_ULP):
        out = F.scaled_dot_product_attention(query, key, value)
        (gradient,) = torch.autograd.grad(out.sum(), query)
    worst = value.abs().sum() * key.abs().max() / 8 * FLOAT32_ULP
    assert worst / 100 < gradient.abs().max() < 2 * worst


def test_a_limit_for_which_eager_has_nan_is_right() -> None:
    nan, inf = torch.tensor([torch.nan]), torch.tensor([torch.inf])
    assert_close_to_eager(inf, nan, inf.double())
    assert_close_to_eager(nan, nan, inf.double())
    for wrong in (-inf, torch.zeros(1)):
        with pytest.raises(Mismatch):
            assert_close_to_eager(wrong, nan, inf.double())


def test_torch_itself_passes() -> None:
    report = run_fuzz(40, seed=3, backend="aot_eager")

    assert report.examples == 40
    assert not report.failures, str(report)


def test_models_of_changing_batch_size_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Graph] = []
    monkeypatch.setattr(fuzz, "_check", lambda graph, *_: drawn.append(graph))
    monkeypatch.setattr(graphs, "MODES", ({},))
    run_fuzz(150, seed=4, backend="eager", max_instructions=5)

    changing = [graph for graph in drawn if len(graph.batches) > 1]
    assert len(changing) > 5
    assert {graph.dynamic for graph in drawn} == {False, True}
    for graph in changing:
        _, make_inputs = graph.define()
        shapes = {tuple(x.shape for x in make_inputs(call)) for call in range(graph.calls)}
        assert len(shapes) == len(graph.batches)


@pytest.mark.parametrize("fixed_inputs", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_gradients_that_nobody_wants_are_drawn(
    fixed_inputs: bool, frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "MODES", ({"backward": True, "train": True},))

    def wanted(graph: Graph) -> bool:
        return graph.backward and (graph.fixed_inputs, graph.frozen) == (fixed_inputs, frozen) and shows_it(graph)

    def shows_it(graph: Graph) -> bool:
        return "randn" in graph.inputs[0] and len(list(graph.define()[0]().parameters())) > 1

    graph = find(
        graphs.graphs(5),
        wanted,
        settings=settings(
            max_examples=1000,
            phases=(Phase.generate,),
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
        random=random.Random(0),
    )
    model, make_inputs = graph.define()
    instance, inputs = model(), make_inputs(0)
    call_once(instance, instance, inputs, grad=True, backward=True, fixed_inputs=fixed_inputs)
    assert any(x.requires_grad for x in inputs) != fixed_inputs
    assert all(x.requires_grad for x in instance.parameters()) != frozen


@pytest.mark.parametrize("tile_size", [2, 4])
def test_winograd_s_method_is_as_good_as_it_may_be(tile_size: int, tmp_path: Path) -> None:
    report = run_fuzz(
        WINOGRAD_EXAMPLES,
        SEED,
        options={"partition": "greedy"},
        out_dir=tmp_path,
        winograd=tile_size,
        max_instructions=6,
    )

    assert not report.failures, str(report)
    assert report.operators["conv3x3"] > WINOGRAD_EXAMPLES // 2


def test_a_wrong_transform_of_winograd_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = winograd.weight_transform
    monkeypatch.setattr(winograd, "weight_transform", lambda tile_size: right(tile_size).flip(0))
    options = {"partition": "greedy", "cache": False}
    report = run_fuzz(20, seed=5, options=options, out_dir=tmp_path, winograd=4, max_failures=1, max_instructions=1)

    (failure,) = report.failures
    assert failure.graph.operators == ("conv3x3",)
    assert failure.script is not None
    torch._dynamo.reset()
    with pytest.raises(AssertionError, match="is off by"):
        runpy.run_path(str(failure.script), run_name="__main__")


@pytest.fixture
def backend_that_is_wrong_the_second_time() -> Iterator[str]:
    compiled = 0

    def damage(graph: torch.fx.GraphModule) -> None:
        nonlocal compiled
        compiled += 1
        for node in graph.graph.nodes:
            if node.target is aten.sigmoid.default and compiled == 2:
                node.target = aten.tanh.default

    yield from _backend("wrong_the_second_time", damage)


def test_other_bits_after_a_second_compilation_are_found(backend_that_is_wrong_the_second_time: str) -> None:
    with pytest.raises(Mismatch, match="call 0, compiled again: output 0 has other bits"):
        check_against_eager(
            torch.nn.Sigmoid(),
            lambda seed: (torch.arange(4.0),),
            backend=backend_that_is_wrong_the_second_time,
            warm=True,
        )


def test_random_models_are_as_good_as_eager(tmp_path: Path) -> None:
    # Models this small would stay on the host for their cost, and nothing be tested.
    report = run_fuzz(EXAMPLES, seed=SEED, backend="fpga", options={"partition": "greedy"}, out_dir=tmp_path)

    assert not report.failures, str(report)
    assert report.examples == EXAMPLES
    assert report.on_card > EXAMPLES // 2, f"only {report.on_card} of {EXAMPLES} models touched the card"
    assert report.from_disk > EXAMPLES // 2, f"only {report.from_disk} of {EXAMPLES} models came from disk"
    assert not report.fallbacks
