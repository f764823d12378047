// Random numbers of a card: the stream that a generator of the CPU with the same seed gives.
#pragma once
#include <ATen/core/Generator.h>

#include "device.hpp"

namespace fpga_device {

const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);

// The generator of the CPU whose numbers a generator of a card gives: what the CPU's kernels accept.
at::Generator host_generator(const at::Generator& generator);

}  // namespace fpga_device
