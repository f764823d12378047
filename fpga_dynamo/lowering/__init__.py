"""ATen graph -> Program. The passes, in the order that they run, are listed in :mod:`fpga_dynamo.lowering.pipeline`."""
