"""An internal error of the compiler, at whatever stage, leaves a graph to eager and saves what reproduces it."""

from __future__ import annotations

import contextlib
import copy
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed

import fpga_dynamo
from fpga_dynamo.frontend import backend
from fpga_dynamo.lowering.passes import pipeline
from fpga_dynamo.lowering.tracing import decompose
from fpga_dynamo.runtime import internal_errors
from fpga_dynamo.runtime.calls import binding, dynamic, executor
from fpga_dynamo.runtime.calls.bind import Binder
from fpga_dynamo.runtime.calls.direct import Direct
from fpga_dynamo.runtime.observe import reproduction
from fpga_dynamo.testing.cache import empty_program_cache
from tests.backend.backend_kit import GREEDY, Net, counting, image, mlp, on_card, run_python
from tests.marks import EXTENDED

pytestmark = pytest.mark.internal_errors


class Fault(Exception):
    """What a test puts into the compiler."""


def failing(*args: Any, **kwargs: Any) -> Any:
    raise Fault("a table is off by one")


@contextlib.contextmanager
def one_reproduction(directory: Path, error: str = "Fault: a table is off by one") -> Iterator[list[Path]]:
    """The block warns once of a graph that falls back to eager mode; yields a list that the saved file will be in."""
    found: list[Path] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    messages = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
    assert len(messages) == 1, messages
    assert f"falls back to eager mode, because compiling it failed with {error}" in messages[0]
    match = re.search(r"(\S+\.py) reproduces this", messages[0])
    assert match is not None, messages[0]
    found.append(Path(match[1]))
    assert found[0].parent == directory


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Where reproductions go, by option."""
    return tmp_path


PASSES = {
    "settle_strides": (backend, "settle_strides"),
    "prepare": (pipeline, "prepare"),
    "claim": (pipeline, "claim"),
    "partition": (pipeline, "partition"),
    "emit": (pipeline, "emit_segment"),
    "assemble": (pipeline, "assemble"),
    "executor": (executor, "TaskGraph"),
}


def stepped(model: Callable[..., Any], x: torch.Tensor) -> dict[str, Any]:
    """Output, gradients and buffers after a step."""
    x = x.clone().requires_grad_()
    y = model(x)
    y.square().mean().backward()
    found = {"y": y.detach(), "x": x.grad}
    if isinstance(model, nn.Module):
        found |= {f"d{name}": p.grad for name, p in model.named_parameters()} | dict(model.named_buffers())
    return {name.replace("_orig_mod.", ""): value for name, value in found.items()}


@pytest.mark.parametrize("module, name", PASSES.values(), ids=PASSES)
def test_inference_with_a_pass_that_fails(module: Any, name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Net().eval(), image()
    compiled = on_card(model, dump_dir=here)
    monkeypatch.setattr(module, name, failing)
    with torch.no_grad():
        with one_reproduction(here):
            answer = compiled(x)
        assert torch.equal(answer, model(x)) and answer.stride() == model(x).stride()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.equal(compiled(x + 1), model(x + 1))


@pytest.mark.parametrize("module, name", PASSES.values(), ids=PASSES)
@pytest.mark.parametrize("part", ["forward", "backward"])
def test_training_with_a_pass_that_fails(
    part: str, module: Any, name: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = nn.Sequential(Net(), nn.BatchNorm1d(5), nn.Dropout(0.3)).train(), image(6)
    twin = copy.deepcopy(model)
    compiled = on_card(model, dump_dir=here)
    original = getattr(module, name)

    def sometimes(*args: Any, **kwargs: Any) -> Any:
        return failing() if in_backward[0] == (part == "backward") else original(*args, **kwargs)

    in_backward = [False]
    compile_backward = backend._compile_backward

    def noting(*args: Any) -> Any:
        in_backward[0] = True
        try:
            return compile_backward(*args)
        finally:
            in_backward[0] = False

    monkeypatch.setattr(backend, "_compile_backward", noting)
    monkeypatch.setattr(module, name, sometimes)
    torch.manual_seed(3)
    with one_reproduction(here):
        mine = stepped(compiled, x)
    torch.manual_seed(3)
    theirs = stepped(twin, x)
    assert mine.keys() == theirs.keys()
    for key, value in theirs.items():
        torch.testing.assert_close(mine[key], value, rtol=1e-4, atol=1e-5, msg=key)
        assert mine[key].stride() == value.stride(), key


def test_a_decomposition_that_fails(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of Dynamo's graph is eager mode's then: writes to inputs, aliases, random numbers."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.mul_(2)
        return nn.functional.glu(x), y.view(-1), torch.rand_like(y) + y, x

    monkeypatch.setitem(decompose.DECOMPOSITIONS, torch.ops.aten.glu.default, failing)
    compiled = on_card(function, dump_dir=here)
    given = torch.randn(4, 6), torch.randn(3, 2)
    mine, theirs = copy.deepcopy(given), copy.deepcopy(given)
    torch.manual_seed(1)
    with one_reproduction(here):
        answer = compiled(*mine)
    torch.manual_seed(1)
    for one, other in zip((*answer, *mine), (*function(*theirs), *theirs), strict=True):
        assert torch.equal(one, other)
    assert answer[1].data_ptr() == mine[1].data_ptr() and answer[3] is mine[0]


# --- sizes that change ------------------------------------------------------------------------------------------------


def sizes_of(model: Callable[..., Any], compiled: Callable[..., Any], *lengths: int) -> None:
    for length in lengths:
        x = torch.randn(length, 16)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["prepare", "claim", "partition", "emit_segment", "assemble"])
def test_all_sizes_with_a_pass_that_fails(name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp(16, 32, 8).eval()
    compiled = torch.compile(model, backend="fpga", dynamic=True, options={**GREEDY, "dump_dir": str(here)})
    monkeypatch.setattr(pipeline, name, failing)
    with torch.no_grad(), one_reproduction(here):
        sizes_of(model, compiled, 4, 7, 5)


def test_sizes_that_come_later(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp(16, 32, 8).eval()
    compiled = torch.compile(model, backend="fpga", dynamic=True, options={**GREEDY, "dump_dir": str(here)})
    with torch.no_grad():
        sizes_of(model, compiled, 4, 7)
        monkeypatch.setattr(Binder, "bind", failing)
        with counting() as grown:
            sizes_of(model, compiled, 9, 4, 9)
        assert grown["pl_launches"] == 3, "lowered for these sizes only"
        monkeypatch.setattr(dynamic, "specialised", failing)
        with one_reproduction(here):
            sizes_of(model, compiled, 11, 4, 12)


def test_training_at_sizes_that_come_later(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp(16, 32, 8).train()
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="fpga", dynamic=True, options={**GREEDY, "dump_dir": str(here)})
    stepped(compiled, torch.randn(4, 16))
    model.zero_grad()
    monkeypatch.setattr(Binder, "bind", failing)
    monkeypatch.setattr(dynamic, "specialised", failing)
    x = torch.randn(9, 16)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mine = stepped(compiled, x)
    left = [w for w in caught if "falls back to eager mode" in str(w.message)]
    assert len(left) == 2, "forward and backward"
    for key, value in stepped(twin, x).items():
        torch.testing.assert_close(mine[key], value, rtol=1e-4, atol=1e-5, msg=key)


# --- at run time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [False, True], ids=["first call", "later"])
def test_weights_that_cannot_be_packed(later: bool, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Net().eval(), image()
    compiled = on_card(model, dump_dir=here)
    with torch.no_grad():
        if later:
            torch.testing.assert_close(compiled(x), model(x))
            model.conv.weight.mul_(2)
        monkeypatch.setattr(binding.Bindings, "find", failing)
        with one_reproduction(here):
            for _ in range(3):
                assert torch.equal(compiled(x), model(x))


@pytest.mark.parametrize("name", ["make", "open"])
def test_a_direct_call_that_cannot_be_made(name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = mlp(16, 32, 8).eval(), torch.randn(4, 16)
    compiled = on_card(model, dump_dir=here)
    monkeypatch.setattr(Direct, name, failing)
    with torch.no_grad(), one_reproduction(here):
        for _ in range(3):
            torch.testing.assert_close(compiled(x), model(x))


def test_programs_from_the_disk_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = mlp(16, 32, 8).eval(), torch.randn(4, 16)
    monkeypatch.setattr(reproduction, "folder", lambda name: tmp_path / name)
    with torch.no_grad(), empty_program_cache():
        torch.testing.assert_close(on_card(model)(x), model(x))
        for module, name in ((executor, "TaskGraph"), (binding.Bindings, "find")):
            torch._dynamo.reset()
            with monkeypatch.context() as patch, counting() as grown:
                patch.setattr(module, name, failing)
                with one_reproduction(tmp_path / "reproductions"):
                    assert torch.equal(on_card(model)(x), model(x))
            assert grown["traces_loaded"] == 1


# --- what stays an error ----------------------------------------------------------------------------------------------


def test_strict_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "claim", failing)
    with pytest.raises(BackendCompilerFailed, match="off by one"):
        on_card(mlp(16, 8), strict=True)(torch.randn(4, 16))


def test_a_user_s_mistake_raises() -> None:
    with pytest.raises(BackendCompilerFailed, match="names no pattern: wonvolution"):
        on_card(mlp(16, 8), disable=["wonvolution"])(torch.randn(4, 16))


def test_explain_says_what_became_of_the_graph(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "claim", failing)
    with one_reproduction(here):
        told = fpga_dynamo.explain(mlp(16, 8).eval(), torch.randn(4, 16), options={"dump_dir": str(here)})
    assert told.mac_offload == 0 and "off by one" in str(told)


# --- counted, and raised for tests -----------------------------------------------------------------------------------


def test_internal_errors_are_counted(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "claim", failing)
    with counting() as grown, one_reproduction(here), torch.no_grad():
        on_card(mlp(16, 8).eval(), dump_dir=here)(torch.randn(4, 16))
    assert grown["internal_errors"] == 1


@pytest.mark.parametrize("way", ["environment", "block"])
@pytest.mark.parametrize("name", ["claim", "executor"])
def test_internal_errors_are_raised_where_tests_want_no_fallback(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*PASSES[name], failing)
    if way == "environment":
        monkeypatch.setenv("FPGA_DYNAMO_INTERNAL_ERRORS", "raise")
    block = internal_errors.raising() if way == "block" else contextlib.nullcontext()
    with block, counting() as grown, torch.no_grad(), pytest.raises((BackendCompilerFailed, Fault), match="off by one"):
        on_card(Net().eval())(image())
    assert grown["internal_errors"] >= 1


def test_sizes_that_cannot_be_bound_are_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph is lowered for each set of sizes, which gives right answers and hides the error."""
    monkeypatch.setattr(Binder, "bind", failing)
    compiled = torch.compile(mlp(16, 32, 8).eval(), backend="fpga", dynamic=True, options=GREEDY)
    with torch.no_grad(), internal_errors.raising(), counting() as grown, pytest.raises(Fault):
        compiled(torch.randn(4, 16))
    assert grown["internal_errors"] >= 1


# --- the file ---------------------------------------------------------------------------------------------------------


TWICE = """
import runpy, sys, torch
runpy.run_path(sys.argv[1], run_name="__main__")
import fpga_dynamo.{module} as module
def failing(*args, **kwargs):
    raise RuntimeError("still here")
module.{name} = failing
try:
    runpy.run_path(sys.argv[1], run_name="__main__")
except Exception as error:
    assert "still here" in str(error), error
else:
    raise SystemExit("a fault that is there is not found")
"""
"""Runs a file with the compiler as it is, and with a fault in it."""


class Mixed(nn.Module):
    """Indices, constants small and large, infinities, a part of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 16)
        self.layer = nn.Linear(16, 16)

    def forward(self, indices: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.layer(self.table(indices)) + torch.tensor([1.5, float("inf")]).repeat(8).clamp(max=1e3)
        x = x.masked_fill(mask, float("-inf")).softmax(-1)
        return torch.where(x > 0, x, torch.arange(16.0)).to(torch.float64)


QUICK = ["lowering"]
MORE = ["backward for all sizes", "lowering for all sizes", "decomposition", "backward"]


@pytest.mark.parametrize("stage", [*QUICK, *(pytest.param(stage, marks=EXTENDED) for stage in MORE)])
def test_the_file_runs_by_itself(stage: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, dynamic = ("lowering.passes.pipeline", "claim"), "all sizes" in stage
    model: Callable[..., torch.Tensor] = Mixed().eval()
    given: tuple[torch.Tensor, ...] = ()
    if stage == "decomposition":
        patch = ("lowering.tracing.decompose", "DECOMPOSITIONS[torch.ops.aten.mv.default]")
        monkeypatch.setitem(decompose.DECOMPOSITIONS, torch.ops.aten.mv.default, failing)
        model, given = (lambda m, v: torch.relu(m @ v)), (torch.randn(5, 4), torch.randn(4))
    elif "lowering" in stage:
        monkeypatch.setattr(pipeline, "claim", failing)
        given = (torch.randint(0, 9, (3, 4)), torch.rand(3, 4, 16) > 0.8)
    else:
        monkeypatch.setattr(backend, "_compile_backward", failing)
        model, given = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2)), (image(3),)
    options: dict[str, Any] = {**GREEDY, "dump_dir": str(here), "winograd": False}
    compiled = torch.compile(model, backend="fpga", dynamic=dynamic, options=options)
    with one_reproduction(here) as found, torch.set_grad_enabled("backward" in stage):
        answer = compiled(*given)
        if "backward" in stage:
            answer.sum().backward()
    text = found[0].read_text()
    assert "Fault: a table is off by one" in text and "winograd" in text and "dump_dir" not in text
    done = run_python(TWICE.format(module=patch[0], name=patch[1]), str(found[0]))
    assert done.returncode == 0 and done.stdout.count("no error: this version compiles") == 1, done.stderr


def test_a_directory_that_cannot_be_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "file").write_text("")
    monkeypatch.setattr(pipeline, "claim", failing)
    monkeypatch.setattr(reproduction, "folder", lambda name: here / "file" / name)
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        model, x = mlp(16, 8).eval(), torch.randn(4, 16)
        assert torch.equal(on_card(model)(x), model(x))
    (message,) = (str(w.message) for w in caught if "falls back to eager mode" in str(w.message))
    path = re.search(r"(\S+\.py) reproduces this", message)
    assert path is not None and Path(path[1]).exists()
