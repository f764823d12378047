// Stands in for the header of Vitis HLS: on the emulator accesses have the order of the source.
#pragma once
#ifdef FPGA_COSIM
#include "sim/cosim/control.hpp"
#endif

namespace hls {

template <class... T_>
inline void fence(const T_&...) {
#ifdef FPGA_COSIM
    sim::cosim::wait_cycles(1);
#endif
}

}  // namespace hls
