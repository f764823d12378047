"""What the FPGA runs: the command record, the cores, and the recipes that bundle them into kernels.

The package holds resource files only; `xclbin_build` turns them into an xclbin.

command.hpp, tiles.hpp   the records of all commands; sizes of local memories
cores/NAME/              a core: core.hpp, its test bench tb.cpp, README.md with formula, cycles and resources
lib/                     what cores share; lib/mac/ is the array of multiply-accumulate units
templates/               what `xclbin_build` renders: sequencers, decoders, the software card's stubs
recipes/                 bundles of cores that come along
tb/                      what the test benches share
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent
CORES = ROOT / "cores"
LIB = ROOT / "lib"
TEMPLATES = ROOT / "templates"
RECIPES = ROOT / "recipes"
