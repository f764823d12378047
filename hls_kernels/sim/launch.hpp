// One start of a kernel by the emulator: its ports, and in a counting build the card's memory and the counters.
//
// The including file defines FPGA_COUNT_CYCLES, and includes memory_generated.hpp before if it counts.
#pragma once
#include <cstdint>
#include <string>

#include "hls_burst_maxi.h"
#include "region.hpp"

namespace sim {

class launch {
public:
    // The port of an argument: `bytes` bytes from `data` on, which have the device address.
    template <class T_>
    hls::burst_maxi<T_> port(T_* data, uint64_t bytes, uint64_t device, const port_settings& settings) {
        hls::burst_maxi<T_> p(data);
        port_settings bound = settings;
        bound.elements = bytes / sizeof(T_);
        bound.address = device;
#if FPGA_COUNT_CYCLES
        bind(p, bound, &memory_, memory_.holding(device));
#else
        bind(p, bound);
#endif
        return p;
    }
#if FPGA_COUNT_CYCLES
    card_memory& memory() { return memory_; }
#endif
    // What was counted, as JSON; empty if the build does not count.
    std::string counters() {
#if FPGA_COUNT_CYCLES
        report r = take_report(&memory_);
        r.clock_khz = platform::kernel_khz;
        return json::of(r);
#else
        return "";
#endif
    }

private:
    struct clean_thread {
        clean_thread() {
            abandon();  // a run before this one may have been broken off anywhere
            restart();
        }
    } clean_;
#if FPGA_COUNT_CYCLES
    card_memory memory_{platform::banks, platform::kernel_khz};
#endif
};

}  // namespace sim
