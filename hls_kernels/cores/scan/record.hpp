// Record of the core scan. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

enum scan_kind : int32_t {
    SCAN_SUM = 0,
    SCAN_PRODUCT = 1,
    SCAN_LOG_SUM_EXP = 2,
    SCAN_INT_SUM = 3,  // of the bits of int32, which wraps around
};

// Inclusive scan: every element becomes the sum (product, ...) of itself and all before it along one dimension, or with
// `backward` of itself and all behind it. Strides: the kept dimensions 0..3, then the scanned one. Either the scanned
// dimension has stride 1 in input and output, or the last kept one has; a size of 1 has any.
struct scan_command {
    int32_t opcode;
    int32_t slices;
    int32_t kind;
    int32_t backward;
    place_t input;
    place_t output;
    int32_t kept[4];
    int32_t length;  // of the scanned dimension
    int32_t in_stride[5];
    int32_t out_stride[5];
};

}  // namespace fpga
