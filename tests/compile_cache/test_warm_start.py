"""Programs from disk: nothing is lowered a second time, and the answers are the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fpga_dynamo
from fpga_dynamo.cache import store
from fpga_dynamo.frontend import backend
from fpga_dynamo.ir.program import Program
from fpga_dynamo.runtime.calls.executor import Executor

SCRIPT = """
import sys, torch, fpga_dynamo
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).eval()
x = torch.randn(1, 3, 8, 8)
with torch.no_grad():
    result = torch.compile(model, backend="fpga", options={"xclbin": sys.argv[1], "partition": "greedy"})(x)
    torch.testing.assert_close(result, model(x), rtol=1e-4, atol=1e-5)
stats = fpga_dynamo.stats()
print(int(stats["graphs_compiled"]), int(stats["programs_loaded"]), int(stats["traces_loaded"]))
"""


def counts() -> tuple[float, float, float]:
    """Graphs lowered, programs loaded, traces loaded since the last time."""
    stats = fpga_dynamo.stats()
    fpga_dynamo.reset_stats()
    return stats["graphs_compiled"], stats["programs_loaded"], stats["traces_loaded"]


def run(model: Callable[..., Any], xclbin: str, *inputs: torch.Tensor, grad: bool = False, **options: Any) -> Any:
    """A compilation from scratch, and its answer."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="fpga", options={"xclbin": xclbin, "partition": "greedy", **options})
    with torch.set_grad_enabled(grad):
        return compiled(*inputs)


def network() -> nn.Module:
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 9, 5)
    return nn.Sequential(*layers).eval()


IMAGE = torch.randn(1, 3, 8, 8)


def test_a_second_process_compiles_nothing(xclbin: str, cache: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, xclbin]
    at_once = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert all(process.communicate(timeout=120)[0] and process.returncode == 0 for process in at_once)
    assert len(list(cache.iterdir())) == 2, "a trace and a program"
    again = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert again.stdout.split() == ["0", "1", "1"]


def test_neither_tracing_nor_lowering_is_done_twice(xclbin: str) -> None:
    model: Any = network()
    expected = run(model, xclbin, IMAGE)
    assert counts() == (1, 0, 0)
    assert torch.equal(run(model, xclbin, IMAGE), expected)
    assert counts() == (0, 1, 1)
    with torch.no_grad():
        model[0].weight.mul_(2)
        torch.testing.assert_close(run(model, xclbin, IMAGE), model(IMAGE), rtol=1e-4, atol=1e-5)
    assert counts() == (0, 1, 1), "what is packed follows the parameters, not the entry"


def test_weights_of_16_bits_come_back_as_such(xclbin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = nn.Sequential(nn.Linear(64, 32), nn.ReLU()).eval().bfloat16(), torch.randn(3, 64).bfloat16()
    expected = run(model, xclbin, x)
    programs = []

    class Noted(Executor):
        def __init__(self, program: Program, *rest: Any) -> None:
            programs.append(program)
            super().__init__(program, *rest)

    monkeypatch.setattr(backend, "Executor", Noted)
    assert torch.equal(run(model, xclbin, x), expected)
    assert counts() == (1, 1, 1)
    (task,) = programs[0].card_tasks
    assert {buffer.element.name for buffer in task.weights} == {"BF16", "F32"}, "the weight and the bias"


def test_the_cache_can_be_turned_off(xclbin: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(torch.relu, xclbin, IMAGE, cache=False)
    with monkeypatch.context() as patched:
        patched.setenv(store.LIMIT_VARIABLE, "0")
        run(torch.relu, xclbin, IMAGE)
    config: Any = torch.compiler.config
    with config.patch(force_disable_caches=True):
        run(torch.relu, xclbin, IMAGE)
    assert counts() == (3, 0, 0) and not cache.exists()


def test_a_verified_program_comes_back(xclbin: str) -> None:
    """Its launches give the value of every match, not only what leaves the graph."""
    for expected in ((1, 0, 0), (0, 1, 1)):
        run(network(), xclbin, IMAGE, verify=True)
        assert counts() == expected


def test_options_and_constants_have_entries_of_their_own(xclbin: str) -> None:
    x = torch.randn(4, 4)

    def plus(constant: float) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: (x + torch.tensor([constant, 0, 0, 0])).relu()

    without: dict[str, Any] = {"disable": ["pointwise"]}
    for function, options in ((plus(1.0), {}), (plus(2.0), {}), (plus(2.0), without)):
        assert torch.equal(run(function, xclbin, x, **options), function(x))
        assert counts() == (1, 0, 0)


def test_eager_parts_of_a_loaded_program_are_those_of_the_graph(xclbin: str) -> None:
    def mixed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.special.bessel_j0(x.relu() + 1)
        return y.t() @ y, torch.cat([y, y[:, :2] * 0.5], 1)

    x = torch.randn(8, 8)
    for expected in ((1, 0, 0), (0, 1, 1)):
        for mine, eager in zip(run(mixed, xclbin, x), mixed(x), strict=True):
            torch.testing.assert_close(mine, eager)
        assert counts() == expected


def test_what_passes_make_of_a_rebuilt_graph_has_data(xclbin: str) -> None:
    def scaled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x @ torch.full_like(x, 0.5), torch.special.bessel_j0(torch.ones_like(x))

    x = torch.randn(8, 8)
    for expected in ((1, 0, 0), (0, 1, 1)):
        torch.testing.assert_close(run(scaled, xclbin, x), scaled(x))
        assert counts() == expected


def test_a_launch_of_a_loaded_program_that_cannot_run_goes_to_eager(xclbin: str) -> None:
    def turned(x: torch.Tensor) -> torch.Tensor:
        return x.flip(0).view(4, 2)

    x = torch.arange(8)
    for _ in range(2):
        torch._dynamo.reset()
        compiled = torch.compile(turned, backend="fpga", options={"xclbin": xclbin, "partition": "greedy"})
        assert torch.equal(compiled(x), turned(x))
    large = x + (1 << 40)
    assert torch.equal(compiled(large), turned(large))
    stats = fpga_dynamo.stats()
    assert (stats["traces_loaded"], stats["pl_launches"], stats["ps_fallbacks"]) == (1, 2, 1)


def write_in_place(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x.relu()


def give_the_input_back(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.relu(), x.view(-1)


def in_half(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return x @ x.t()


@pytest.mark.parametrize("function", [write_in_place, give_the_input_back, in_half])
def test_graphs_that_need_autograds_wrappers_are_traced_each_time(function: Callable[..., Any], xclbin: str) -> None:
    x = torch.randn(4, 4)
    for expected in ((1, 0, 0), (0, 1, 0)):
        mine, theirs = x.clone(), x.clone()
        result, eager = run(function, xclbin, mine), function(theirs)
        torch.testing.assert_close((result, mine), (eager, theirs))
        if function is give_the_input_back:
            assert result[1].data_ptr() == mine.data_ptr()
        assert counts() == expected


def test_ambient_state_that_tracing_sees_is_part_of_the_name(xclbin: str) -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    x = torch.randn(1, 2, 8, 16)
    run(attend, xclbin, x)
    counts()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        run(attend, xclbin, x)
    assert counts()[2] == 0


def test_forward_and_backward_are_lowered_once(xclbin: str) -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), torch.randn(4, 8)
    gradients = []
    for expected in ((2, 0, 0), (0, 2, 0)):
        model.zero_grad()
        run(model, xclbin, x, grad=True).sum().backward()
        gradients.append([p.grad for p in model.parameters()])
        assert counts() == expected
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("damage", ["flip", "cut", "foreign"])
def test_a_damaged_entry_is_replaced(damage: str, xclbin: str, cache: Path) -> None:
    expected = run(torch.tanh, xclbin, IMAGE)
    files = {path: path.read_bytes() for path in cache.iterdir()}
    first, second = files
    for path, content in files.items():
        flipped = bytearray(content)
        flipped[len(flipped) // 2] ^= 16
        path.write_bytes(
            {"flip": bytes(flipped), "cut": content[:-9], "foreign": files[second if path == first else first]}[damage]
        )
    counts()
    with pytest.warns(RuntimeWarning, match="ignored and compiled again"):
        assert torch.equal(run(torch.tanh, xclbin, IMAGE), expected)
    assert counts() == (1, 0, 0)
    assert files == {path: path.read_bytes() for path in cache.iterdir()}


def test_well_formed_nonsense_is_replaced(xclbin: str, cache: Path) -> None:
    expected = run(torch.tanh, xclbin, IMAGE)
    for path in cache.iterdir():
        store.write(path.stem, store.serialise(path.stem, {"segments": [{"kernel": "none"}], "reasons": 3}))
    counts()
    with pytest.warns(RuntimeWarning, match="ignored and compiled again"):
        assert torch.equal(run(torch.tanh, xclbin, IMAGE), expected)
    assert counts() == (1, 0, 0)


def test_entries_travel_with_pytorchs_artifacts(xclbin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.compiler._cache.CacheArtifactManager.clear()
    expected = run(torch.sin, xclbin, IMAGE)
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None and len(saved[1].artifacts["fpga_dynamo"]) == 2
    monkeypatch.setenv("FPGA_DYNAMO_CACHE", str(tmp_path / "elsewhere"))
    counts()
    torch.compiler.load_cache_artifacts(saved[0])
    assert torch.equal(run(torch.sin, xclbin, IMAGE), expected)
    assert counts() == (0, 1, 1)


def test_explain_shows_what_lowering_makes_now(xclbin: str) -> None:
    model = network()
    run(model, xclbin, IMAGE)
    shown = fpga_dynamo.explain(model, IMAGE, options={"xclbin": xclbin})
    assert shown.graphs[0].lowering_seconds > 0
    assert counts() == (2, 0, 0)
