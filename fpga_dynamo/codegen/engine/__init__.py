"""Commands of the hardware engine (hls_kernels/engine): how they are cut, laid out in memory, and how long they take."""
