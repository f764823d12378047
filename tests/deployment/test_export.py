"""Models as directories: the same bits as torch.compile, and one sentence for what cannot be exported."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import fpga_dynamo
from tests.deployment.deployment_kit import Encoder, Reordered, SmallCnn, assert_same, exported, poison_new_tensors


def test_cnn_has_the_bits_of_torch_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = SmallCnn().eval(), torch.randn(2, 3, 8, 8)
    loaded = exported(model, tmp_path / "cnn", x)
    poison_new_tensors(monkeypatch)
    assert loaded.inputs == [("x", torch.float32, (2, 3, 8, 8))]
    assert [shape for _, _, shape in loaded.outputs] == [(2, 5), (8, 2)]
    assert_same(loaded, model, x)
    assert_same(loaded, model, x.to(memory_format=torch.channels_last))
    assert_same(loaded, model, torch.randn(3, 2, 8, 8).transpose(0, 1))
    assert loaded(x)["nothing"] is None


def test_sequence_length_may_change(tmp_path: Path) -> None:
    model = Encoder().eval()
    loaded = exported(
        model, tmp_path / "encoder", torch.randint(50, (2, 9)), dynamic_shapes={"tokens": {1: Dim("length", max=64)}}
    )
    assert loaded.inputs[0][2] == (2, -1)
    compiled = torch.compile(model, backend="fpga", options={"partition": "greedy"})
    for length in (9, 5, 33, 64, 9):
        tokens = torch.randint(50, (2, length))
        torch._dynamo.mark_dynamic(tokens, 1)
        assert_same(loaded, model, tokens, compiled=compiled)
    with pytest.raises(ValueError, match=r"tokens.shape\[1\] - 2 >= 0, which does not hold"):
        loaded(torch.randint(50, (2, 1)))
    with pytest.raises(ValueError, match=r"'tokens' must have shape \(2, any\), not \(3, 9\)"):
        loaded(torch.randint(50, (3, 9)))


def test_two_sizes_that_must_agree(tmp_path: Path) -> None:
    class Sum(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.relu(a + b)

    rows = Dim("rows", min=2, max=100)
    args = torch.randn(3, 4), torch.randn(3, 4)
    model = Sum().eval()
    loaded = exported(model, tmp_path / "sum", *args, dynamic_shapes=({0: rows}, {0: rows}))
    a = torch.randn(7, 4)
    assert torch.equal(loaded(a, a), torch.relu(a + a))
    with pytest.raises(ValueError, match="'b' must have shape"):
        loaded(a, torch.randn(6, 4))


def test_a_program_of_torch_export_and_its_file(tmp_path: Path) -> None:
    model, x = SmallCnn().eval(), torch.randn(1, 3, 8, 8)
    program = torch.export.export(model, (x,))
    torch.export.save(program, tmp_path / "model.pt2")
    for number, source in enumerate((program, tmp_path / "model.pt2", str(tmp_path / "model.pt2"))):
        loaded = fpga_dynamo.load(fpga_dynamo.export(source, directory=tmp_path / str(number)))
        assert_same(loaded, model, x)


def test_save_is_export_of_a_program(tmp_path: Path) -> None:
    model, image = SmallCnn().eval(), torch.randn(2, 3, 16, 16)
    program = torch.export.export(model, (image,))
    loaded = fpga_dynamo.load(fpga_dynamo.save(program, tmp_path / "saved"))
    assert_same(loaded, model, image)
    with pytest.raises(fpga_dynamo.ExportError, match=r"save accepts a program of torch\.export, not SmallCnn; "):
        fpga_dynamo.save(model, tmp_path / "other")  # type: ignore[arg-type]


def test_dtype_converts_parameters_and_inputs(tmp_path: Path) -> None:
    model, x = SmallCnn().eval(), torch.randn(1, 3, 8, 8)
    before = copy.deepcopy(model.state_dict())
    loaded = exported(model, tmp_path / "half", x, dtype="bfloat16")
    assert loaded.inputs[0][1] is torch.bfloat16
    assert_same(loaded, copy.deepcopy(model).bfloat16(), x.bfloat16())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_views_and_parameters_as_results(tmp_path: Path) -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6))
            self.register_buffer("table", torch.arange(6))

        def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[Any, ...]:
            y = torch.tanh(x @ self.weight)
            return y.t(), y[1:, ::2], self.weight.t(), self.table, x, i[:, 1], (y, i > 2)

    model = Views().eval()
    args = torch.randn(3, 4), torch.arange(6).reshape(2, 3)
    loaded = exported(model, tmp_path / "views", *args)
    with torch.no_grad():
        expected = model(*args)
    answer = loaded(*args)
    for mine, theirs in zip(
        torch.utils._pytree.tree_leaves(answer), torch.utils._pytree.tree_leaves(expected), strict=True
    ):
        assert mine.dtype is theirs.dtype
        torch.testing.assert_close(mine, theirs)
    with pytest.raises(ValueError, match="int64 input has a value that int32"):
        loaded(args[0], args[1] + 2**40)


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_in_an_order_that_no_strides_describe(tmp_path: Path, dynamic: bool) -> None:
    rows = {"x": {0: Dim("rows", min=2, max=64)}} if dynamic else None
    model = Reordered().eval()
    loaded = exported(model, tmp_path / "reordered", torch.randn(9, 8), dynamic_shapes=rows)
    for count in (9, 5, 64) if dynamic else (9,):
        x = torch.randn(count, 8)
        with torch.no_grad():
            expected = model(x)
        for mine, theirs in zip(loaded(x), expected, strict=True):
            assert mine.stride() == theirs.stride()
            torch.testing.assert_close(mine, theirs)


def test_eight_threads(tmp_path: Path) -> None:
    model = SmallCnn().eval()
    inputs = [torch.randn(2, 3, 8, 8) for _ in range(8)]
    loaded = exported(model, tmp_path / "cnn", inputs[0])
    expected = [loaded(x)["logits"] for x in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(30):
            if not torch.equal(loaded(inputs[number])["logits"], expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_weights_of_another_export(tmp_path: Path) -> None:
    x = torch.randn(1, 3, 8, 8)
    first, second = SmallCnn().eval(), SmallCnn().eval()
    loaded = exported(first, tmp_path / "first", x)
    fpga_dynamo.export(second, (x,), tmp_path / "second")
    loaded.load_weights(tmp_path / "second" / "weights.bin")
    assert_same(loaded, second, x)
    (tmp_path / "short").write_bytes(b"x" * 64)
    with pytest.raises(ValueError, match="64 bytes instead of"):
        loaded.load_weights(tmp_path / "short")


@pytest.mark.parametrize("make", [SmallCnn, Encoder])
def test_state_dict_of_another_model(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    x = torch.randn(1, 3, 8, 8) if make is SmallCnn else torch.randint(50, (2, 9))
    first, second = make().eval(), make().eval()
    loaded = exported(first, tmp_path / "first", x)
    fpga_dynamo.export(second, (x,), tmp_path / "second")
    loaded.pack_weights(second.state_dict(), tmp_path / "packed.bin")
    assert (tmp_path / "packed.bin").read_bytes() == (tmp_path / "second" / "weights.bin").read_bytes()
    loaded.load_state_dict(second.state_dict())
    assert_same(loaded, second, x)
    state = dict(first.state_dict())
    name = next(iter(state))
    with pytest.raises(ValueError, match=f"'{name}' must have shape"):
        loaded.load_state_dict({**state, name: torch.zeros(7)})
    del state[name]
    with pytest.raises(ValueError, match=f"no entry '{name}'"):
        loaded.load_state_dict(state)
    (tmp_path / "first" / "weights.json").write_text("{}")
    with pytest.raises(fpga_dynamo.ModelFileError, match=r"weights\.json' is damaged"):
        loaded.load_state_dict(second.state_dict())


class _Sorted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sort(torch.relu(x)).values * 2


class _Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls: torch.Tensor
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.relu(x) + self.calls


class _Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (lambda: _Sorted().eval(), r"1 node\(s\) would run in eager mode:\n  sort .*: no pattern matches aten.sort"),
        (lambda: _Counts().eval(), "the model changes b_calls in each call"),
        (lambda: _Branches().eval(), "torch.export cannot export the model"),
        (lambda: SmallCnn(), "training mode"),
        (lambda: "no such file.pt2", "cannot be loaded as a program of torch.export"),
        (lambda: 7, "unsupported model int"),
    ],
)
def test_refused_models(model: Callable[[], Any], sentence: str, tmp_path: Path) -> None:
    x = torch.randn(1, 3, 8, 8)
    with pytest.raises(fpga_dynamo.ExportError, match=sentence):
        fpga_dynamo.export(model(), (x,), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_refused_directories_and_settings(tmp_path: Path) -> None:
    model, x = nn.Linear(4, 4).eval(), torch.randn(2, 4)
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("")
    for name, sentence in (("file", "is a file"), ("full", "other files"), ("a/b", "make it first")):
        with pytest.raises(fpga_dynamo.ExportError, match=sentence):
            fpga_dynamo.export(model, (x,), tmp_path / name)
    with pytest.raises(fpga_dynamo.ExportError, match="dtype must be one of float32, float16, bfloat16, not 'int8'"):
        fpga_dynamo.export(model, (x,), tmp_path / "model", dtype="int8")
    with pytest.raises(fpga_dynamo.ExportError, match="'verify'"):
        fpga_dynamo.export(model, (x,), tmp_path / "model", options={"verify": True})
    first = fpga_dynamo.export(model, (x,), tmp_path / "model")
    assert fpga_dynamo.export(model, (x,), tmp_path / "model") == first, "an earlier export is replaced"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full", "model"]


def test_wrong_arguments_of_a_call(tmp_path: Path) -> None:
    loaded = exported(nn.Linear(4, 3).eval(), tmp_path / "linear", torch.randn(2, 4))
    for args, sentence in (
        ((torch.randn(2, 5),), r"must have shape \(2, 4\), not \(2, 5\)"),
        ((torch.randn(4),), "must have 2 dimensions, not 1"),
        ((torch.zeros(2, 4, dtype=torch.int64),), "must be float32, not int64"),
        ((torch.zeros(2, 4, dtype=torch.float64),), "dtype 'float64'"),
        ((), "another nesting"),
        ((torch.randn(2, 4), 1), "another nesting"),
    ):
        with pytest.raises(ValueError, match=sentence):
            loaded(*args)
