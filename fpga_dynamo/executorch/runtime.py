"""The backend at run time: a shared library that registers itself with executorch.

Python builds it at its first use; a C++ program builds it from the sources that :func:`write_backend` writes.
"""

from __future__ import annotations

import ctypes
import shutil
import threading
from importlib.metadata import version
from pathlib import Path

from fpga_dynamo.deployment.errors import ExportError
from fpga_dynamo.deployment.sources import library_sources, write_library
from fpga_dynamo.errors import FpgaError
from xclbin_build.errors import BuildError
from xclbin_build.shared_library import built_once

SOURCE = Path(__file__).parent / "fpga_backend.cpp"
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-pthread", "-fvisibility=hidden", "-DC10_USING_CUSTOM_GENERATED_MACROS")
_lock = threading.Lock()
_loaded: ctypes.CDLL | None = None


def register_backend() -> None:
    """Adds `FpgaBackend` to executorch's run time in this process; builds it if this is its first use.

    Raises FpgaError if executorch has no C++ headers or library, or if there is no C++ compiler.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            import executorch.extension.pybindings.portable_lib  # noqa: F401  # its library comes first

            try:
                _loaded = ctypes.CDLL(str(built()))
            except (BuildError, OSError) as error:
                raise FpgaError(f"executorch's backend 'FpgaBackend' cannot be built: {error}") from error


def built() -> Path:
    """The backend's shared object from the user's cache, built for the installed version of executorch.

    Raises FpgaError if executorch lacks what it is built with, BuildError if the compiler is missing or rejects it.
    """
    import executorch

    package = Path(next(iter(executorch.__path__)))
    headers, libraries = package / "include", package / "lib"
    if not (headers / "executorch/runtime/backend/interface.h").is_file() or not libraries.is_dir():
        raise FpgaError(
            f"executorch {version('executorch')} has no C++ headers or library beside its Python files; install the "
            "wheel of version 1.5 or later"
        )
    files = library_sources()
    content = [part for file in [SOURCE, *files] for part in (file.name, file.read_bytes())]
    foreign = [headers, headers / "executorch/runtime/core/portable_type/c10"]
    own = sorted({file.parent for file in files})
    return built_once(
        "executorch",
        f"the backend of executorch {version('executorch')}",
        [version("executorch"), *content],
        lambda _: [SOURCE, *(file for file in files if file.suffix == ".cpp")],
        [*_FLAGS, *(f"-I{place}" for place in own), *(f"-isystem{place}" for place in foreign)],
        [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lexecutorch", "-pthread", "-ldl"],
    )


def write_backend(directory: str | Path) -> Path:
    """Writes the backend's sources, the run-time library and a CMakeLists.txt into a new directory.

    Returns its path. Raises ExportError if the directory exists or cannot be made.
    """
    path = Path(directory)
    try:
        path.mkdir()
        write_library(path)
        for file in (SOURCE, SOURCE.parent / "templates" / "CMakeLists.txt"):
            shutil.copyfile(file, path / file.name)
    except OSError as error:
        raise ExportError(f"directory '{path}' cannot be written: {error.strerror or error}") from error
    return path
