"""Co-simulation without RTL: the cycles of a design with its own test bench (`xclbin-build cosim`)."""
