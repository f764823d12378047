// How reduce walks a command: its dimensions merged, where the vector lanes go, and the rows of one work item.
#pragma once
#include <cstdint>

#include "../command.hpp"
#include "../tiles.hpp"
#include "../vector.hpp"
#include "reduce_steps.hpp"

namespace fpga {

constexpr int REDUCE_GROUP = REDUCE_WAYS * VEC;

static_assert(tile::REDUCE_ROW % REDUCE_GROUP == 0, "a row is a whole number of groups");

FPGA_INLINE bool reduce_keeps_size(int32_t kind) {
    return kind == REDUCE_SOFTMAX || kind == REDUCE_LOG_SOFTMAX || kind == REDUCE_NORM || kind == REDUCE_RMS_NORM;
}
FPGA_INLINE bool reduce_has_affine(int32_t kind) { return kind == REDUCE_NORM || kind == REDUCE_RMS_NORM; }

// The command's dimensions with contiguous neighbours merged inwards: kept 0..2, reduced 3..5. Lanes go along dimension
// `lane_dimension`; 6 stands for a seventh of size 1.
struct reduce_plan {
    int32_t size[6];
    int32_t in_stride[6];
    int32_t out_stride[6];
    int32_t affine_stride[6];
    int32_t lane_dimension;
    int64_t count;  // elements that are reduced to one
};

// One walk: a row, or neighbouring rows side by side in the lanes. `width` elements lie side by side.
struct reduce_item {
    int64_t input;
    int64_t output;
    int64_t affine;
    int32_t width;
    int32_t segments[3];  // reduced dimensions outside the lanes
    bool row_in_lanes;    // lanes belong to one row
    bool fits;            // in the local memory
};

inline void merge_pair(reduce_plan& p, int inner) {
    const int outer = inner - 1;
    const bool one = p.size[inner] == 1;
    const bool joins = p.size[outer] == 1 || one ||
                       (p.in_stride[outer] == static_cast<int64_t>(p.in_stride[inner]) * p.size[inner] &&
                        p.out_stride[outer] == static_cast<int64_t>(p.out_stride[inner]) * p.size[inner] &&
                        p.affine_stride[outer] == static_cast<int64_t>(p.affine_stride[inner]) * p.size[inner]);
    if (!joins) return;
    if (one && p.size[outer] != 1) {
        p.in_stride[inner] = p.in_stride[outer];
        p.out_stride[inner] = p.out_stride[outer];
        p.affine_stride[inner] = p.affine_stride[outer];
    }
    p.size[inner] *= p.size[outer];
    p.size[outer] = 1;
}

inline reduce_plan plan_reduce(const reduce_command& c) {
    reduce_plan p;
    const bool keeps = reduce_keeps_size(c.kind), affine = reduce_has_affine(c.kind);
    p.count = 1;
sizes:
    for (int d = 0; d < 3; d++) {
        p.size[d] = c.kept[d];
        p.size[3 + d] = c.reduced[d];
        p.count *= c.reduced[d];
    }
strides:
    for (int d = 0; d < 6; d++) {
        p.in_stride[d] = c.in_stride[d];
        p.out_stride[d] = d < 3 || keeps ? c.out_stride[d] : 0;
        p.affine_stride[d] = affine ? c.affine_stride[d] : 0;
        // Results of a reduced dimension have no place; its strides merge as the input's do.
        if (d >= 3 && !keeps) p.out_stride[d] = p.in_stride[d];
        if (!affine) p.affine_stride[d] = p.in_stride[d];
    }
    merge_pair(p, 2);
    merge_pair(p, 1);
    merge_pair(p, 2);
    merge_pair(p, 5);
    merge_pair(p, 4);
    merge_pair(p, 5);
    if (p.size[5] > 1 && p.in_stride[5] == 1 && p.out_stride[5] == 1)
        p.lane_dimension = 5;
    else if (p.size[2] > 1 && p.in_stride[2] == 1 && p.out_stride[2] == 1)
        p.lane_dimension = 2;
    else
        p.lane_dimension = 6;
    return p;
}

FPGA_INLINE int64_t reduce_items(const reduce_plan& p) {
    const int64_t inner = p.lane_dimension == 2 ? ceil_div(p.size[2], REDUCE_GROUP) : p.size[2];
    return inner * p.size[1] * p.size[0];
}

inline reduce_item item_at(const reduce_command& c, const reduce_plan& p, int64_t index) {
    const bool kept_lanes = p.lane_dimension == 2;
    const int64_t inner = kept_lanes ? ceil_div(p.size[2], REDUCE_GROUP) : p.size[2];
    const int64_t i2 = index % inner * (kept_lanes ? REDUCE_GROUP : 1), i1 = index / inner % p.size[1];
    const int64_t i0 = index / inner / p.size[1];
    reduce_item item;
    item.input = c.input + i0 * p.in_stride[0] + i1 * p.in_stride[1] + i2 * p.in_stride[2];
    item.output = c.output + i0 * p.out_stride[0] + i1 * p.out_stride[1] + i2 * p.out_stride[2];
    item.affine = i0 * p.affine_stride[0] + i1 * p.affine_stride[1] + i2 * p.affine_stride[2];
    item.row_in_lanes = !kept_lanes;
    item.width = 1;
    if (p.lane_dimension == 5) item.width = p.size[5];
    if (kept_lanes) item.width = minimum(p.size[2] - static_cast<int32_t>(i2), REDUCE_GROUP);
    item.segments[0] = p.size[3];
    item.segments[1] = p.size[4];
    item.segments[2] = p.lane_dimension == 5 ? 1 : p.size[5];
    item.fits = item.width <= tile::REDUCE_ROW &&
                static_cast<int64_t>(item.segments[0]) * item.segments[1] * item.segments[2] <=
                    tile::REDUCE_ROW / round_up(item.width, VEC);
    return item;
}

}  // namespace fpga
