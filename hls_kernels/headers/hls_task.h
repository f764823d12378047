// Stands in for the header of Vitis HLS on the emulator. xclbin_build makes the declaration of a task in a function's body a
// process of a dataflow region (xclbin_build/dataflow.py), so no object of this class is left.
#pragma once
#include <cstddef>

#include "hls_stream.h"

#define hls_thread_local

namespace hls {
class task;

// Of a test bench: a kernel that starts itself again, so many times.
class autorestart {
public:
    template <class F_, class... A_>
    autorestart(std::size_t times, F_&& kernel, A_&&... arguments) {
        for (std::size_t i = 0; i < times; i++) kernel(arguments...);
    }
};

}  // namespace hls
