// Kernels include this file to be a dataflow region: plain Vitis HLS there, the simulator of this folder everywhere else.
//
//     `void top(hls::burst_maxi<beat_t> in, hls::burst_maxi<beat_t> out) {
//     #pragma HLS dataflow
//         hls::stream<beat_t, 64> beats("beats");
//         DATAFLOW_BEGIN(top);
//         PROCESS(top, load(in, beats));
//         PROCESS(top, store(beats, out));
//     }                                         // the end of the scope waits for the processes
//
//     PIPELINED(load_beats)
//     for (int i = 0; i < n; i++) {
//     #pragma HLS pipeline II = 1
//         ITERATION(load_beats);                // first thing in the body
//         beats.write(in.read());
//     }
//     CYCLES(next_tile);                        // sequential code that takes cycles`.
//
// FPGA_COUNT_CYCLES=1 counts. qor_generated.hpp must then lie on the include path; xclbin_build writes it from qor.toml. It has
// II and depth of each label of PIPELINED, and the cycles of each label of CYCLES. A label that it lacks does not compile.
#pragma once

#ifdef __VITIS_HLS__

#include <ap_int.h>
#include <hls_burst_maxi.h>
#include <hls_stream.h>
#include <hls_streamofblocks.h>

#define DATAFLOW_BEGIN(name)
#define PROCESS(name, ...) __VA_ARGS__
#define PIPELINED(label) \
    label:
#define ITERATION(label)
#define CYCLES(label)
namespace sim {
inline void command(long) {}
inline void command_done() {}
inline void count(const char*, unsigned long) {}
}  // namespace sim

#else

#define FPGA_DATAFLOW 1  // for headers of AMD's names: streams are those of this folder

#include "headers/ap_int.h"
#include "hls_burst_maxi.h"
#include "hls_stream.h"
#include "hls_streamofblocks.h"
#include "region.hpp"

#define DATAFLOW_BEGIN(name) ::sim::region name##_region(#name)
#define PROCESS(name, ...) name##_region.run(#__VA_ARGS__, [&] { __VA_ARGS__; })

#if FPGA_COUNT_CYCLES
#include "qor_generated.hpp"
#define PIPELINED(label)                                          \
    if (::sim::loop label##_loop{::sim::qor::loops::label}; true) \
    label:
#define ITERATION(label) label##_loop.iterate()
#define CYCLES(label) ::sim::take_cycles(::sim::qor::code::label)
#else
#define PIPELINED(label) \
    label:
#define ITERATION(label) static_cast<void>(0)
#define CYCLES(label) static_cast<void>(0)
#endif

#endif
