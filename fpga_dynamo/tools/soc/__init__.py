"""Studies of systems of processors and accelerators: what `fpga-dynamo soc` does."""
