// Stands in for the header of Vitis HLS: waiting changes no values. In a co-simulation it takes cycles.
#pragma once
#ifdef FPGA_COSIM
#include "sim/cosim/control.hpp"
inline void ap_wait() { sim::cosim::wait_cycles(1); }
inline void ap_wait_n(int cycles) { sim::cosim::wait_cycles(cycles); }
#else
inline void ap_wait() {}
inline void ap_wait_n(int) {}
#endif
