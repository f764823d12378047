"""A checker of HLS kernels without Vitis: what their loops and memories become, read off clang's IR.

`frontend.load` gives the IR of a kernel with its loops, arrays and pragmas (`ir`, `cfg` and `scev` read it).
"""
