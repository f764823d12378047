#pragma once

namespace fpga_device {

// Tells PyTorch that there is an accelerator "fpga". Once a process.
void register_hooks();

}  // namespace fpga_device
