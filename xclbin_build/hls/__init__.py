"""HLS kernels as clang reads them: IR, loops, pragmas, memories, interfaces, and what operators cost.

`frontend.load` gives the IR of a kernel with its loops, arrays and pragmas (`ir`, `cfg` and `scev` read it). `check`
and `estimate` stand on this package; it imports neither.
"""
