// How reduce walks a command: its dimensions merged, where the vector lanes go, and the rows of one work item.
#pragma once
#include <cstdint>

#include "command.hpp"
#include "lib/int8/real.hpp"
#include "lib/reduce_steps.hpp"
#include "lib/vector.hpp"
#include "tiles.hpp"

namespace fpga {

constexpr int REDUCE_GROUP = REDUCE_WAYS * VEC;
constexpr int32_t REDUCE_SHORT = 1024;  // rows of up to so many floats go through the ways side by side

static_assert(tile::REDUCE_ROW % REDUCE_GROUP == 0, "a row is a whole number of groups");

FPGA_INLINE bool reduce_keeps_size(int32_t kind) {
    return kind == REDUCE_SOFTMAX || kind == REDUCE_LOG_SOFTMAX || kind == REDUCE_NORM || kind == REDUCE_RMS_NORM;
}
// Kinds with a mean and a measure of the spread as their results.
FPGA_INLINE bool reduce_has_moments(int32_t kind) { return kind == REDUCE_MOMENTS || kind == REDUCE_DEVIATION; }
// Kinds whose second pass gathers distances from the mean.
FPGA_INLINE bool reduce_centers(int32_t kind) { return kind == REDUCE_NORM || reduce_has_moments(kind); }
FPGA_INLINE bool reduce_has_affine(int32_t kind) { return kind == REDUCE_NORM || kind == REDUCE_RMS_NORM; }

// The command's dimensions with contiguous neighbours merged inwards: kept 0..2, reduced 3..5. Lanes go along dimension
// `lane_dimension`; 6 stands for a seventh of size 1.
struct reduce_plan {
    int32_t size[6];
    int32_t in_stride[6];
    int32_t out_stride[6];
    int32_t affine_stride[6];
    int32_t lane_dimension;
    int32_t bundles;  // items of REDUCE_WAYS rows of dimension 2, one a way; they come first
    int32_t pieces;   // items along dimension 2
    int64_t count;    // elements that are reduced to one
    bool of_bytes;    // which come as floats into the local memory first
};

// How far apart neighbours lie in the input, the output, and the scale and shift.
struct reduce_offset {
    int64_t input;
    int64_t output;
    int64_t affine;
};

// One walk: a row, or several. A group is one vector for each way, from `width` elements that lie side by side.
struct reduce_item {
    reduce_offset at;
    reduce_offset way;  // from one way's vector to the next one's
    int32_t width;
    int32_t group;        // elements of `width` that a group takes
    int32_t segments[3];  // reduced dimensions outside the lanes
    bool row_in_lanes;    // lanes belong to one row; else each is a row of its own
    bool row_in_way;      // each way is a row of its own
    bool fits;            // in the local memory
};

// Counts the items of a slice.
struct reduce_position {
    int32_t i0, i1, piece;
};

// Counts the segments of an item.
struct reduce_segment {
    int32_t s[3];
    reduce_offset at;
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
    p.of_bytes = c.in_format != FORMAT_F32;
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
    p.bundles = 0;
    p.pieces = p.size[2];
    if (p.size[5] > 1 && p.in_stride[5] == 1 && p.out_stride[5] == 1) {
        p.lane_dimension = 5;
        if (p.size[5] <= REDUCE_SHORT) p.bundles = p.size[2] / REDUCE_WAYS;
        p.pieces -= p.bundles * (REDUCE_WAYS - 1);
    } else if (p.size[2] > 1 && p.in_stride[2] == 1 && p.out_stride[2] == 1) {
        p.lane_dimension = 2;
        p.pieces = ceil_div(p.size[2], REDUCE_GROUP);
    } else {
        p.lane_dimension = 6;
    }
    return p;
}

FPGA_INLINE int64_t reduce_items(const reduce_plan& p) {
    return static_cast<int64_t>(p.pieces) * p.size[1] * p.size[0];
}

inline reduce_position reduce_position_of(const reduce_plan& p, int64_t index) {
    reduce_position at;
    at.piece = static_cast<int32_t>(index % p.pieces);
    at.i1 = static_cast<int32_t>(index / p.pieces % p.size[1]);
    at.i0 = static_cast<int32_t>(index / p.pieces / p.size[1]);
    return at;
}

FPGA_INLINE void next_item(const reduce_plan& p, reduce_position& at) {
    if (++at.piece < p.pieces) return;
    at.piece = 0;
    if (++at.i1 < p.size[1]) return;
    at.i1 = 0;
    at.i0++;
}

FPGA_INLINE void step_by(const reduce_plan& p, int dimension, int64_t steps, reduce_offset& at) {
    at.input += steps * p.in_stride[dimension];
    at.output += steps * p.out_stride[dimension];
    at.affine += steps * p.affine_stride[dimension];
}

inline reduce_item item_at(const reduce_command& c, const reduce_plan& p, const reduce_position& at) {
    const bool kept_lanes = p.lane_dimension == 2, bundle = at.piece < p.bundles;
    const int32_t first = kept_lanes ? at.piece * REDUCE_GROUP
                          : bundle   ? at.piece * REDUCE_WAYS
                                     : p.bundles * REDUCE_WAYS + at.piece - p.bundles;
    reduce_item item = {};
    item.at.input = c.input;
    item.at.output = c.output;
    step_by(p, 0, at.i0, item.at);
    step_by(p, 1, at.i1, item.at);
    step_by(p, 2, first, item.at);
    item.row_in_lanes = !kept_lanes;
    item.row_in_way = bundle;
    item.width = p.lane_dimension == 5 ? p.size[5] : kept_lanes ? minimum(p.size[2] - first, REDUCE_GROUP) : 1;
    item.group = bundle ? VEC : REDUCE_GROUP;
    if (bundle) {
        step_by(p, 2, 1, item.way);
    } else {
        item.way.input = item.way.output = VEC;
        item.way.affine = p.lane_dimension < 6 ? static_cast<int64_t>(VEC) * p.affine_stride[p.lane_dimension] : 0;
    }
    item.segments[0] = p.size[3];
    item.segments[1] = p.size[4];
    item.segments[2] = p.lane_dimension == 5 ? 1 : p.size[5];
    item.fits = item.width <= tile::REDUCE_ROW &&
                static_cast<int64_t>(item.segments[0]) * item.segments[1] * item.segments[2] <=
                    tile::REDUCE_ROW / (ceil_div(item.width, item.group) * REDUCE_GROUP);
    return item;
}

FPGA_INLINE reduce_segment first_segment(const reduce_item& item) { return {{0, 0, 0}, item.at}; }

// False after the last one.
FPGA_INLINE bool next_segment(const reduce_plan& p, const reduce_item& item, reduce_segment& segment) {
carry:
    for (int d = 2; d >= 0; d--) {
        if (++segment.s[d] < item.segments[d]) {
            step_by(p, 3 + d, 1, segment.at);
            return true;
        }
        step_by(p, 3 + d, 1 - static_cast<int64_t>(item.segments[d]), segment.at);
        segment.s[d] = 0;
    }
    return false;
}

}  // namespace fpga
