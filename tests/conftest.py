"""What every test relies on: programs lowered today (the tests of the disk cache turn it on for themselves), and a
Ctrl-C that raises, which a shell takes from what it starts in the background."""

import os
import signal

os.environ["FPGA_DYNAMO_PROGRAM_CACHE"] = "0"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
