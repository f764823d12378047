"""What clang-tidy finds in the C++ of hls_kernels and fpga_dynamo: ``python -m tests.tidy``, for `make tidy`.

Native sources are compiled as CMake says, those of device 'fpga' as its build says, all cores and the engine as
synthesis sees them: clang does not know the vector functions of g++ that the emulator is compiled with. Which checks
there are says `.clang-tidy`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fpga_dynamo.device import build
from hls_kernels import CORES
from hls_kernels import ROOT as KERNELS
from tests.native_build import ROOT, configure

BUILD = ROOT / "build/tidy"
NATIVE = ROOT / "fpga_dynamo/native"
HEADERS = r"hls_kernels/(cores|engine|lib)/|fpga_dynamo/(native|device/cpp)/"
FLAGS = ("-std=c++17", f"-I{KERNELS}", f"-I{KERNELS / 'lib'}", "-Wno-unknown-pragmas", "-Wno-unused-label")


@dataclass(frozen=True)
class Source:
    """A file and how it is compiled; nothing if the compilation database says it."""

    path: Path
    flags: tuple[str, ...] = ()


def native() -> list[Source]:
    """The sources that CMake builds on this machine; those of XRT only where XRT is installed."""
    configure(BUILD, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    database = json.loads((BUILD / "compile_commands.json").read_text())
    files = sorted({Path(entry["file"]) for entry in database})
    return [Source(path) for path in files if path.is_relative_to(NATIVE)]


def kernels() -> list[Source]:
    """Each part of hls_kernels, as one source that includes all of its headers."""
    parts = {
        "cores": sorted(CORES.glob("*/core.hpp")),
        "engine": [KERNELS / "engine/engine.hpp", KERNELS / "engine/vector/vector.hpp"],
    }
    found = []
    for name, headers in parts.items():
        path = BUILD / f"{name}.cpp"
        path.write_text("".join(f'#include "{header}"\n' for header in headers))
        stand_ins = ("-D__SYNTHESIS__", f"-I{KERNELS / 'headers'}") if name == "cores" else (f"-I{KERNELS / 'sim'}",)
        found.append(Source(path, (*FLAGS, *stand_ins)))
    return found


def device() -> list[Source]:
    """The extension of device 'fpga', as the sources that it is compiled from: reading PyTorch's headers takes long."""
    flags = tuple(build.flags())
    return [Source(build.joined(BUILD / f"device_{part}.cpp", files), flags) for part, files in build.parts().items()]


def findings(source: Source) -> str:
    """What clang-tidy says of a source and of our headers in it."""
    tidy = [str(Path(sys.executable).parent / "clang-tidy"), "--quiet", f"--header-filter={HEADERS}"]
    how = ["--", *source.flags] if source.flags else []
    where = [] if source.flags else ["-p", str(BUILD)]
    command = [*tidy, f"--config-file={ROOT / '.clang-tidy'}", *where, str(source.path), *how]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    return result.stdout if result.returncode == 0 else result.stdout + result.stderr


def main() -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    sources = [*device(), *kernels(), *native()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [text for text in pool.map(findings, sources) if text.strip()]
    print("\n".join(dict.fromkeys(found)), end="")
    print(f"clang-tidy: {len(found)} of {len(sources)} sources have findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
