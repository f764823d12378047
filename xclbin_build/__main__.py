"""`python -m xclbin_build` is the command `xclbin-build`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
