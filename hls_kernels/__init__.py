"""What the FPGA runs: the command record, the cores, and the recipes that bundle them into kernels.

The package holds resource files only; `xclbin_build` turns them into an xclbin.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent
CORES = ROOT / "cores"
RECIPES = ROOT / "recipes"
