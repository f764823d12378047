// Record of the core gemm. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

// output[i][j][m][n] = act(alpha * sum_k a[i][j][m][k] b[i][j][k][n] + bias[n] + residual[i][j][m][n])
// b in the weights region (b_packed = 1): [panel][k][16 * vectors], shared by the batch. Otherwise in the arena with
// b_stride. bias: [panels * 16 * vectors] in the weights region. Rows of the output are stored rounded up to 16.
struct gemm_command {
    int32_t opcode;
    int32_t slices;
    place_t a;
    place_t b;  // packed: in elements of b_format
    uint32_t bias;
    place_t residual;
    place_t output;
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
    int32_t b_format;  // of packed weights: FORMAT_F32, FORMAT_BF16, FORMAT_F16 or FORMAT_I8
};

}  // namespace fpga
