// Bytes that operators have copied, counted since the start or the last reset.
#pragma once
#include <atomic>
#include <cstdint>

namespace fpga_device {

struct traffic {
    // Copies that a program asks for: `.to("fpga")`, `.cpu()`, `.item()`.
    std::atomic<int64_t> to_card{0}, from_card{0}, between_cards{0};
    // Results of the CPU's kernels that lay in the host's memory.
    std::atomic<int64_t> of_results{0};
};

inline traffic& copied() {
    static traffic only;
    return only;
}

}  // namespace fpga_device
