"""Models of executorch whose parts run on the card: what is delegated, its results, and what is refused.

`make executorch` installs executorch and runs these.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.utils._pytree import tree_leaves

import fpga_dynamo
from fpga_dynamo.errors import OptionError
from fpga_dynamo.testing.reference import assert_close_to_eager
from tests.deployment.deployment_kit import Encoder, Reordered, SmallCnn

pytestmark = pytest.mark.slow
exir: Any = pytest.importorskip("executorch.exir", reason="make executorch installs it")
runtime: Any = pytest.importorskip("executorch.runtime")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


class Delegated:
    """A model as executorch runs it. left: names of nodes that are not delegated."""

    def __init__(self, model: nn.Module, args: Sequence[torch.Tensor], shapes: Any = None, **options: Any) -> None:
        from fpga_dynamo.executorch import FpgaPartitioner, register_backend

        program = torch.export.export(model.eval().requires_grad_(False), tuple(args), dynamic_shapes=shapes)
        partitioner = FpgaPartitioner(options)
        edge = exir.to_edge_transform_and_lower(program, partitioner=[partitioner])
        nodes = [node for node in edge.exported_program().graph.nodes if node.op == "call_function"]
        calls = [node for node in nodes if "executorch_call_delegate" in str(node.target)]
        self.parts = len(calls)
        self.left = [node.name for node in nodes if node not in calls and node.args[0] not in calls]
        self.reasons = partitioner.reasons
        self.content: bytes = edge.to_executorch().buffer
        register_backend()
        self._program = runtime.Runtime.get().load_program(self.content)
        self._method = self._program.load_method("forward")

    def __call__(self, *args: torch.Tensor) -> list[torch.Tensor]:
        return [result.clone() for result in self._method.execute(list(args)) if result is not None]


def assert_as_good_as_eager(delegated: Delegated, model: nn.Module, *args: torch.Tensor) -> None:
    exact = [x.double() if x.is_floating_point() else x for x in args]
    with torch.no_grad():
        eager, wide = tree_leaves(model(*args)), tree_leaves(model.double()(*exact))
    model.float()
    results = delegated(*args)
    assert_close_to_eager(results, [x for x in eager if x is not None], [x for x in wide if x is not None])


def test_a_cnn_is_one_part_with_the_bits_of_torch_compile() -> None:
    model, x = SmallCnn(), torch.randn(2, 3, 8, 8)
    delegated = Delegated(model, [x])
    assert (delegated.parts, delegated.left, delegated.reasons) == (1, [], {})
    compiled = torch.compile(model, backend="fpga", options={"partition": "greedy"})
    for _ in range(2):
        x = torch.randn(2, 3, 8, 8)
        expected = compiled(x)
        for mine, theirs in zip(delegated(x), (expected["logits"], expected["turned"]), strict=True):
            assert torch.equal(mine, theirs)


def test_sizes_that_change_from_call_to_call() -> None:
    model = Encoder()
    tokens = torch.randint(50, (2, 9))
    delegated = Delegated(model, [tokens], {"tokens": {1: Dim("length", min=2, max=64)}})
    assert (delegated.parts, delegated.left) == (1, [])
    for length in (9, 5, 64):
        assert_as_good_as_eager(delegated, model, torch.randint(50, (2, length)))


class _ChannelsLast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.to(memory_format=torch.channels_last)).relu().to(memory_format=torch.contiguous_format)


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (nn.LSTM(16, 32, num_layers=2, batch_first=True), [torch.randn(2, 5, 16)]),
        (Reordered(), [torch.randn(9, 8)]),
        (_ChannelsLast(), [torch.randn(1, 3, 8, 8)]),
        (nn.MultiheadAttention(16, 4, batch_first=True), [torch.randn(2, 5, 16)] * 3),
    ],
    ids=["lstm", "other orders", "channels last", "attention"],
)
def test_other_models_are_one_part(model: nn.Module, args: list[torch.Tensor]) -> None:
    delegated = Delegated(model, args)
    assert (delegated.parts, delegated.left) == (1, [])
    assert_as_good_as_eager(delegated, model, *args)


class _Best(nn.Module):
    """An operator in the middle that the card does not have, and one on integers that it cannot compute."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.second = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, places = torch.topk(torch.relu(self.first(x)), 8)
        return torch.tanh(self.second(values)), places, count + 1


def test_what_the_card_has_not_stays_with_executorch() -> None:
    model, args = _Best(), [torch.randn(3, 16), torch.arange(5)]
    delegated = Delegated(model, args)
    assert delegated.parts == 2
    assert "sorting is not supported" in delegated.reasons["aten_topk_default"]
    assert "may overflow int32" in delegated.reasons["aten_add_tensor"]
    assert_as_good_as_eager(delegated, model, *args)


def test_the_xclbin_is_in_the_file_once() -> None:
    class Twice(_Best):
        def forward(self, x: torch.Tensor, count: torch.Tensor) -> tuple[torch.Tensor, ...]:
            values, _ = torch.topk(torch.sigmoid(torch.topk(torch.relu(self.first(x)), 8)[0]), 8)
            return (self.second(values),)

    args = [torch.randn(3, 16), torch.arange(5)]
    two, three = Delegated(_Best(), args), Delegated(Twice(), args)
    assert (two.parts, three.parts) == (2, 3)
    assert abs(len(three.content) - len(two.content)) < len(two.content) / 4


def test_buffers_that_change_belong_to_executorch() -> None:
    class Sum(nn.Module):
        total: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4, 8))
            self.layer = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(self.layer(x))
            return self.total * 2

    model, x = Sum(), torch.randn(4, 8)
    with pytest.warns(UserWarning, match="Mutation on a buffer"):
        delegated = Delegated(model, [x])
    expected = model.layer(x)
    for call in (1, 2, 3):
        torch.testing.assert_close(delegated(x)[0], 2 * call * expected)


def test_int8_has_the_bits_of_the_quantized_model() -> None:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    xnnpack: Any = pytest.importorskip("executorch.backends.xnnpack.quantizer.xnnpack_quantizer")
    layers = nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    x = torch.randn(1, 3, 16, 16)
    quantizer = xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(nn.Sequential(*layers).eval(), (x,)).module(), quantizer)
    prepared(x)
    converted = convert_pt2e(prepared)

    class Quantized(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return converted(x)

    Quantized.eval = lambda self: self  # type: ignore[method-assign]  # a graph has one mode
    delegated = Delegated(Quantized(), [x])
    assert (delegated.parts, delegated.left) == (1, [])
    assert torch.equal(delegated(x)[0], converted(x))


def test_threads_with_a_method_each() -> None:
    model, x = SmallCnn(), torch.randn(2, 3, 8, 8)
    methods = [Delegated(model, [x]) for _ in range(3)]
    expected = methods[0](x)
    wrong: list[int] = []

    def run(delegated: Delegated) -> None:
        for _ in range(20):
            wrong.extend(i for i, y in enumerate(delegated(x)) if not torch.equal(y, expected[i]))

    threads = [threading.Thread(target=run, args=(one,)) for one in methods]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_nothing_is_left_in_the_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    Delegated(SmallCnn(), [torch.randn(2, 3, 8, 8)])
    assert not list(tmp_path.iterdir())


def test_faults_at_run_time_are_errors_of_executorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    delegated = Delegated(nn.Linear(8, 4), [torch.randn(2, 8)])
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with pytest.raises(RuntimeError, match="Failed to load method"):
        runtime.Runtime.get().load_program(delegated.content).load_method("forward")
    assert "no directory can be made" in capfd.readouterr().err
    monkeypatch.delenv("TMPDIR")
    at = delegated.content.index(b'"packed_bytes": ') + len(b'"packed_bytes": ')
    damaged = delegated.content[:at] + b"9" + delegated.content[at + 1 :]
    with pytest.raises(RuntimeError, match="Failed to load method"):
        runtime.Runtime.get().load_program(damaged).load_method("forward")
    assert "model.json is damaged" in capfd.readouterr().err


def test_wrong_settings_are_refused() -> None:
    from fpga_dynamo.executorch import FpgaPartitioner

    with pytest.raises(OptionError, match="nosuch"):
        FpgaPartitioner({"nosuch": 1})
    with pytest.raises(fpga_dynamo.ExportError, match="'verify'"):
        FpgaPartitioner({"verify": True})
    with pytest.raises(fpga_dynamo.XclbinError, match=r"no\.xclbin"):
        Delegated(nn.Linear(8, 4), [torch.randn(2, 8)], xclbin=os.path.join("no", "no.xclbin"))


def test_the_backend_of_a_program_in_cpp(tmp_path: Path) -> None:
    from fpga_dynamo.executorch import write_backend

    delegated = Delegated(nn.Linear(8, 4), [torch.randn(2, 8)])
    (tmp_path / "linear.pte").write_bytes(delegated.content)
    sources = write_backend(tmp_path / "backend")
    prefix = Path(exir.__file__).parents[1]
    cmake = [sys.executable, "-m", "cmake"]
    configure = ["-S", str(sources), "-B", str(tmp_path / "build"), f"-DCMAKE_PREFIX_PATH={prefix}"]
    subprocess.run([*cmake, *configure], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*cmake, "--build", str(tmp_path / "build"), "-j2"], check=True, stdout=subprocess.DEVNULL)
    script = (
        "import ctypes, torch\nfrom executorch.runtime import Runtime\n"
        f"ctypes.CDLL({str(tmp_path / 'build' / 'libfpga_backend.so')!r})\n"
        f"method = Runtime.get().load_program({str(tmp_path / 'linear.pte')!r}).load_method('forward')\n"
        "print(tuple(method.execute([torch.ones(2, 8)])[0].shape))"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert ended.stdout.strip() == "(2, 4)"
    with pytest.raises(fpga_dynamo.ExportError, match="cannot be written"):
        write_backend(sources)
