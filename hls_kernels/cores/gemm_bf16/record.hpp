// Record of the core gemm_bf16. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

// `output[i][j][m][n] = act(alpha * sum_k a[i][j][m][k] b[i][j][k][n] + bias[n] + residual[i][j][m][n])`.
// Operands a and b that are floats are rounded to bfloat16 before they are multiplied. Products and sums are float32.
//
// b in the weights region (b_packed = 1): bfloat16 [panel][k / 2][16 * vectors][2], shared by the batch, with zeros for
// columns that do not exist and for k up to a multiple of 32. Otherwise in the arena with b_stride. bias: floats, [panels *
// 16 * vectors] in the weights region. Rows of the output are stored rounded up to 16.
struct gemm_bf16_command {
    int32_t opcode;
    int32_t slices;
    place_t a;  // in elements of a_format
    place_t b;  // in elements of b_format; packed: a multiple of 32
    uint32_t bias;
    place_t residual;  // in elements of residual_format
    place_t output;    // in elements of out_format
    int32_t b_packed;
    int32_t batch[2];
    int32_t rows;           // m
    int32_t columns;        // n
    int32_t depth;          // k
    int32_t a_stride[4];    // batch 0, batch 1, m, k; either m's or k's is 1
    int32_t b_stride[4];    // batch 0, batch 1, k, n; either k's or n's is 1
    int32_t out_stride[3];  // batch 0, batch 1, m; n's is 1
    int32_t residual_stride[3];
    int32_t vectors;
    float alpha;
    int32_t activation;
    float act_a;
    float act_b;
    int32_t a_format;  // this and the following ones: FORMAT_F32 or FORMAT_BF16
    int32_t b_format;
    int32_t residual_format;
    int32_t out_format;
};

}  // namespace fpga
