"""Components of Vitis HLS with their own test benches, unchanged: what passes `xclbin-build csim`, and what does not.

    python -m benchmarks.hls_components CHECKOUT [--only NAME] [--seconds 300]

CHECKOUT is a working tree such as that of github.com/Xilinx/Vitis-HLS-Introductory-Examples; none of it is part of
this project. A folder with an `hls_config.cfg` or a `run_hls.tcl` is a component. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.vitis_examples import TOOLS, run_all, run_step

_NAMES = ("hls_config.cfg", "run_hls.tcl", "hls_config-for-commandline-use.cfg")


def components(checkout: Path) -> list[Path]:
    """The file that describes each component of a tree, in the order of their folders."""
    found: dict[Path, Path] = {}
    for name in _NAMES:
        for path in sorted(checkout.rglob(name)):
            found.setdefault(path.parent, path)
    return [found[folder] for folder in sorted(found)]


def _run(path: Path, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_step("csim", [str(TOOLS / "xclbin-build"), "csim", str(path)], Path(folder), seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hls_components", description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", metavar="NAME", help="components whose folder has this in it")
    parser.add_argument("--seconds", type=float, default=300.0, help="for each component (300)")
    options = parser.parse_args(arguments)
    checkout = options.checkout.resolve()
    chosen = [path for path in components(checkout) if (options.only or "") in str(path.parent.relative_to(checkout))]
    print("| component | result |\n|---|---|")
    rows = [
        (f"| {path.parent.relative_to(checkout).as_posix()}", partial(_run, path, options.seconds)) for path in chosen
    ]
    passed = run_all(rows)
    print(f"\n{passed} of {len(chosen)} components pass")
    return 0


if __name__ == "__main__":
    sys.exit(main())
