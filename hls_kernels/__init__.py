"""What the FPGA runs: the command record, the cores, and the recipes that bundle them into kernels.

The package holds resource files only; `xclbin_build` turns them into an xclbin.

* `command.hpp`: opcodes and the command record, whose parts lie with the cores
* `tiles.hpp`: sizes of local memories, which a recipe may change
* `cores/NAME/`: a core: record.hpp, core.hpp, the test bench tb.cpp, README.md with cycles and resources
* `lib/`: code that cores share; lib/mac/ is the array of multiply-accumulate units
* `engine/`: the dataflow engine: one array for convolutions and products of matrices
* `headers/`: replacements of AMD's headers, by the same names
* `sim/`: dataflow regions under g++: streams and ports with their depths, which count cycles
* `templates/`: what `xclbin_build` renders: sequencers, decoders, the emulator's stubs
* `recipes/`: bundles of cores
* `tb/`: code that the test benches share, and benches of several cores
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent
CORES = ROOT / "cores"
ENGINE = ROOT / "engine"
LIB = ROOT / "lib"
SIM = ROOT / "sim"
STAND_INS = ROOT / "headers"
TEMPLATES = ROOT / "templates"
RECIPES = ROOT / "recipes"
