"""A checker of HLS kernels without Vitis: what their loops become, from what `hls` reads off clang's IR."""
