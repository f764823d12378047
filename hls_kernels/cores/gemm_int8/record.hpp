// Record of the core gemm_int8. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

// `output[i][j][m][n] = epilogue(sum_k a[i][j][m][k] b[i][j][k][n])`, int8 operands and 32-bit sums.
//
// b in the weights region (b_packed = 1): int8 [panel][k / 4][16 * vectors][4], zeros for k and columns that do not exist,
// shared by the batch. Zero points of a are part of the parameters' offsets. Otherwise b lies in the arena, and the sum is
// that of (a - a_zero) (b - b_zero).
//
// Rows of a may be quantized dynamically, if results are floats or an activation follows. row_scale and row_zero then name
// their scales and zero points. The sums are multiplied by the row's scale. The offset of a column is minus the sum of the
// column of b, and is multiplied by the row's zero point.
//
// Parameters: int32 [panel][3][16 * vectors]: offset, scale and bias of lib/int8/epilogue.hpp. Rows of the output are stored rounded up to 16.
struct gemm_int8_command {
    int32_t opcode;
    int32_t slices;
    place_t a;  // arena, in bytes
    place_t b;  // in bytes; packed: a multiple of 64
    uint32_t parameters;
    place_t residual;
    place_t output;
    uint32_t table;
    int32_t b_packed;
    int32_t batch[2];
    int32_t rows;         // m
    int32_t columns;      // n
    int32_t depth;        // k
    int32_t a_stride[3];  // batch 0, batch 1, m; k's is 1
    int32_t b_stride[4];  // batch 0, batch 1, k, n; either k's or n's is 1
    int32_t out_stride[3];
    int32_t residual_stride[3];
    int32_t vectors;
    int32_t a_format;  // FORMAT_U8 or FORMAT_I8
    int32_t a_zero;    // b_packed = 0 only
    int32_t b_format;  // b_packed = 0 only; packed weights are signed
    int32_t b_zero;
    int32_t residual_format;
    int32_t residual_zero;
    int32_t residual_factor;
    int32_t out_format;
    int32_t out_zero;
    int32_t out_low;
    int32_t out_high;
    int32_t middle;
    int32_t middle_zero;
    int32_t middle_factor;
    uint32_t middle_table;
    int32_t activation;
    float act_a;
    float act_b;
    float inverse_scale;
    place_t row_scale;      // arena, floats, or ABSENT
    place_t row_zero;       // arena, int32, or ABSENT
    int32_t row_stride[3];  // of both: batch 0, batch 1, m
};

}  // namespace fpga
