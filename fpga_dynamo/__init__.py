"""torch.compile backend for FPGA cards."""
