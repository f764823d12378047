"""Tests of ``torch.device("fpga")``; the first run on a machine builds the extension."""
