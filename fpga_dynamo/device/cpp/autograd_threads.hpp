// PyTorch starts a thread for each device at the first backward pass of a process, even if that pass is on the CPU. The
// device may be loaded later, and PyTorch would then fail at its first backward pass.
#pragma once

namespace fpga_device {

// To be called without Python's interpreter lock, once the number of cards is known.
void start_autograd_threads();

// At the end of a process, without Python's interpreter lock: has each card's thread run a node without operands.
//
// PyTorch wakes the caller of `backward` before such a thread has released what the pass held. A thread that releases
// Python's objects while the interpreter is being finalized ends the process with `terminate`. Once it runs another
// node, it holds nothing of the pass.
void finish_autograd_threads();

}  // namespace fpga_device
