"""Builds the C++ extension of the device once for each version of PyTorch, of its sources and of the compiler."""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from pathlib import Path

import torch

from fpga_dynamo.errors import DeviceError
from xclbin_build.errors import BuildError
from xclbin_build.shared_library import built_once
from xclbin_build.toolchain import compiler

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
    files = sorted(path for path in SOURCES.iterdir() if path.suffix in (".cpp", ".hpp"))
    content = [part for path in files for part in (path.name, path.read_bytes())]
    tag = str(sysconfig.get_config_var("SOABI"))
    libraries = Path(torch.__path__[0]) / "lib"
    try:
        return built_once(
            "torch_device",
            f"the extension of device 'fpga' for torch {torch.__version__}",
            [torch.__version__, tag, *content],
            _joined_parts,
            flags(),
            [f"-L{libraries}", f"-Wl,-rpath,{libraries}", *(f"-l{library}" for library in _LIBRARIES)],
        )
    except BuildError as error:
        raise DeviceError(f"device 'fpga' needs its extension for torch {torch.__version__}: {error}") from error


def is_possible() -> bool:
    """Whether the extension is in the cache, or there is a compiler that may build it."""
    try:
        compiler.find_compiler()
    except BuildError:
        return False
    return True


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


def _joined_parts(directory: Path) -> list[Path]:
    return [joined(directory / f"{part}.cpp", sources) for part, sources in parts().items()]


def joined(path: Path, sources: Sequence[Path]) -> Path:
    """One source of several."""
    path.write_text("".join(f'#include "{source}"\n' for source in sources))
    return path
