"""The fuzzer itself, against backends that are known to be wrong; then the backend, against the fuzzer."""

from __future__ import annotations

import random
import runpy
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis.strategies import SearchStrategy, builds, just, sampled_from
from torch._dynamo.backends.common import aot_autograd

from fpga_dynamo.errors import DeviceError, OptionError
from fpga_dynamo.lowering.ops.convolution import winograd
from fpga_dynamo.lowering.passes import pipeline
from fpga_dynamo.runtime.calls.launch import Launcher
from fpga_dynamo.testing import fuzz, graphs
from fpga_dynamo.testing.calls import call_once, check_against_eager
from fpga_dynamo.testing.fuzz import Failure, run_fuzz
from fpga_dynamo.testing.graphs import Graph
from fpga_dynamo.testing.inputs import BATCHES, input_lists
from fpga_dynamo.testing.quantised import fuzz_quantised
from fpga_dynamo.testing.reference import Mismatch, strides_that_matter
from tests.marks import EXTENDED

FEW, MANY = 8, 60
WINOGRAD_EXAMPLES = 6
HALF_EXAMPLES = 8
SEED = 20_260

aten = torch.ops.aten


def _backend(name: str, damage: Callable[[torch.fx.GraphModule], None]) -> Iterator[str]:
    def compiler(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        damage(graph)
        graph.recompile()
        return graph

    torch._dynamo.register_backend(aot_autograd(fw_compiler=compiler), name=name)
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
                    layout: dict[str, Any] = {"memory_format": torch.contiguous_format}
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
            100, seed=5, backend=backend_with_wrong_sum, out_dir=folder, max_failures=1, max_instructions=3
        )
    smallest, *others = report.failures
    # Beside it only the first one found is kept, and that only if it fails in another way.
    assert len(others) <= 1 and all(fuzz.kind(other.message) != fuzz.kind(smallest.message) for other in others)
    return smallest


def test_a_wrong_operator_is_found_and_shrunk_to_itself(wrong_sum: Failure) -> None:
    assert wrong_sum.graph is not None
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


@pytest.mark.slow
@pytest.mark.extended
def test_wrong_strides_are_found(backend_that_drops_strides: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [op for op in graphs.operators.TABLE if op.name in ("unary", "binary")]  # they keep their operands' strides
    monkeypatch.setattr(graphs.operators, "TABLE", kept)
    report = run_fuzz(200, seed=3, backend=backend_that_drops_strides, max_failures=1, max_instructions=1)

    (failure,) = report.failures
    assert "has strides" in failure.message


def test_the_same_seed_draws_the_same_models(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(fuzz, "_check", lambda graph, *_: drawn.append(graph.source()))
    for seed in (5, 5, 6):  # how many of them count may depend on rounding
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

    assert "has strides" in small.message and small.graph is not None and len(small.graph.instructions) == 1
    assert "is off by" in first.message and first.graph is large[0]


def test_a_control_gives_the_strides_that_tracing_predicts_with_dynamic_sizes_too() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x[:, :, torch.tensor([0, 0])]

    torch.compiler.reset()
    control = torch.compile(model, backend=fuzz.CONTROLS[1], dynamic=True)
    for size in (2, 3):
        x = torch.randn(1, 1, 1, size, 1).as_strided((1, 1, 1, size, 1), (1, 1, 1, 1, size))
        answer = control(x)
        assert torch.equal(answer, model(x))
        assert strides_that_matter(answer) == strides_that_matter(model(x.to("meta")))


def test_a_launch_that_fails_is_a_failure_though_eager_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise DeviceError("the card is on fire")

    monkeypatch.setattr(Launcher, "__call__", fails)
    compiled = torch.compile(torch.relu, backend="fpga", options={"partition": "greedy"})
    with fuzz._quiet_and_single_threaded(), pytest.raises(RuntimeWarning, match="the card is on fire"):
        compiled(torch.ones(3))


@pytest.mark.internal_errors
def test_an_internal_error_is_a_failure_though_eager_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise KeyError("v")

    monkeypatch.setattr(pipeline, "claim", fails)
    monkeypatch.setattr(graphs.operators, "TABLE", [op for op in graphs.operators.TABLE if op.name == "unary"])
    report = run_fuzz(3, seed=5, out_dir=tmp_path, max_failures=1, max_instructions=1)

    (failure,) = report.failures
    assert "KeyError: 'v'" in failure.message and failure.script is not None
    torch._dynamo.reset()
    with pytest.raises(Exception, match="KeyError: 'v'"):
        runpy.run_path(str(failure.script), run_name="__main__")


@pytest.mark.parametrize("fuzzed", [run_fuzz, fuzz_quantised])
@pytest.mark.parametrize(
    ("options", "message"),
    [({"nosuch": 1}, "unknown option 'nosuch'"), ({"disable": ["wonvolution"]}, "names no pattern: wonvolution")],
)
def test_a_wrong_option_is_an_error_before_any_model_is_drawn(
    fuzzed: Callable[..., Any], options: dict[str, Any], message: str
) -> None:
    drawn: list[int] = []
    with pytest.raises(OptionError, match=message):
        fuzzed(3, 0, options=options, progress=drawn.append)
    assert not drawn


def _drawn(strategy: SearchStrategy[Graph], count: int) -> list[Graph]:
    """Graphs as a campaign draws them; none is compiled."""
    found: list[Graph] = []

    @hypothesis_seed(7)
    @settings(
        max_examples=count,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def one(graph: Graph) -> None:
        found.append(graph)

    one()
    return found


def test_inputs_of_all_kinds_are_drawn() -> None:
    without_operators = builds(Graph, input_lists(), just(()), just("x0"), batches=sampled_from(BATCHES))
    kinds: Counter[str] = Counter()
    for graph in _drawn(without_operators, 300):
        make_inputs = graph.define()[1]
        for inputs in map(make_inputs, range(graph.calls)):
            for x in inputs:
                kinds["narrow"] += x.element_size() < 4
                kinds["empty"] += not x.numel()
                kinds["one element"] += x.numel() == 1
                kinds["expanded"] += 0 in x.stride() and x.numel() > 1
                kinds["offset"] += x.storage_offset() > 0
                kinds["large"] += x.is_floating_point() and bool((x.abs() > 1e20).any())
                kinds["small"] += x.is_floating_point() and bool(((x != 0) & (x.abs() < 1e-20)).any())
            storages = {x.untyped_storage().data_ptr() for x in inputs if x.numel()}
            kinds["sharing memory"] += len(storages) < sum(x.numel() > 0 for x in inputs)
            kinds["given twice"] += len({id(x) for x in inputs}) < len(inputs)
    missing = {
        *("narrow", "empty", "one element", "expanded", "offset", "large", "small", "sharing memory", "given twice")
    } - {kind for kind, count in kinds.items() if count}
    assert not missing


def test_views_that_are_read_twice_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    # One of them suits whatever inputs there are.
    kinds = ("view_read_twice", "unary", "small_integers", "filled_truth")
    monkeypatch.setattr(graphs.operators, "TABLE", [op for op in graphs.operators.TABLE if op.name in kinds])
    monkeypatch.setattr(graphs, "MODES", ({},))
    drawn = [graph for graph in _drawn(graphs.graphs(1), 40) if "view_read_twice" in graph.operators]
    assert any(sum("v0" in instruction.call for instruction in graph.instructions) >= 2 for graph in drawn)


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


@pytest.mark.slow
@pytest.mark.extended
def test_torch_itself_passes() -> None:
    report = run_fuzz(8, seed=3, backend="aot_eager")

    assert report.examples == 8
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


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_random_models_of_half_precision_are_as_good_as_eager(dtype: str, tmp_path: Path) -> None:
    report = run_fuzz(HALF_EXAMPLES, SEED, options={"partition": "greedy"}, out_dir=tmp_path, dtype=dtype)

    assert not report.failures, str(report)
    assert report.on_card > HALF_EXAMPLES // 2


def test_a_wrong_sum_of_half_precision_is_found(
    backend_with_wrong_sum: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "MODES", ({},))
    monkeypatch.setattr(graphs.operators, "TABLE", [op for op in graphs.operators.TABLE if op.name == "binary"])
    report = run_fuzz(
        100, 1, backend_with_wrong_sum, None, tmp_path, max_failures=1, max_instructions=1, dtype="bfloat16"
    )

    (failure,) = report.failures
    assert failure.script is not None
    assert "self.to(torch.bfloat16)" in failure.script.read_text()
    torch._dynamo.reset()
    with pytest.raises(AssertionError, match="is off by"):
        runpy.run_path(str(failure.script), run_name="__main__")
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.slow
@pytest.mark.extended
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
    assert failure.graph is not None and failure.graph.operators == ("conv3x3",)
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


@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=EXTENDED)])
def test_random_models_are_as_good_as_eager(examples: int, tmp_path: Path) -> None:
    # Models this small would stay on the host for their cost, and nothing be tested.
    report = run_fuzz(examples, seed=SEED, backend="fpga", options={"partition": "greedy"}, out_dir=tmp_path)

    assert not report.failures, str(report)
    assert report.examples == examples
    assert report.on_card > examples // 2, f"only {report.on_card} of {examples} models touched the card"
    assert report.from_disk > examples // 2, f"only {report.from_disk} of {examples} models came from disk"
    assert not report.fallbacks
