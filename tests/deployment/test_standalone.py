"""Exported models built by g++ alone, in an environment without variables, and run without Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.utils._pytree import tree_leaves

import fpga_dynamo
from fpga_dynamo.tools import zoo
from fpga_dynamo.tools.emulate import ROUTES
from tests.deployment.deployment_kit import Encoder, SmallCnn
from tests.emulate.hosts_kit import HEADERS, emulate, environment
from tests.marks import EXTENDED

pytestmark = [*EXTENDED, pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")]


def built(directory: Path, *flags: str) -> Path:
    """`main` of an exported model. The environment has PATH alone, which g++ finds its own parts by."""
    files = [str(path) for folder in ("rt", "card") for path in directory.glob(f"runtime/{folder}/*.cpp")]
    command = ["g++", "-std=c++17", "-O1", "-pthread", *flags, "-Iruntime/rt", "-Iruntime/card", "main.cpp", *files]
    path = {"PATH": os.environ["PATH"]}
    subprocess.run([*command, "-ldl", "-o", "main"], cwd=directory, env=path, check=True)
    return directory / "main"


def run(program: Path, model: Path, *files: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(program), "--model", str(model), *map(str, files)]
    return subprocess.run(command, env={}, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program") / "model"
    return built(fpga_dynamo.export(SmallCnn().eval(), (torch.randn(1, 3, 8, 8),), folder))


class _Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 32, 2, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, (h, c) = self.lstm(x)
        return self.head(y[:, -1]), h, c


class _Heads(nn.Module):
    """A detector up to the choice of boxes: classes and boxes of two feature maps, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.SiLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.SiLU())
        self.down = nn.Sequential(nn.Conv2d(32, 32, 3, 2, 1), nn.SiLU())
        self.classes = nn.Conv2d(32, 10, 1)
        self.boxes = nn.Conv2d(32, 4, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        maps = [self.stem(x)]
        maps.append(self.down(maps[0]))
        classes = torch.cat([self.classes(m).flatten(2) for m in maps], 2).sigmoid()
        boxes = torch.cat([self.boxes(m).flatten(2) for m in maps], 2)
        return classes.transpose(1, 2), boxes.transpose(1, 2)


def _resnet18(quantized: bool) -> tuple[nn.Module, tuple[Any, ...]]:
    example = zoo.load("resnet18")
    model = zoo.randomise_batch_norm(example.model)
    if quantized:
        from fpga_dynamo.quantize import quantize

        model = quantize(model, [example.inputs] * 2, scales="pow2", bias="int32", progress=False)
    return model, example.inputs


CASES = {
    "resnet18": lambda: (*_resnet18(False), None, ()),
    "resnet18-int8": lambda: (*_resnet18(True), None, ()),
    "encoder": lambda: (
        Encoder().eval(), (torch.randint(50, (2, 9)),), {"tokens": {1: Dim("length", max=64)}},
        [(torch.randint(50, (2, 33)),)],
    ),
    "lstm": lambda: (_Lstm().eval(), (torch.randn(2, 12, 16),), None, ()),
    "heads": lambda: (_Heads().eval(), (torch.randn(1, 3, 64, 64),), None, ()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bits_of_torch_compile(name: str, program: Path, tmp_path: Path) -> None:
    model, example, shapes, others = CASES[name]()
    directory = fpga_dynamo.export(model, example, tmp_path / "model", dynamic_shapes=shapes)
    loaded = fpga_dynamo.load(directory)
    compiled = torch.compile(model, backend="fpga", options={"partition": "greedy"})
    for args in (example, *others):
        files = []
        for i, given in enumerate(args):
            given.numpy().tofile(tmp_path / f"in{i}.bin")
            sizes = ":" + ",".join(map(str, given.shape)) if shapes else ""
            files.append(f"{tmp_path / f'in{i}.bin'}{sizes}")
        with torch.no_grad():
            expected = tree_leaves(compiled(*args))
        outputs = [tmp_path / f"out{i}.bin" for i in range(len(expected))]
        done = run(program, directory, *files, *outputs)
        assert (done.returncode, done.stderr) == (0, "")
        for path, tensor, same in zip(outputs, expected, tree_leaves(loaded(*args)), strict=True):
            assert torch.equal(tensor, same)
            assert np.array_equal(np.fromfile(path, np.float32), tensor.contiguous().flatten().numpy())


def test_mistakes_are_one_sentence(program: Path, tmp_path: Path) -> None:
    directory = program.parent
    (tmp_path / "in.bin").write_bytes(bytes(3 * 8 * 8 * 4))
    files = [tmp_path / name for name in ("in.bin", "a.bin", "b.bin")]
    for model, given, sentence in (
        (tmp_path, files, "model.json' cannot be read"),
        (directory, files[:2], "give one file for each"),
        (directory, [tmp_path / "none", *files[1:]], "cannot be read: No such file"),
        (directory, [program, *files[1:]], "bytes, and the input has 768"),
        (directory, [*files[:2], tmp_path], "cannot be written"),
    ):
        done = run(program, model, *given)
        assert done.returncode == 2
        assert done.stderr.startswith("main: ") and done.stderr.count("\n") == 1
        assert sentence in done.stderr
    assert run(program, directory, *files).returncode == 0


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
@pytest.mark.skipif(not HEADERS.is_file(), reason=f"no {HEADERS}: apt-get install libxrt-dev")
def test_over_xrt(tmp_path: Path) -> None:
    """The device of XRT, built by CMake, over both routes of XRT's emulation."""
    x = torch.randn(1, 3, 8, 8)
    directory = fpga_dynamo.export(SmallCnn().eval(), (x,), tmp_path / "model")
    expected = fpga_dynamo.load(directory)(x)
    x.numpy().tofile(tmp_path / "in.bin")
    settings = ("-B", "build", "-DFD_XRT=ON", "-DCMAKE_BUILD_TYPE=Debug")
    for command in (("cmake", *settings), ("cmake", "--build", "build", "--target", "main")):
        subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, check=True)
    files = [str(tmp_path / name) for name in ("in.bin", "a", "b")]
    words = (str(directory / "build/main"), "--model", str(directory), *files)
    for route in ROUTES:
        done = emulate(route, *words, folder=tmp_path, FPGA_DYNAMO_DRIVER="xrt")
        assert (done.returncode, done.stderr) == (0, "")
        for name, key in (("a", "logits"), ("b", "turned")):
            assert np.array_equal(np.fromfile(tmp_path / name, np.float32), expected[key].numpy().flatten())
            (tmp_path / name).unlink()
    # Without a card and its emulation, a failure of XRT is a sentence.
    alone = subprocess.run(
        words, env=environment(FPGA_DYNAMO_DRIVER="xrt"), capture_output=True, text=True, check=False
    )
    assert alone.returncode == 2
    assert alone.stderr.startswith("main: ") and alone.stderr.count("\n") == 1


def test_under_sanitizers(tmp_path: Path) -> None:
    """Mutations of files, among them documents that are sealed again, under both sanitizers."""
    import random

    from tests.deployment.test_damaged_files import mutated_directory

    directory = fpga_dynamo.export(SmallCnn().eval(), (torch.randn(1, 3, 8, 8),), tmp_path / "model")
    sanitized = built(directory, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
    (tmp_path / "in.bin").write_bytes(bytes(3 * 8 * 8 * 4))
    files = [tmp_path / name for name in ("in.bin", "a.bin", "b.bin")]
    draw = random.Random(0)
    folder = tmp_path / "mutated"
    folder.mkdir()
    codes = set()
    options = "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigfpe=0:handle_sigill=0"
    for _ in range(200):
        mutated_directory(draw, directory, folder)
        command = [str(sanitized), "--model", str(folder), *map(str, files)]
        environment = {"ASAN_OPTIONS": f"{options}:allocator_may_return_null=1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        codes.add(done.returncode)
        assert done.returncode in (0, 2), done.stderr
        assert done.returncode == 0 or done.stderr.count("\n") == 1, done.stderr
    assert codes == {0, 2}
