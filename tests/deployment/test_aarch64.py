"""Exported models cross-compiled for aarch64 and run under qemu: INT8 and float32, static and dynamic shapes."""

from __future__ import annotations

import copy
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import fpga_dynamo
from fpga_dynamo.testing.reference import assert_close_to_eager
from tests.deployment.deployment_kit import SmallCnn, in_float64
from tests.deployment.test_standalone import CASES
from tests.emulate.hosts_kit import HEADERS
from tests.marks import EXTENDED

COMPILER = "aarch64-linux-gnu-g++"
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
LIBRARIES = "/usr/aarch64-linux-gnu"
PACKAGES = "apt-get install g++-aarch64-linux-gnu qemu-user-static"
pytestmark = [
    *EXTENDED,
    pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"no {COMPILER}: {PACKAGES}"),
    pytest.mark.skipif(QEMU is None, reason=f"no qemu-aarch64: {PACKAGES}"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`main`, built by CMake with the cross-compiler."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    folder = tmp_path_factory.mktemp("program") / "model"
    fpga_dynamo.export(SmallCnn().eval(), (torch.randn(1, 3, 8, 8),), folder, isa="aarch64")
    settings = (
        "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={COMPILER}",
        "-DCMAKE_BUILD_TYPE=Debug",
    )  # fmt: skip
    for command in (("cmake", "-B", "build", *settings), ("cmake", "--build", "build")):
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return folder / "build/main"


@pytest.mark.parametrize("name", ["resnet18-int8", "resnet18", "encoder", "lstm"])
def test_results(name: str, program: Path, tmp_path: Path) -> None:
    """INT8 is bit-identical to eager mode; float32 has an error of the size of eager mode's own."""
    model, example, shapes, others = CASES[name]()
    directory = fpga_dynamo.export(model, example, tmp_path / "model", dynamic_shapes=shapes, isa="aarch64")
    for args in (example, *others):
        files = []
        for i, given in enumerate(args):
            given.numpy().tofile(tmp_path / f"in{i}")
            files.append(f"{tmp_path / f'in{i}'}" + (":" + ",".join(map(str, given.shape)) if shapes else ""))
        with torch.no_grad():
            eager = tree_leaves(model(*args))
        outputs = [tmp_path / f"out{i}" for i in range(len(eager))]
        command = [str(QEMU), "-L", LIBRARIES, str(program), "--model", str(directory), *files, *map(str, outputs)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        results = [
            torch.from_numpy(np.fromfile(path, np.float32)).reshape(tensor.shape)
            for path, tensor in zip(outputs, eager, strict=True)
        ]
        if name.endswith("int8"):
            assert all(map(torch.equal, results, eager))
            continue
        with torch.no_grad():
            assert_close_to_eager(results, eager, tree_leaves(copy.deepcopy(model).double()(*in_float64(args))))


def test_x86_refuses_the_kernels(tmp_path: Path) -> None:
    directory = fpga_dynamo.export(nn.Linear(4, 3).eval(), (torch.randn(2, 4),), tmp_path / "model", isa="aarch64")
    with pytest.raises(fpga_dynamo.FpgaError, match="its kernels are compiled for aarch64, this CPU has x86-64"):
        fpga_dynamo.load(directory)


@pytest.mark.skipif(not HEADERS.is_file(), reason=f"no {HEADERS}: apt-get install libxrt-dev")
def test_xrt_device_compiles(program: Path, tmp_path: Path) -> None:
    """The sources for a card, against the host's headers of XRT, which are the same on Arm."""
    runtime = program.parents[1] / "runtime"
    folders = [f"-I{runtime / name}" for name in ("rt", "card", "rt_xrt")]
    headers = ["-isystem", str(HEADERS.parents[1]), "-idirafter", "/usr/include"]
    source = str(runtime / "rt_xrt/xrt_device.cpp")
    command = [COMPILER, "-std=c++17", "-DFD_WITH_XRT", *folders, *headers, "-c", source, "-o", str(tmp_path / "x.o")]
    subprocess.run(command, check=True)
