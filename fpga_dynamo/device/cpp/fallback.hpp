// Runs operators by the CPU's kernels on a card's memory.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace fpga_device {

// How often each operator ran by the CPU's kernel since the last call of this function.
std::map<std::string, int64_t> take_fallbacks();
// Whether operators are counted, which takes a lock at each.
void count_fallbacks(bool wanted);

}  // namespace fpga_device
