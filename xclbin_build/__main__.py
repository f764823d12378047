"""`python -m xclbin_build` is the command `xclbin-build`."""

import sys

from .cli import main

sys.exit(main())
