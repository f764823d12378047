// Record of the core attention. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

// output[i][j][m][n] = sum_k softmax_k(scale * sum_d query[i][j][m][d] key[i][j][d][k] + mask[i][j][m][k]) value[i][j][k][n]
// Rows of the output are stored rounded up to 16. A row of scores that are all -inf gives NaN, or 0 where masked_to_zero.
struct attention_command {
    int32_t opcode;
    int32_t slices;
    place_t query;
    place_t key;
    place_t value;
    place_t mask;  // arena or weights, or ABSENT
    place_t output;
    int32_t batch[2];
    int32_t rows;             // m, of the query
    int32_t keys;             // k
    int32_t width;            // d, of a query and a key
    int32_t value_width;      // n
    int32_t query_stride[3];  // batch 0, batch 1, m; d's is 1
    int32_t key_stride[4];    // batch 0, batch 1, d, k; either d's or k's is 1
    int32_t value_stride[4];  // batch 0, batch 1, k, n; either k's or n's is 1
    int32_t mask_stride[4];   // batch 0, batch 1, m, k; k's is 1 or 0
    int32_t out_stride[3];    // batch 0, batch 1, m; n's is 1
    float scale;
    int32_t mask_in_weights;  // 1: the mask lies in the weights region
    int32_t masked_to_zero;
};

}  // namespace fpga
