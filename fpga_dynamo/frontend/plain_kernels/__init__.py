"""Plain kernels as operators of PyTorch: ``fpga_dynamo.kernel``."""
