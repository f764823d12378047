// From float32 sums of bfloat16 products to what a command stores: x = act(alpha * sum + bias + residual), in float32, rounded
// once where the result is bfloat16.
#pragma once
#include "command.hpp"
#include "lib/dot/block.hpp"
#include "lib/epilogue.hpp"
#include "lib/vector_bf16.hpp"

namespace fpga {

struct bf16_epilogue {
    uint32_t bias;     // weights, floats, or ABSENT
    place_t residual;  // arena, in elements of its format, or ABSENT
    place_t output;
    int32_t residual_format, out_format;
    float alpha;
    int32_t activation;
    float a, b;
};

// Pixels at a time, for which an activation is chosen once.
constexpr int32_t BF16_AT_ONCE = 16;

// Sums that wait at sums[row[i] * pitch + j] (bits of floats) of pixels whose results and residuals lie at output[i] and
// residual[i]; `column`: of vector j's first channel, from the first of a pixel, and `channel` from the bias's.
inline void finish_bf16(const ivec16* sums, int32_t pitch, const int32_t* row, int32_t count, const uint32_t* output,
                        const uint32_t* residual, int32_t j, uint32_t column, uint32_t channel, const bf16_epilogue& e,
                        vec16* arena, const vec16* weights) {
    const vec16 alpha(e.alpha);
    const vec16 bias = e.bias == ABSENT ? vec16(0.0f) : load(weights, static_cast<int64_t>(e.bias) + channel);
groups:
    for (int32_t first = 0; first < count; first += BF16_AT_ONCE) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t many = minimum(count - first, BF16_AT_ONCE);
        vec16 x[BF16_AT_ONCE];
    scale:
        for (int32_t i = 0; i < many; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 16
            x[i] = from_bits(sums[static_cast<int64_t>(row[first + i]) * pitch + j]) * alpha + bias;
        }
        if (e.residual != ABSENT) {
        add:
            for (int32_t i = 0; i < many; i++) {
#pragma HLS pipeline
#pragma HLS loop_tripcount min = 1 max = 16
                const int64_t at = static_cast<int64_t>(e.residual) + residual[first + i] + column;
                x[i] += e.residual_format == FORMAT_BF16 ? from_bf16(load_halves(arena, at, VEC)) : load(arena, at);
            }
        }
        if (e.activation != ACT_NONE) apply_activation_all(x, many, e.activation, e.a, e.b);
    keep:
        for (int32_t i = 0; i < many; i++) {
#pragma HLS pipeline
#pragma HLS loop_tripcount min = 1 max = 16
            const int64_t at = static_cast<int64_t>(e.output) + output[first + i] + column;
            if (e.out_format == FORMAT_BF16)
                store_bf16(arena, at, x[i]);
            else
                store(arena, at, x[i]);
        }
    }
}

}  // namespace fpga
