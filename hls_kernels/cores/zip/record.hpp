// Record of the core zip. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

enum zip_kind : int32_t {
    ZIP_PRODUCT = 0,
    ZIP_SUM = 1,
    ZIP_DIFFERENCE = 2,
    ZIP_COPY = 3,       // a alone; b is ignored
    ZIP_MAGNITUDE = 4,  // |a|, without overflow on the way
};

// Element by element of two operands, each complex (pairs of floats, real part first) or real, conjugated first or not.
// Strides count floats; along dims[4] an operand's is that of contiguous elements (2 for pairs, 1 for floats) or 0 for
// one that is the same for all, the result's that of contiguous ones; a size of 1 has any.
struct zip_command {
    int32_t opcode;
    int32_t slices;
    int32_t kind;
    place_t a;       // arena, or weights
    place_t b;       // arena, or weights
    place_t output;  // arena
    int32_t a_from_weights;
    int32_t b_from_weights;
    int32_t a_real;
    int32_t b_real;
    int32_t out_real;  // of the result the real part alone is stored
    int32_t a_conjugated;
    int32_t b_conjugated;
    int32_t dims[5];
    int32_t a_stride[5];
    int32_t b_stride[5];
    int32_t out_stride[5];
};

}  // namespace fpga
