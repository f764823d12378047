"""Builds the C++ extension of the device once for each version of PyTorch, of its sources and of the compiler."""

from __future__ import annotations

import os
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from fpga_dynamo.errors import DeviceError
from xclbin_build.cache import digest, folder, locked
from xclbin_build.errors import BuildError, ToolchainError
from xclbin_build.progress import shown
from xclbin_build.toolchain import compiler, process
from xclbin_build.trusted_path import weakness

NAME = "_fpga_device"
SOURCES = Path(__file__).parent / "cpp"
_FLAGS = ("-std=c++20", "-O1", "-g0", "-fPIC", "-fvisibility=hidden", f"-DTORCH_EXTENSION_NAME={NAME}")
_LIBRARIES = ("c10", "torch_cpu", "torch", "torch_python")


def built() -> Path:
    """The extension's shared object from the user's cache, which is built if it is not there.

    Raises DeviceError if there is no C++ compiler, or if it rejects the sources.
    """
    try:
        path = _path(compiler.find_compiler().version)
        if not _usable(path):
            with locked(path):
                if not _usable(path):
                    _build(path)
    except BuildError as error:
        raise DeviceError(f"device 'fpga' needs its extension for torch {torch.__version__}: {error}") from error
    return path


def is_possible() -> bool:
    """Whether the extension is in the cache, or there is a compiler that may build it."""
    try:
        compiler.find_compiler()
    except BuildError:
        return False
    return True


def _path(compiler_version: str) -> Path:
    files = sorted(path for path in SOURCES.iterdir() if path.suffix in (".cpp", ".hpp"))
    content = [part for path in files for part in (path.name, path.read_bytes())]
    tag = str(sysconfig.get_config_var("SOABI"))
    key = digest([NAME, torch.__version__, str(torch.__path__[0]), tag, compiler_version, *_FLAGS, *content])
    return folder("torch_device") / f"{key}.so"


def _usable(path: Path) -> bool:
    return path.is_file() and weakness(path) is None


def _build(path: Path) -> None:
    sources = sorted(SOURCES.glob("*.cpp"))
    with (
        shown(f"the extension of device 'fpga' for torch {torch.__version__}, first time only") as progress,
        tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as name,
        ThreadPoolExecutor(os.cpu_count() or 1) as team,
    ):
        objects = [Path(name) / f"{source.stem}.o" for source in sources]
        for done, source in enumerate(team.map(_compile, sources, objects), 1):
            progress(done, len(sources) + 1, source.name)
        libraries = Path(torch.__path__[0]) / "lib"
        link = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", *(f"-l{library}" for library in _LIBRARIES)]
        compiler.shared_object(["-shared", *map(str, objects), *link], path)
        progress(len(sources) + 1, len(sources) + 1, path.name)


def _compile(source: Path, target: Path) -> Path:
    headers = Path(torch.__path__[0]) / "include"
    places = (headers, headers / "torch/csrc/api/include", sysconfig.get_paths()["include"])
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    includes = [option for place in places for option in ("-isystem", str(place))]
    call = [*compiler.find_compiler().command, *_FLAGS, abi, *includes, "-c", str(source), "-o", str(target)]
    result = process.run(call, timeout=process.time_limit())
    if result.status:
        words = "\n".join(result.output.splitlines()[:20])
        raise ToolchainError(f"the compiler rejected {source.name}:\n{words or f'it ended with {result.status}'}")
    return source
