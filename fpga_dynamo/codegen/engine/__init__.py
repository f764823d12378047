"""Commands of the hardware engine (hls_kernels/engine): how they are cut, and how long they take."""
