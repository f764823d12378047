"""Builds the C++ extension of the device once for each version of PyTorch, of its sources and of the compiler."""

from __future__ import annotations

import sysconfig
import tempfile
from collections.abc import Sequence
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
_OF_PYTHON = ("autograd_threads", "module", "python_programs")
"""Sources that read headers of Python and of PyTorch's bindings for it."""
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


def parts() -> dict[str, list[Path]]:
    """The sources in groups that are compiled as one source each, as reading PyTorch's headers takes most of the time.

    So a name of an anonymous namespace must not occur in two sources of a group.
    """
    found: dict[str, list[Path]] = {"python": [], "operators": []}
    for source in sorted(SOURCES.glob("*.cpp")):
        found["python" if source.stem in _OF_PYTHON else "operators"].append(source)
    return found


def flags() -> list[str]:
    """How the sources are compiled with the installed version of PyTorch."""
    headers = Path(torch.__path__[0]) / "include"
    places = (headers, headers / "torch/csrc/api/include", sysconfig.get_paths()["include"])
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    return [*_FLAGS, abi, *(option for place in places for option in ("-isystem", str(place)))]


def _build(path: Path) -> None:
    groups = parts()
    with (
        shown(f"the extension of device 'fpga' for torch {torch.__version__}, first time only") as progress,
        tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as name,
        ThreadPoolExecutor(len(groups)) as team,
    ):
        wholes = [joined(Path(name) / f"{part}.cpp", sources) for part, sources in groups.items()]
        objects = [whole.with_suffix(".o") for whole in wholes]
        for done, source in enumerate(team.map(_compile, wholes, objects), 1):
            progress(done, len(wholes) + 1, source.name)
        libraries = Path(torch.__path__[0]) / "lib"
        link = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", *(f"-l{library}" for library in _LIBRARIES)]
        compiler.shared_object(["-shared", *map(str, objects), *link], path)
        progress(len(wholes) + 1, len(wholes) + 1, path.name)


def joined(path: Path, sources: Sequence[Path]) -> Path:
    """One source of several."""
    path.write_text("".join(f'#include "{source}"\n' for source in sources))
    return path


def _compile(source: Path, target: Path) -> Path:
    call = [*compiler.find_compiler().command, *flags(), "-c", str(source), "-o", str(target)]
    result = process.run(call, timeout=process.time_limit())
    if result.status:
        words = "\n".join(result.output.splitlines()[:20])
        raise ToolchainError(f"the compiler rejected {source.name}:\n{words or f'it ended with {result.status}'}")
    return source
