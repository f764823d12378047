// Activations that conv2d, depthwise, gemm, pool and reduce apply to their results before they store them.
#pragma once
#include "command.hpp"
#include "math.hpp"
#include "vector.hpp"

#ifdef __SYNTHESIS__
#define FPGA_NOINLINE inline
#else
#define FPGA_NOINLINE inline __attribute__((noinline))
#endif

namespace fpga {

FPGA_INLINE vec16 gelu_erf(const vec16& x) {
    const vec16 tail = vnormal_tail(vabs(x));
    return x * select(vgt(x, vec16(0.0f)), vec16(1.0f) - tail, tail);
}

FPGA_INLINE vec16 gelu_tanh(const vec16& x) {
    const vec16 inner = vec16(0.79788456080286536f) * (x + vec16(0.044715f) * x * x * x);
    return vec16(0.5f) * x * (vec16(1.0f) + vtanh(inner));
}

FPGA_INLINE vec16 hardsigmoid(const vec16& x) {
    return vclamp(x + vec16(3.0f), vec16(0.0f), vec16(6.0f)) * vec16(1.0f / 6.0f);
}

// One vector. In a loop over many, prefer apply_activation_all: it chooses once.
FPGA_INLINE vec16 apply_activation(const vec16& x, int32_t kind, float a, float b) {
    switch (kind) {
        case ACT_RELU: return vrelu(x);
        case ACT_CLAMP: return vclamp(x, vec16(a), vec16(b));
        case ACT_LEAKY_RELU: return select(vgt(x, vec16(0.0f)), x, vec16(a) * x);
        case ACT_SIGMOID: return vsigmoid(x);
        case ACT_TANH: return vtanh(x);
        case ACT_SILU: return x * vsigmoid(x);
        case ACT_GELU: return gelu_erf(x);
        case ACT_GELU_TANH: return gelu_tanh(x);
        case ACT_HARDSWISH: return x * hardsigmoid(x);
        case ACT_HARDSIGMOID: return hardsigmoid(x);
        case ACT_ELU: return select(vge(x, vec16(0.0f)), x, vec16(a) * vexpm1(x));
        default: return x;
    }
}

// \tparam KIND Activation, a constant of the enumeration.
template <int KIND>
inline void apply_to_all(vec16* x, int count, float a, float b) {
each_vector:
    for (int i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 28
        x[i] = apply_activation(x[i], KIND, a, b);
    }
}

// Chooses once for `count` vectors. Not inlined: the transcendental activations would otherwise be unrolled into every
// variant of a tile.
FPGA_NOINLINE void apply_activation_all(vec16* x, int count, int32_t kind, float a, float b) {
    switch (kind) {
        case ACT_RELU: return apply_to_all<ACT_RELU>(x, count, a, b);
        case ACT_CLAMP: return apply_to_all<ACT_CLAMP>(x, count, a, b);
        case ACT_LEAKY_RELU: return apply_to_all<ACT_LEAKY_RELU>(x, count, a, b);
        case ACT_SIGMOID: return apply_to_all<ACT_SIGMOID>(x, count, a, b);
        case ACT_TANH: return apply_to_all<ACT_TANH>(x, count, a, b);
        case ACT_SILU: return apply_to_all<ACT_SILU>(x, count, a, b);
        case ACT_GELU: return apply_to_all<ACT_GELU>(x, count, a, b);
        case ACT_GELU_TANH: return apply_to_all<ACT_GELU_TANH>(x, count, a, b);
        case ACT_HARDSWISH: return apply_to_all<ACT_HARDSWISH>(x, count, a, b);
        case ACT_HARDSIGMOID: return apply_to_all<ACT_HARDSIGMOID>(x, count, a, b);
        case ACT_ELU: return apply_to_all<ACT_ELU>(x, count, a, b);
        default: return;
    }
}

// A tile that lies in registers: the two common activations cost one or two operations a vector there.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
template <int ROWS, int VECTORS>
FPGA_INLINE void activate(vec16 (&sum)[ROWS][VECTORS], int32_t kind, float a, float b) {
    if (kind == ACT_RELU) {
    relu_rows:
        UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                sum[i][j] = vrelu(sum[i][j]);
            }
        }
    } else if (kind == ACT_CLAMP) {
        const vec16 low(a);
        const vec16 high(b);
    clamp_rows:
        UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                sum[i][j] = vclamp(sum[i][j], low, high);
            }
        }
    } else if (kind != ACT_NONE) {
        // Through a copy: an array that is indexed by a variable cannot stay in registers.
        vec16 flat[ROWS * VECTORS];
    copy_out:
        UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                flat[i * VECTORS + j] = sum[i][j];
            }
        }
        apply_activation_all(flat, ROWS * VECTORS, kind, a, b);
    copy_back:
        UNROLL for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            UNROLL for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                sum[i][j] = flat[i * VECTORS + j];
            }
        }
    }
}

#ifndef __SYNTHESIS__
FPGA_INLINE bool activation_is_known(int32_t kind) { return kind >= ACT_NONE && kind <= ACT_ELU; }
#endif

}  // namespace fpga
