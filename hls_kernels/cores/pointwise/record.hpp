// Record of the core pointwise, and its micro-operations. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

// Element-wise micro-program over four nested dimensions, the last one contiguous or broadcast.
// Streams 0 .. inputs - 1 are read, the next `outputs` are written; bit s of broadcast: stream s has stride 0 along
// dims[3] (else 1); bit s of in_weights: stream s lies in the weights region.
// An instruction is two words: op | destination << 8 | a << 16 | b << 24, and c. Operand codes: 0 .. 7 registers,
// 16 + s stream s, 32 + i constant i.
struct pointwise_command {
    int32_t opcode;
    int32_t slices;
    uint32_t program;  // commands region
    int32_t instructions;
    uint32_t constants;  // commands region
    int32_t constant_count;
    int32_t inputs;
    int32_t outputs;
    int32_t dims[4];
    int32_t broadcast;
    int32_t in_weights;
    place_t stream[10];
    int32_t stride0[10];  // of dims[0], stream by stream
    int32_t stride1[10];
    int32_t stride2[10];
};

// Micro-operations. Comparisons and logic give 0 or 1; a value is true when it is not 0.
enum micro_op : int32_t {
    MICRO_COPY = 0,
    MICRO_ADD = 1,
    MICRO_SUB = 2,
    MICRO_MUL = 3,
    MICRO_DIV = 4,
    MICRO_FMA = 5,  // a b + c
    MICRO_MIN = 6,  // NaN if either is NaN
    MICRO_MAX = 7,  // NaN if either is NaN
    MICRO_NEG = 8,
    MICRO_ABS = 9,
    MICRO_SQRT = 10,
    MICRO_RSQRT = 11,
    MICRO_RECIPROCAL = 12,
    MICRO_EXP = 13,
    MICRO_LOG = 14,
    MICRO_TANH = 15,
    MICRO_ERF = 16,
    MICRO_SIGMOID = 17,
    MICRO_POW = 18,
    MICRO_FLOOR = 19,
    MICRO_CEIL = 20,
    MICRO_ROUND = 21,  // half to even
    MICRO_TRUNC = 22,
    MICRO_EQ = 23,
    MICRO_NE = 24,
    MICRO_LT = 25,
    MICRO_LE = 26,
    MICRO_GT = 27,
    MICRO_GE = 28,
    MICRO_AND = 29,
    MICRO_OR = 30,
    MICRO_NOT = 31,
    MICRO_WHERE = 32,  // a ? b : c
    MICRO_SIN = 33,
    MICRO_COS = 34,
    MICRO_INT_TO_FLOAT = 35,  // a holds the bits of an int32
    MICRO_FLOAT_TO_INT = 36,  // toward zero
    MICRO_SIGN = 37,
    MICRO_EXPM1 = 38,
    MICRO_LOG1P = 39,
    MICRO_RELU = 40,        // NaN stays NaN
    MICRO_ROUND_BF16 = 41,  // to the nearest bfloat16
    MICRO_ROUND_F16 = 42,   // to the nearest binary16; 65520 and more give infinity
    // Operands hold the bits of an int32, and so does the result, which wraps around; comparisons give 0.0 or 1.0.
    MICRO_INT_ADD = 43,
    MICRO_INT_SUB = 44,
    MICRO_INT_MUL = 45,
    MICRO_INT_MIN = 46,
    MICRO_INT_MAX = 47,
    MICRO_INT_EQ = 48,
    MICRO_INT_LT = 49,
    MICRO_BITS_AND = 50,
    MICRO_BITS_OR = 51,
    MICRO_BITS_XOR = 52,
    MICRO_SHIFT_LEFT = 53,     // by 0 to 31
    MICRO_SHIFT_RIGHT = 54,    // the same, the sign comes in from above
    MICRO_INT_FLOOR_DIV = 55,  // rounded down; the divisor is 1 or more
};

}  // namespace fpga
