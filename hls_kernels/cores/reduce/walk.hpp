// The passes of reduce over an item: those that gather in accumulators, and the one that writes results.
#pragma once
#include <cstdint>

#include "command.hpp"
#include "lib/epilogue.hpp"
#include "lib/reduce_steps.hpp"
#include "lib/vector.hpp"
#include "plan.hpp"
#include "tiles.hpp"

namespace fpga {

constexpr int REDUCE_FOLD = 64;  // groups in a block, blocks in a total: sums of long rows are added up on three levels

// Whether a first pass leaves a copy of the item in the local memory for those that follow. A processor's cache does
// that by itself.
#ifdef __SYNTHESIS__
constexpr bool REDUCE_HOLDS_INPUT = true;
#else
constexpr bool REDUCE_HOLDS_INPUT = false;
#endif

// How a pass reaches the elements: in the bank, or group by group in the local memory.
enum pass_source : int { FROM_BANK = 0, FROM_HELD = 1 };

// What is known of the rows of each way: y = (x - center) * factor + offset; if `scaled`, with x * scale in the place of x,
// which then stands in the unit 1 / scale. Scales are powers of two.
struct row_values {
    vec16 scale[REDUCE_WAYS];
    vec16 unit[REDUCE_WAYS];
    vec16 center[REDUCE_WAYS];
    vec16 factor[REDUCE_WAYS];
    vec16 offset[REDUCE_WAYS];
    bool scaled;
};

// REDUCE_NORM of scaled rows.
constexpr int NORM_OF_SCALED = -1;

// Elements of way j that are still to come when the first way has `left`.
FPGA_INLINE int32_t left_of_way(const reduce_item& item, int j, int32_t left) {
    return item.row_in_way ? left : left - j * VEC;
}

// A group, all of its elements if WHOLE. Those of the first way begin at `at` in the bank and at `slot` in `held`.
template <int STEP, int SOURCE, bool WHOLE>
FPGA_INLINE void take_group(accumulators& part, const reduce_item& item, const vec16* arena, int64_t at, float* held,
                            int64_t slot, bool to_held, int32_t left, int32_t position, const vec16* center,
                            const vec16* scale) {
ways:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        const int32_t lanes = WHOLE ? VEC : left_of_way(item, j, left);
        if (lanes > 0) {
            const ivec16 valid = WHOLE ? ivec16(-1) : vlt(lane_numbers(), ivec16(lanes));
            vec16 x;
            if (SOURCE == FROM_HELD)
                x = load(held, slot + j * VEC);
            else
                x = load_some(arena, at + j * item.way.input, lanes);
            ivec16 where(position);
            if (item.row_in_lanes) where += lane_numbers() + ivec16(item.row_in_way ? 0 : j * VEC);
            take<STEP>(part.sum[j], part.other[j], part.where[j], x, center[j], scale[j], where, valid);
            if (to_held) store(held, slot + j * VEC, x);
        }
    }
}

// An item of bytes, as floats, to the local memory: group by group, as passes leave their copies.
inline void hold_bytes(const reduce_plan& p, const reduce_item& item, const real_input& in, const vec16* arena,
                       float* held) {
    int64_t slot = 0;
    reduce_segment segment = first_segment(item);
segments:
    do {
#pragma HLS loop_tripcount min = 1 max = 49
    along_lanes:
        for (int32_t i = 0; i < item.width; i += item.group) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 1 max = 16
        ways:
            UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
                const int32_t lanes = left_of_way(item, j, item.width - i);
                if (lanes > 0)
                    store(held, slot + j * VEC,
                          load_reals(arena, segment.at.input + i + j * item.way.input, lanes, in));
            }
            slot += REDUCE_GROUP;
        }
    } while (next_segment(p, item, segment));
}

// A pass that gathers in `a`, for each way apart. STEP_EXP leaves the exponentials in `held` if `to_held`.
template <int STEP, int SOURCE>
inline void walk(const reduce_plan& p, const reduce_item& item, const vec16* arena, float* held, bool to_held,
                 const row_values& row, accumulators& a) {
    accumulators part, block, total;
    start<STEP>(part);
    start<STEP>(block);
    start<STEP>(total);
    const vec16 middle[REDUCE_WAYS] = {row.center[0], row.center[1], row.center[2], row.center[3]};
    const vec16 scale[REDUCE_WAYS] = {row.scale[0], row.scale[1], row.scale[2], row.scale[3]};
    int32_t position = 0, groups = 0, blocks = 0;
    int64_t slot = 0;
    reduce_segment segment = first_segment(item);
segments:
    do {
#pragma HLS loop_tripcount min = 1 max = 49
    along_lanes:
        for (int32_t i = 0; i < item.width; i += item.group) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 1 max = 16
            const int32_t left = item.width - i, here = item.row_in_lanes ? position + i : position;
            const int64_t at = segment.at.input + i;
            if (left >= item.group)
                take_group<STEP, SOURCE, true>(part, item, arena, at, held, slot, to_held, left, here, middle, scale);
            else
                take_group<STEP, SOURCE, false>(part, item, arena, at, held, slot, to_held, left, here, middle, scale);
            slot += REDUCE_GROUP;
            if (step_adds<STEP>() && ++groups == REDUCE_FOLD) {
                groups = 0;
                add_sums<STEP>(block, part);
                start<STEP>(part);
                if (++blocks == REDUCE_FOLD) {
                    blocks = 0;
                    add_sums<STEP>(total, block);
                    start<STEP>(block);
                }
            }
        }
        position += item.row_in_lanes ? item.width : 1;
    } while (next_segment(p, item, segment));
    if (step_adds<STEP>()) {
        add_sums<STEP>(part, block);
        add_sums<STEP>(part, total);
    }
    take_over<STEP>(a, part);
    if (!item.row_in_lanes) return;
    if (!item.row_in_way) {
        merge_ways<STEP>(a);
        finish_way<STEP>(a, 0);
        return;
    }
rows:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        finish_way<STEP>(a, j);
    }
}

// scale or shift for the elements from `at` on.
inline vec16 load_affine(const vec16* weights, int64_t at, int32_t stride, int32_t lanes) {
    if (stride == 0) return vec16(scalar_at(weights, at));
    if (stride == 1) return load_some(weights, at, lanes);
    alignas(64) float lane[VEC];
gather_affine:
    for (int i = 0; i < VEC; i++)
        lane[i] = i < lanes ? scalar_at(weights, at + static_cast<int64_t>(i) * stride) : 0.0f;
    return load(lane, 0);
}

template <int KIND, int SOURCE>
FPGA_INLINE vec16 reduce_result(const vec16& x, const row_values& row, int j) {
    if (KIND == REDUCE_SOFTMAX) return (SOURCE == FROM_HELD ? x : vexp_decay(x - row.center[j])) * row.factor[j];
    if (KIND == REDUCE_RMS_NORM) return x * row.factor[j];
    if (KIND == REDUCE_LOG_SOFTMAX) return x - row.center[j] + row.offset[j];
    const vec16 d = KIND == NORM_OF_SCALED ? x * row.scale[j] - row.center[j] : x - row.center[j];
    return d * row.factor[j] + row.offset[j];
}

// Where scale and shift lie and how they change along the lanes.
struct affine_access {
    bool scaled;
    bool shifted;
    bool shared;  // by the ways
    int32_t stride;
};

FPGA_INLINE void load_scale_and_shift(const reduce_command& c, const affine_access& access, const vec16* weights,
                                      int64_t at, int32_t lanes, vec16& scale, vec16& shift) {
    if (access.scaled) scale = load_affine(weights, c.scale + at, access.stride, lanes);
    if (access.shifted) shift = load_affine(weights, c.shift + at, access.stride, lanes);
}

template <int KIND, int SOURCE, bool WHOLE>
FPGA_INLINE void write_group(const reduce_command& c, const reduce_item& item, vec16* arena, const vec16* weights,
                             const float* held, const reduce_offset& at, int64_t slot, int32_t left,
                             const row_values& row, const affine_access& access, const real_output& out) {
    vec16 y[REDUCE_WAYS][1];
#pragma HLS array_partition variable = y complete
    vec16 scale(1.0f), shift(-0.0f);  // which leave every number as it is, -0 too
    if (access.shared) load_scale_and_shift(c, access, weights, at.affine, WHOLE ? VEC : left, scale, shift);
results:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        const int32_t lanes = WHOLE ? VEC : left_of_way(item, j, left);
        y[j][0] = vec16(0.0f);
        if (lanes > 0) {
            const vec16 x = SOURCE == FROM_HELD ? load(held, slot + j * VEC)
                                                : load_some(arena, at.input + j * item.way.input, lanes);
            y[j][0] = reduce_result<KIND, SOURCE>(x, row, j);
            if (!access.shared)
                load_scale_and_shift(c, access, weights, at.affine + j * item.way.affine, lanes, scale, shift);
            // Opaque, or g++ may multiply before it decides whether to load the shift, and then does not fuse the two.
            if (KIND == NORM_OF_SCALED || reduce_has_affine(KIND)) y[j][0] = y[j][0] * opaque(scale) + shift;
        }
    }
    activate<REDUCE_WAYS, 1>(y, c.activation, c.act_a, c.act_b);
stores:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        const int32_t lanes = WHOLE ? VEC : left_of_way(item, j, left);
        if (lanes > 0) store_reals(arena, at.output + j * item.way.output, y[j][0], lanes, out);
    }
}

// The pass that writes the results of kinds that keep the size.
template <int KIND, int SOURCE>
inline void write_rows(const reduce_command& c, const reduce_plan& p, const reduce_item& item, vec16* arena,
                       const vec16* weights, const float* held, const row_values& row) {
    affine_access access;
    access.scaled = reduce_has_affine(c.kind) && c.scale != ABSENT;
    access.shifted = c.kind == REDUCE_NORM && c.shift != ABSENT;
    access.shared = item.way.affine == 0;
    access.stride = p.lane_dimension < 6 ? p.affine_stride[p.lane_dimension] : 0;
    const real_output out = real_output_of(c);
    int64_t slot = 0;
    reduce_segment segment = first_segment(item);
segments:
    do {
#pragma HLS loop_tripcount min = 1 max = 49
    along_lanes:
        for (int32_t i = 0; i < item.width; i += item.group) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 1 max = 16
            reduce_offset at = segment.at;
            at.input += i;
            at.output += i;
            at.affine += static_cast<int64_t>(i) * access.stride;
            const int32_t left = item.width - i;
            if (left >= item.group)
                write_group<KIND, SOURCE, true>(c, item, arena, weights, held, at, slot, left, row, access, out);
            else
                write_group<KIND, SOURCE, false>(c, item, arena, weights, held, at, slot, left, row, access, out);
            slot += REDUCE_GROUP;
        }
    } while (next_segment(p, item, segment));
}

}  // namespace fpga
