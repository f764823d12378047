"""`fpga-dynamo card-server --export`: the server in C++ as sources, for a board without Python."""

from __future__ import annotations

import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from string import Template

import hls_kernels
from fpga_dynamo.errors import FpgaError

_PACKAGE = Path(__file__).parents[1]
_TEMPLATES = Path(__file__).parent / "templates"
_FOLDERS = ("card", "card_server", "card_server_xrt")
_SHARED = Path(hls_kernels.__file__).parent / "lib" / "card_abi.hpp"


def write_sources(directory: str | Path) -> Path:
    """Writes sources, CMakeLists.txt and README.md into `directory`, in place of those of an earlier export.

    Returns the path. Raises FpgaError for a directory with other files, and one that cannot be written.
    """
    path = Path(directory)
    if path.exists() and not path.is_dir():
        raise FpgaError(f"'{path}' is a file; give the name of a directory")
    if path.is_dir() and any(path.iterdir()) and not (path / "runtime" / "card_server" / "protocol.hpp").is_file():
        raise FpgaError(f"directory '{path}' has other files than a card server's; give an empty or a new one")
    if not path.absolute().parent.is_dir():
        raise FpgaError(f"there is no directory '{path.absolute().parent}'; make it first")
    try:
        with tempfile.TemporaryDirectory(dir=path.absolute().parent, prefix=f".{path.name}.") as temporary:
            fresh = Path(temporary) / "fresh"
            _write(fresh)
            if path.exists():
                path.rename(Path(temporary) / "old")
            fresh.rename(path)
    except OSError as error:
        raise FpgaError(f"directory '{path}' cannot be written: {error.strerror or error}") from error
    return path


def _write(directory: Path) -> None:
    for name in _FOLDERS:
        target = directory / "runtime" / name
        target.mkdir(parents=True)
        source = _PACKAGE / "native" / name
        files = sorted([*source.glob("*.cpp"), *source.glob("*.hpp")])
        if not files:
            raise FpgaError(f"the package has no sources of the card server ({source}); install it again")
        for file in files:
            shutil.copyfile(file, target / file.name)
    shutil.copyfile(_SHARED, directory / "runtime" / "card" / _SHARED.name)
    shutil.copyfile(_TEMPLATES / "CMakeLists.txt", directory / "CMakeLists.txt")
    readme = Template((_TEMPLATES / "README.md").read_text(encoding="utf-8"))
    (directory / "README.md").write_text(readme.substitute(version=version("fpga_dynamo")), encoding="utf-8")
