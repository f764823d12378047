"""The wheel, made from the sdist, installed into an environment of its own and used far from this checkout.

`make wheel` runs this: it compiles the native modules, and all kernels into an empty cache.
"""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import fpga_dynamo

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
INSTALLED = ("fpga_dynamo", "hls_kernels", "xclbin_build")
RESOURCES = (".hpp", ".cpp", ".j2", ".toml", ".md", ".pyi")
"""Kinds of files beside Python's that the packages need, or that are of use to who reads them."""

MODEL = """
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 5))
model, x = model.eval(), torch.randn(2, 3, 8, 8)
with torch.no_grad():
    answer = torch.compile(model, backend="fpga", options={"strict": True})(x)
    torch.testing.assert_close(answer, model(x), rtol=1e-4, atol=1e-5)

import fpga_dynamo, hls_kernels, xclbin_build
assert fpga_dynamo.stats()["pl_launches"] == 1
for package in (fpga_dynamo, hls_kernels, xclbin_build):
    print(package.__file__)
"""


BUILD_SDIST = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
"""As a build frontend does it, which need not be installed."""


def run(*command: object, cwd: Path, **environment: str) -> str:
    names = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FPGA_DYNAMO_", "PIP_"))}
    ended = subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**names, **environment}, capture_output=True, text=True
    )
    assert ended.returncode == 0, f"{command}:\n{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
    return ended.stdout


@dataclass(frozen=True)
class Installation:
    """An environment with the wheel in it, an empty folder to work in, and a cache that was empty."""

    sdist: Path
    wheel: Path
    environment: Path
    folder: Path
    cache: Path

    def run(self, command: str, *arguments: object) -> str:
        program = self.environment / "bin" / command
        return run(program, *arguments, cwd=self.folder, FPGA_DYNAMO_CACHE=str(self.cache))


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Built and installed without the network; what the package depends on is this environment's."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    run(sys.executable, "-c", BUILD_SDIST, folder, cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    run(*pip, "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index", "-w", folder, sdist, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "venv"
    venv.create(environment)
    (site,) = (environment / "lib").glob("python*/site-packages")
    # A path file adds the folder, and does not read the path files in it: an editable installation there is not seen.
    (site / "dependencies.pth").write_text("\n".join({sysconfig.get_path(key) for key in ("purelib", "platlib")}))
    python = environment / "bin/python"
    run(*pip, "--python", python, "install", "-q", "--no-deps", "--no-index", wheel, cwd=folder)
    made = Installation(sdist, wheel, environment, folder / "empty", folder / "cache")
    made.folder.mkdir()
    return made


def is_bench(path: Path) -> bool:
    """Whether a file is a test bench, or is shared by those."""
    return path.name == "tb.cpp" or path.name.endswith("_tb.cpp") or "tb" in path.parts


def test_the_sdist_has_what_it_takes_to_build_and_test(installation: Installation) -> None:
    with tarfile.open(installation.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"CMakeLists.txt", "LICENSE", "README.md", "constraints.txt", "pyproject.toml", "PKG-INFO"}
    folders = ("fpga_dynamo", "hls_kernels", "xclbin_build", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (*RESOURCES, ".py")]
    wanted |= {path.relative_to(ROOT).as_posix() for path in files}
    assert wanted <= names, f"not in the sdist: {sorted(wanted - names)}"
    assert not [name for name in names if name.startswith((".venv", "build/", "out/")) or name.endswith(".so")]


def test_metadata(installation: Installation) -> None:
    with zipfile.ZipFile(installation.wheel) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Version"] == fpga_dynamo.__version__ and metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("Classifier") and metadata["Keywords"] and "contributors" in metadata["Author"]
    extras = set(metadata.get_all("Provides-Extra", ()))
    assert {"plot", "soc", "quantize", "check", "dev", "test"} <= extras
    needs = metadata.get_all("Requires-Dist", ())
    always = {re.split(r"[ >=;\[]", need)[0] for need in needs if "extra ==" not in need}
    assert "torch" in always and not always & {"matplotlib", "torchao", "ortools", "pytest", "hypothesis"}
    assert any(need.startswith("scikit-learn") and "test" in need for need in needs)


def test_the_wheel_has_what_the_packages_need_and_nothing_else(installation: Installation) -> None:
    with zipfile.ZipFile(installation.wheel) as wheel:
        names = set(wheel.namelist())
    folders = {name.split("/")[0] for name in names}
    assert {name for name in folders if not name.endswith(".dist-info")} == set(INSTALLED)
    # Of the native sources those of the run-time library and the card server, which are exported.
    parts = ("rt", "rt_xrt", "card", "card_server", "card_server_xrt")
    exported = tuple(f"fpga_dynamo/native/{part}/" for part in parts)
    native = {name for name in names if name.startswith("fpga_dynamo/native/")}
    assert native and all(name.startswith(exported) for name in native)
    assert not [name for name in names if "/__pycache__/" in name]
    assert not [name for name in names if is_bench(Path(name))]
    assert any(name.startswith("fpga_dynamo/_native.") and name.endswith(".so") for name in names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    for package in INSTALLED:
        sources = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / package).rglob("*")
            if (path.suffix in (*RESOURCES, ".py") or path.name == "py.typed")
            and "native" not in path.relative_to(ROOT).parts
            and not is_bench(path.relative_to(ROOT))
        }
        assert f"{package}/py.typed" in sources
        assert sources and sources <= names, f"not in the wheel: {sorted(sources - names)}"


def test_a_model_runs_on_the_software_card_with_an_empty_cache(installation: Installation) -> None:
    assert not installation.cache.exists()
    places = installation.run("python", "-c", MODEL).split()
    assert len(places) == len(INSTALLED) and all(place.startswith(str(installation.environment)) for place in places)
    assert list(installation.cache.rglob("*.xclbin"))


def test_the_commands_work(installation: Installation) -> None:
    assert installation.run("fpga-dynamo", "--version").split() == ["fpga-dynamo", fpga_dynamo.__version__]
    installation.run("fpga-dynamo", "fuzz", "--examples", "1")
    assert "emulator" in installation.run("fpga-dynamo", "doctor")
    file = installation.folder / "torch.xclbin"
    installation.run("xclbin-build", "--target", "emu", "--recipe", "emulator", "-o", file)
    assert "sequencer" in installation.run("xclbin-build", "info", file)
    assert "torch.xclbin" in installation.run("fpga-dynamo", "doctor", file)


def test_torch_finds_the_backend_without_an_import(installation: Installation) -> None:
    code = "import torch; print(torch._dynamo.list_backends())"
    assert "'fpga'" in installation.run("python", "-c", code)
