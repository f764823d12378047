// PyTorch starts a thread for each device at the first backward pass of a process, even if that pass is on the CPU. The
// device may be loaded later, and PyTorch would then fail at its first backward pass.
#pragma once

namespace fpga_device {

// To be called without Python's interpreter lock, once the number of cards is known.
void start_autograd_threads();

}  // namespace fpga_device
