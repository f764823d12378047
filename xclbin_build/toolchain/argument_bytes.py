"""Asks the compiler for the sizes of a kernel's arguments, which the text of a structure does not tell."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hls_kernels import ROOT, STAND_INS

from ..errors import ToolchainError
from ..escape import cpp_string
from . import process
from .compiler import find_compiler

_QUESTION = """\
#include <cstdint>
#include {source}
template <class>
struct fpga_arguments;
template <class... P_>
struct fpga_arguments<void(P_...)> {{
    struct table {{
        uint64_t bytes[sizeof...(P_) + 1];
    }};
    static constexpr table sizes() {{ return {{{{sizeof(P_)..., 0}}}}; }}
}};
extern "C" __attribute__((used)) const auto fpga_bytes_of_arguments = fpga_arguments<decltype(::{kernel})>::sizes();
"""


class ArgumentBytes:
    """The bytes of a kernel's arguments, as the compiler finds them when somebody asks; 0 where it does not."""

    def __init__(self, source: Path, kernel: str, include: Sequence[Path], define: Sequence[str]) -> None:
        self._options = (
            *(f"-D{macro}" for macro in define),
            *(f"-I{folder}" for folder in (source.parent, *include)),
        )
        self._question = _QUESTION.format(source=cpp_string(str(source)), kernel=kernel)
        self._bytes: list[int] | None = None

    def __call__(self, number: int) -> int:
        if self._bytes is None:
            self._bytes = [int(word) for word in re.findall(r"\.quad\s+(\d+)", self._assembly())]
        return self._bytes[number] if number < len(self._bytes) else 0

    def _assembly(self) -> str:
        """What the compiler makes of the question; "" without one, and if it rejects the source."""
        with tempfile.NamedTemporaryFile("w", suffix=".cpp", errors="surrogateescape") as file:
            file.write(self._question)
            file.flush()
            flags = ["-std=c++17", "-w", "-S", f"-I{ROOT}", "-isystem", str(STAND_INS), *self._options]
            try:
                call = [*find_compiler().command, *flags, file.name, "-o", "-"]
                result = process.run(call, timeout=process.time_limit(), errors=False)
            except (ToolchainError, OSError):
                return ""
        return "" if result.status else result.output.partition("fpga_bytes_of_arguments:")[2].partition(".size")[0]
