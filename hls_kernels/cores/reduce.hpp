// core: reduce; opcodes: reduce
//
// Reductions and normalisations over up to three dimensions. Vector lanes run along the last reduced dimension (a row
// of the result has its lanes merged at the end) or, when that one is not contiguous, along the last kept dimension
// (REDUCE_WAYS * 16 rows at a time, one lane each). Records that allow neither go element by element. A row is walked
// once per pass; up to REDUCE_ROW floats of it stay in local memory after the first.
#pragma once
#include "../bounds.hpp"
#include "../command.hpp"
#include "../epilogue.hpp"
#include "../tiles.hpp"
#include "../vector.hpp"
#include "reduce_plan.hpp"
#include "reduce_steps.hpp"

namespace fpga {

constexpr int REDUCE_FOLD = 64;  // groups in a block, blocks in a total: sums of long rows are added up on three levels

// How a pass reaches the elements: in the bank or in the copy that an earlier pass left in the local memory.
struct pass_access {
    bool from_held;
    bool to_held;
    int32_t per_element;  // how the position grows along the lanes
};

// Up to REDUCE_GROUP elements, all of them if WHOLE.
template <int STEP, bool WHOLE>
FPGA_INLINE void take_group(accumulators& part, const vec16* arena, int64_t at, float* held, int64_t slot, int32_t left,
                            int32_t position, const pass_access& access, const vec16* center) {
ways:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        const int32_t e = j * VEC, lanes = WHOLE ? VEC : left - e;
        if (lanes > 0) {
            const ivec16 valid = WHOLE ? ivec16(-1) : vlt(lane_numbers(), ivec16(lanes));
            vec16 x;
            if (access.from_held)
                x = load(held, slot + e);
            else
                x = lanes >= VEC ? load(arena, at + e) : load_lanes(arena, at + e, lanes);
            const ivec16 where = ivec16(position) + (lane_numbers() + ivec16(e)) * ivec16(access.per_element);
            take<STEP>(part.sum[j], part.other[j], part.where[j], x, center[j], where, valid);
            if (access.to_held) store(held, slot + e, x);
        }
    }
}

// A pass over the item that gathers in `a`. `first`: reads the bank, and leaves a copy in `held` if the item fits;
// otherwise reads that copy if there is one. STEP_EXP replaces the copy by the exponentials.
template <int STEP>
inline void walk(const reduce_plan& p, const reduce_item& item, const vec16* arena, float* held, bool first, bool keep,
                 const vec16* center, accumulators& a) {
    accumulators part, block, total;
    start<STEP>(part);
    start<STEP>(block);
    start<STEP>(total);
    pass_access access;
    access.from_held = !first && item.fits;
    access.to_held = item.fits && keep && (first || STEP == STEP_EXP);
    access.per_element = item.row_in_lanes ? 1 : 0;
    const vec16 middle[REDUCE_WAYS] = {center[0], center[1], center[2], center[3]};
    int32_t position = 0, groups = 0, blocks = 0;
    int64_t slot = 0;
outer_segments:
    for (int32_t s0 = 0; s0 < item.segments[0]; s0++) {
#pragma HLS loop_tripcount min=1 max=1
    middle_segments:
        for (int32_t s1 = 0; s1 < item.segments[1]; s1++) {
#pragma HLS loop_tripcount min=1 max=1
        inner_segments:
            for (int32_t s2 = 0; s2 < item.segments[2]; s2++) {
#pragma HLS loop_tripcount min=1 max=49
                const int64_t s[3] = {s0, s1, s2};
                const int64_t at =
                    item.input + s[0] * p.in_stride[3] + s[1] * p.in_stride[4] + s[2] * p.in_stride[5];
            along_lanes:
                for (int32_t i = 0; i < item.width; i += REDUCE_GROUP) {
#pragma HLS pipeline II=4
#pragma HLS loop_tripcount min=1 max=16
                    const int32_t left = item.width - i, here = position + i * access.per_element;
                    if (left >= REDUCE_GROUP)
                        take_group<STEP, true>(part, arena, at + i, held, slot + i, left, here, access, middle);
                    else
                        take_group<STEP, false>(part, arena, at + i, held, slot + i, left, here, access, middle);
                    if (step_adds<STEP>() && ++groups == REDUCE_FOLD) {
                        groups = 0;
                        add_sums(block, part);
                        start<STEP>(part);
                        if (++blocks == REDUCE_FOLD) {
                            blocks = 0;
                            add_sums(total, block);
                            start<STEP>(block);
                        }
                    }
                }
                slot += round_up(item.width, VEC);
                position += item.row_in_lanes ? item.width : 1;
            }
        }
    }
    a = part;
    if (step_adds<STEP>()) {
        add_sums(a, block);
        add_sums(a, total);
    }
    if (item.row_in_lanes) finish_row<STEP>(a);
}

// scale or shift for the elements from `at` on.
inline vec16 load_affine(const vec16* weights, int64_t at, int32_t stride, int32_t lanes) {
    if (stride == 0) return vec16(scalar_at(weights, at));
    if (stride == 1) return lanes >= VEC ? load(weights, at) : load_lanes(weights, at, lanes);
    alignas(64) float lane[VEC];
gather_affine:
    for (int i = 0; i < VEC; i++)
        lane[i] = i < lanes ? scalar_at(weights, at + static_cast<int64_t>(i) * stride) : 0.0f;
    return load(lane, 0);
}

// What is known of an item's rows before its results are written: y = (x - center - rest) * factor.
struct row_values {
    vec16 center[REDUCE_WAYS];
    vec16 rest[REDUCE_WAYS];
    vec16 factor[REDUCE_WAYS];
};

FPGA_INLINE vec16 reduce_result(const reduce_command& c, const vec16& x, const row_values& row, int j, bool held) {
    if (c.kind == REDUCE_SOFTMAX) return (held ? x : vexp(x - row.center[j])) * row.factor[j];
    if (c.kind == REDUCE_RMS_NORM) return x * row.factor[j];
    const vec16 d = (x - row.center[j]) - row.rest[j];
    return c.kind == REDUCE_NORM ? d * row.factor[j] : d;
}

// The pass that writes the results of kinds that keep the size.
inline void write_rows(const reduce_command& c, const reduce_plan& p, const reduce_item& item, vec16* arena,
                       const vec16* weights, const float* held, const row_values& row) {
    const bool scaled = reduce_has_affine(c.kind) && c.scale != ABSENT;
    const bool shifted = c.kind == REDUCE_NORM && c.shift != ABSENT;
    const int32_t lane_stride = p.lane_dimension < 6 ? p.affine_stride[p.lane_dimension] : 0;
    int64_t slot = 0;
outer_segments:
    for (int32_t s0 = 0; s0 < item.segments[0]; s0++) {
#pragma HLS loop_tripcount min=1 max=1
    middle_segments:
        for (int32_t s1 = 0; s1 < item.segments[1]; s1++) {
#pragma HLS loop_tripcount min=1 max=1
        inner_segments:
            for (int32_t s2 = 0; s2 < item.segments[2]; s2++) {
#pragma HLS loop_tripcount min=1 max=49
                const int64_t s[3] = {s0, s1, s2};
                int64_t from = item.input, to = item.output, affine = item.affine;
                UNROLL for (int d = 0; d < 3; d++) {
#pragma HLS unroll
                    from += s[d] * p.in_stride[3 + d];
                    to += s[d] * p.out_stride[3 + d];
                    affine += s[d] * p.affine_stride[3 + d];
                }
            along_lanes:
                for (int32_t i = 0; i < item.width; i += REDUCE_GROUP) {
#pragma HLS pipeline II=4
#pragma HLS loop_tripcount min=1 max=16
                    vec16 y[REDUCE_WAYS];
#pragma HLS array_partition variable=y complete
                    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
                        const int32_t e = i + j * VEC, lanes = item.width - e;
                        y[j] = vec16(0.0f);
                        if (lanes > 0) {
                            const vec16 x = item.fits      ? load(held, slot + e)
                                            : lanes >= VEC ? load(arena, from + e)
                                                           : load_lanes(arena, from + e, lanes);
                            y[j] = reduce_result(c, x, row, j, item.fits);
                            const int64_t at = affine + static_cast<int64_t>(e) * lane_stride;
                            if (scaled) y[j] *= load_affine(weights, c.scale + at, lane_stride, lanes);
                            if (shifted) y[j] += load_affine(weights, c.shift + at, lane_stride, lanes);
                        }
                    }
                    if (c.activation != ACT_NONE) apply_activation_all(y, REDUCE_WAYS, c.activation, c.act_a, c.act_b);
                    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
                        const int32_t e = i + j * VEC, lanes = item.width - e;
                        if (lanes >= VEC)
                            store(arena, to + e, y[j]);
                        else if (lanes > 0)
                            store_lanes(arena, to + e, y[j], lanes);
                    }
                }
                slot += round_up(item.width, VEC);
            }
        }
    }
}

// One result per row.
inline void write_results(const reduce_command& c, const reduce_item& item, vec16* arena, vec16* y, bool activate) {
    if (activate && c.activation != ACT_NONE) apply_activation_all(y, REDUCE_WAYS, c.activation, c.act_a, c.act_b);
    const int32_t width = item.row_in_lanes ? 1 : item.width;
results:
    for (int j = 0; j * VEC < width; j++) {
#pragma HLS loop_tripcount min=1 max=4
        const int32_t lanes = width - j * VEC;
        if (lanes >= VEC)
            store(arena, item.output + j * VEC, y[j]);
        else
            store_lanes(arena, item.output + j * VEC, y[j], lanes);
    }
}

// The first pass of every kind.
inline void first_walk(const reduce_command& c, const reduce_plan& p, const reduce_item& item, vec16* arena,
                       float* held, const vec16* center, accumulators& a) {
    switch (c.kind) {
        case REDUCE_MAX: return walk<STEP_MAX>(p, item, arena, held, true, false, center, a);
        case REDUCE_MIN: return walk<STEP_MIN>(p, item, arena, held, true, false, center, a);
        case REDUCE_PROD: return walk<STEP_PROD>(p, item, arena, held, true, false, center, a);
        case REDUCE_ARGMAX: return walk<STEP_ARGMAX>(p, item, arena, held, true, false, center, a);
        case REDUCE_ARGMIN: return walk<STEP_ARGMIN>(p, item, arena, held, true, false, center, a);
        case REDUCE_RMS_NORM: return walk<STEP_SQUARES>(p, item, arena, held, true, true, center, a);
        case REDUCE_SOFTMAX:
        case REDUCE_LOG_SOFTMAX: return walk<STEP_MAX>(p, item, arena, held, true, true, center, a);
        default: return walk<STEP_SUM>(p, item, arena, held, true, c.kind == REDUCE_NORM, center, a);
    }
}

// The further passes of the kinds that keep the size: way by way what write_rows needs.
inline void prepare_rows(const reduce_command& c, const reduce_plan& p, const reduce_item& item, vec16* arena,
                         float* held, accumulators& a, row_values& row) {
    const vec16 count(static_cast<float>(p.count)), one(1.0f), eps(c.eps);
    const int ways = item.row_in_lanes ? 1 : REDUCE_WAYS;  // all ways hold the same row
centers:
    for (int j = 0; j < REDUCE_WAYS; j++) {
        row.center[j] = c.kind == REDUCE_NORM ? a.sum[j] / count : a.sum[j];
        row.rest[j] = vec16(0.0f);
    }
    if (c.kind == REDUCE_NORM) walk<STEP_CENTERED>(p, item, arena, held, false, false, row.center, a);
    if (c.kind == REDUCE_SOFTMAX || c.kind == REDUCE_LOG_SOFTMAX)
        walk<STEP_EXP>(p, item, arena, held, false, c.kind == REDUCE_SOFTMAX, row.center, a);
factors:
    for (int j = 0; j < ways; j++) {
#pragma HLS loop_tripcount min=1 max=4
        if (c.kind == REDUCE_SOFTMAX) {
            row.factor[j] = one / a.sum[j];
        } else if (c.kind == REDUCE_LOG_SOFTMAX) {
            row.rest[j] = vlog(a.sum[j]);
        } else if (c.kind == REDUCE_RMS_NORM) {
            row.factor[j] = one / vsqrt(a.sum[j] / count + eps);
        } else {
            row.rest[j] = a.other[j] / count;  // what rounding took from the mean
            const vec16 variance = vmax(a.sum[j] / count - row.rest[j] * row.rest[j], vec16(0.0f));
            row.factor[j] = one / vsqrt(variance + eps);
        }
    }
same_row:
    for (int j = ways; j < REDUCE_WAYS; j++) {
#pragma HLS loop_tripcount min=0 max=3
        row.rest[j] = row.rest[0];
        row.factor[j] = row.factor[0];
    }
}

inline void reduce_rows(const reduce_command& c, const reduce_plan& p, const reduce_item& item, vec16* arena,
                        const vec16* weights, float* held) {
    accumulators a;
    row_values row;
    for (int j = 0; j < REDUCE_WAYS; j++) row.center[j] = vec16(0.0f);
    first_walk(c, p, item, arena, held, row.center, a);
    if (reduce_keeps_size(c.kind)) {
        prepare_rows(c, p, item, arena, held, a, row);
        write_rows(c, p, item, arena, weights, held, row);
        return;
    }
    const bool position = c.kind == REDUCE_ARGMAX || c.kind == REDUCE_ARGMIN;
results:
    for (int j = 0; j < REDUCE_WAYS; j++) {
        if (position) a.sum[j] = from_bits(select(veq(a.where[j], ivec16(NOWHERE)), ivec16(0), a.where[j]));
        if (c.kind == REDUCE_MEAN) a.sum[j] = a.sum[j] / vec16(static_cast<float>(p.count));
    }
    write_results(c, item, arena, a.sum, !position);
}

inline uint32_t reduce(const reduce_command& c, const vec16*, vec16* arena, const vec16* weights, uint32_t slice,
                       uint32_t slices) {
    alignas(64) float held[tile::REDUCE_ROW];
#pragma HLS array_partition variable=held cyclic factor=16
    const reduce_plan p = plan_reduce(c);
    const int64_t count = reduce_items(p), end = slice_begin(count, slice + 1, slices);
items:
    for (int64_t i = slice_begin(count, slice, slices); i < end; i++) {
#pragma HLS loop_tripcount min=1 max=1024
        reduce_rows(c, p, item_at(c, p, i), arena, weights, held);
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
inline void reduce_bounds(const reduce_command& c, bounds& b) {
    b.require(c.kind >= REDUCE_SUM && c.kind <= REDUCE_PROD, "has an unknown kind");
    b.require(activation_is_known(c.activation), "has an unknown activation");
    int64_t count = 1;
    for (int d = 0; d < 3; d++) {
        b.require(c.kept[d] >= 1 && c.reduced[d] >= 1, "has a dimension below 1");
        if (!b.ok()) return;
        b.require(count * c.reduced[d] < INT32_MAX, "reduces 2^31 elements or more to one");
        if (!b.ok()) return;
        count *= c.reduced[d];
    }
    extent input, output, affine;
    for (int d = 0; d < 3; d++) {
        input.dim(c.kept[d], c.in_stride[d]).dim(c.reduced[d], c.in_stride[3 + d]);
        output.dim(c.kept[d], c.out_stride[d]);
        if (reduce_keeps_size(c.kind)) output.dim(c.reduced[d], c.out_stride[3 + d]);
        affine.dim(c.kept[d], c.affine_stride[d]).dim(c.reduced[d], c.affine_stride[3 + d]);
    }
    b.read(REGION_ARENA, c.input, input);
    b.write(REGION_ARENA, c.output, output);
    if (reduce_has_affine(c.kind) && c.scale != ABSENT) b.read(REGION_WEIGHTS, c.scale, affine);
    if (c.kind == REDUCE_NORM && c.shift != ABSENT) b.read(REGION_WEIGHTS, c.shift, affine);
}
#endif

}  // namespace fpga
