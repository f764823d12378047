// Nested loops over operands with strides, as cores walk them: put into the order of the output, merged where
// neighbours are contiguous for all operands, and cut into slices.
#pragma once
#include <cstdint>

#include "vector.hpp"

namespace fpga {

constexpr int NEST_DIMS = 6;
constexpr int NEST_OPERANDS = 3;  // 0 the output, 1 an input, 2 another one or the index of a gather

struct loop_nest {
    int dims;  // in use, at least 1; the last is innermost
    int32_t size[NEST_DIMS];
    int64_t stride[NEST_DIMS][NEST_OPERANDS];
};

struct nest_position {
    int32_t at[NEST_DIMS];
    int64_t offset[NEST_OPERANDS];
};

inline void swap_dimensions(loop_nest& n, int a, int b) {
    const int32_t size = n.size[a];
    n.size[a] = n.size[b];
    n.size[b] = size;
operands:
    for (int k = 0; k < NEST_OPERANDS; k++) {
        const int64_t stride = n.stride[a][k];
        n.stride[a][k] = n.stride[b][k];
        n.stride[b][k] = stride;
    }
}

FPGA_INLINE int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

// Drops dimensions of size 1, sorts by the output's stride, merges.
inline void simplify(loop_nest& n) {
    int kept = 0;
drop:
    for (int d = 0; d < n.dims; d++)
        if (n.size[d] != 1) swap_dimensions(n, kept++, d);
    n.dims = kept > 0 ? kept : 1;
sort:
    for (int i = 1; i < n.dims; i++)
        for (int d = i; d > 0 && magnitude(n.stride[d - 1][0]) < magnitude(n.stride[d][0]); d--)
            swap_dimensions(n, d - 1, d);
merge:
    for (int d = n.dims - 1; d > 0; d--) {
        bool joins = static_cast<int64_t>(n.size[d - 1]) * n.size[d] < (1 << 30);
        for (int k = 0; k < NEST_OPERANDS; k++) joins = joins && n.stride[d - 1][k] == n.stride[d][k] * n.size[d];
        if (!joins) continue;
        n.size[d - 1] *= n.size[d];
        for (int k = 0; k < NEST_OPERANDS; k++) n.stride[d - 1][k] = n.stride[d][k];
        n.dims--;
        for (int e = d; e < n.dims; e++) swap_dimensions(n, e, e + 1);
    }
}

// Iterations of the outer `dims` dimensions.
FPGA_INLINE int64_t iterations(const loop_nest& n, int dims) {
    int64_t count = 1;
    for (int d = 0; d < dims; d++) count *= n.size[d];
    return count;
}

// Iteration number `index` of the outer `dims` dimensions.
inline nest_position position_at(const loop_nest& n, int dims, int64_t index) {
    nest_position p = {};
dimensions:
    for (int d = dims - 1; d >= 0; d--) {
        p.at[d] = static_cast<int32_t>(index % n.size[d]);
        index /= n.size[d];
        for (int k = 0; k < NEST_OPERANDS; k++) p.offset[k] += p.at[d] * n.stride[d][k];
    }
    return p;
}

FPGA_INLINE void advance(const loop_nest& n, int dims, nest_position& p) {
carry:
    for (int d = dims - 1; d >= 0; d--) {
        const bool carries = ++p.at[d] == n.size[d];
        const int64_t steps = carries ? 1 - static_cast<int64_t>(n.size[d]) : 1;
        for (int k = 0; k < NEST_OPERANDS; k++) p.offset[k] += steps * n.stride[d][k];
        if (!carries) return;
        p.at[d] = 0;
    }
}

// What an operand reaches.
#ifndef __SYNTHESIS__
// \tparam Extent Type of the extent, with a member dim(size, stride).
template <class Extent>
inline Extent strided_extent(const int32_t* size, const int32_t* stride, int dims) {
    Extent e;
    for (int d = 0; d < dims; d++) e.dim(size[d], stride[d]);
    return e;
}
#endif

}  // namespace fpga
