// Stands in for the header of Vitis HLS on the emulator. xclbin_build makes the declaration of a task in a function's body a
// process of a dataflow region (xclbin_build/dataflow.py), so no object of this class is left.
#pragma once
#include "hls_stream.h"

#define hls_thread_local

namespace hls {
class task;
}
