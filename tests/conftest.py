"""Every test sees what lowering makes today; the tests of the disk cache turn it on for themselves."""

import os

os.environ["FPGA_DYNAMO_PROGRAM_CACHE"] = "0"
