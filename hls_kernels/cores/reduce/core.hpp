// core: reduce; opcodes: reduce
// activations of reduce: F32, U8, I8

// Reductions and normalisations over up to three dimensions. Vector lanes run along the last reduced dimension if it is
// contiguous: a row of the result has its lanes merged at the end, and short rows go REDUCE_WAYS at a time. Otherwise they
// run along the last kept dimension: REDUCE_WAYS * 16 rows at a time, one lane each. Records that allow neither go element
// by element. A row is walked once per pass. On the card up to REDUCE_ROW floats of it stay in local memory after the first
// pass.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/epilogue.hpp"
#include "lib/reduce_steps.hpp"
#include "lib/vector.hpp"
#include "plan.hpp"
#include "tiles.hpp"
#include "walk.hpp"

namespace fpga {

// One result per row, at `offset` from where the command's output has it.
inline void write_results(const reduce_item& item, vec16* arena, const vec16 (&y)[REDUCE_WAYS][1], int64_t offset) {
results:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        const int64_t at = item.at.output + offset + j * item.way.output;
        if (item.row_in_lanes) {
            if (item.row_in_way || j == 0) store_scalar(arena, at, y[j][0][0]);
        } else {
            const int32_t lanes = item.width - j * VEC;
            if (lanes > 0) store_some(arena, at, y[j][0], lanes);
        }
    }
}

// The first pass of every kind.
inline void first_walk(const reduce_command& c, const reduce_plan& p, const reduce_item& item, vec16* arena,
                       float* held, const row_values& row, accumulators& a) {
    const bool hold = REDUCE_HOLDS_INPUT && item.fits;
    if (p.of_bytes) {
        hold_bytes(p, item, real_input_of(c), arena, held);
        switch (c.kind) {
            case REDUCE_RMS_NORM: return walk<STEP_SQUARES, FROM_HELD>(p, item, arena, held, false, row, a);
            case REDUCE_NORM: return walk<STEP_SUM, FROM_HELD>(p, item, arena, held, false, row, a);
            default: return walk<STEP_LARGEST, FROM_HELD>(p, item, arena, held, false, row, a);
        }
    }
    switch (c.kind) {
        case REDUCE_MAX: return walk<STEP_MAX, FROM_BANK>(p, item, arena, held, false, row, a);
        case REDUCE_MIN: return walk<STEP_MIN, FROM_BANK>(p, item, arena, held, false, row, a);
        case REDUCE_PROD: return walk<STEP_PROD, FROM_BANK>(p, item, arena, held, false, row, a);
        case REDUCE_ARGMAX: return walk<STEP_ARGMAX, FROM_BANK>(p, item, arena, held, false, row, a);
        case REDUCE_ARGMIN: return walk<STEP_ARGMIN, FROM_BANK>(p, item, arena, held, false, row, a);
        case REDUCE_RMS_NORM: return walk<STEP_SQUARES, FROM_BANK>(p, item, arena, held, hold, row, a);
        case REDUCE_SOFTMAX:  // a NaN makes the sum of exponentials NaN, and so the whole row
        case REDUCE_LOG_SOFTMAX: return walk<STEP_LARGEST, FROM_BANK>(p, item, arena, held, hold, row, a);
        default: return walk<STEP_SUM, FROM_BANK>(p, item, arena, held, hold && reduce_centers(c.kind), row, a);
    }
}

// A further pass, over the copy that the first one has left if there is one.
template <int STEP>
inline void next_walk(const reduce_plan& p, const reduce_item& item, vec16* arena, float* held, bool to_held,
                      const row_values& row, accumulators& a) {
    if ((REDUCE_HOLDS_INPUT || p.of_bytes) && item.fits)
        walk<STEP, FROM_HELD>(p, item, arena, held, to_held, row, a);
    else
        walk<STEP, FROM_BANK>(p, item, arena, held, to_held, row, a);
}

// A sum may leave the range of a float where its result does not: partial sums of numbers of either sign, sums behind a
// mean, squares behind a standard deviation. Such rows are walked once more, times a power of two, which is exact. A row
// has fewer than 2^31 elements, so that no sum overflows then and no square that matters is denormal.
constexpr float SUM_SCALE = 0x1p-32f;
constexpr float LARGE_SCALE = 0x1p-82f;   // of distances whose squares add up to infinity
constexpr float SMALL_SCALE = 0x1p+104f;  // of distances whose squares add up to less than SMALL_SQUARES
constexpr float SMALL_SQUARES = 0x1p-90f;
constexpr float SMALL_EPS = 0x1p-85f;   // from which on such squares do not matter beside it
constexpr float SMALL_MEAN = 0x1p-20f;  // from which on distances are 0 or have squares of full precision

// Lanes of way j whose sums are those of rows.
FPGA_INLINE ivec16 lanes_of_rows(const reduce_item& item, int j) {
    if (item.row_in_lanes) return ivec16(-1);
    return vlt(lane_numbers(), ivec16(item.width - j * VEC));
}

// What the lanes of way j have gathered of their row: where all ways belong to one, it is in the first.
FPGA_INLINE vec16 of_row(const reduce_item& item, const vec16 (&gathered)[REDUCE_WAYS], int j) {
    const bool one_row = item.row_in_lanes && !item.row_in_way;
    return one_row ? gathered[0] : gathered[j];
}

// Whether a row's sum is not finite, or below `smallest`.
FPGA_INLINE bool leaves_range(const reduce_item& item, const accumulators& a, float smallest) {
    ivec16 found(0);
ways:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        const vec16 sum = of_row(item, a.sum, j);
        const ivec16 beyond = vlt(sum, vec16(smallest)) | select(is_finite(sum), ivec16(0), ivec16(-1));
        found = found | (beyond & lanes_of_rows(item, j));
    }
    return any(found);
}

FPGA_INLINE void set_scale(row_values& row, int j, const ivec16& where, float scale) {
    row.scale[j] = select(where, vec16(scale), row.scale[j]);
    row.unit[j] = select(where, vec16(1.0f / scale), row.unit[j]);
}

FPGA_INLINE void clear_scales(row_values& row) {
ways:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        row.scale[j] = row.unit[j] = vec16(1.0f);
    }
}

// Adds up once more, rows whose sum is not finite in the unit 1 / SUM_SCALE.
FPGA_NOINLINE void add_up_scaled(const reduce_plan& p, const reduce_item& item, vec16* arena, float* held,
                                 accumulators& a, row_values& row) {
    clear_scales(row);
scales:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        set_scale(row, j, select(is_finite(of_row(item, a.sum, j)), ivec16(0), lanes_of_rows(item, j)), SUM_SCALE);
    }
    row.scaled = true;
    walk<STEP_SCALED_SUM, FROM_BANK>(p, item, arena, held, false, row, a);
}

// The distances and their squares once more, in units with which the squares' sums are floats.
FPGA_NOINLINE void center_scaled(const reduce_plan& p, const reduce_item& item, float smallest, vec16* arena,
                                 float* held, accumulators& a, row_values& row) {
    clear_scales(row);
scales:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        const vec16 squares = of_row(item, a.sum, j);
        const ivec16 rows = lanes_of_rows(item, j), near_zero = vlt(vabs(row.center[j]), vec16(SMALL_MEAN));
        set_scale(row, j, select(is_finite(squares), ivec16(0), rows), LARGE_SCALE);
        set_scale(row, j, rows & near_zero & vlt(squares, vec16(smallest)), SMALL_SCALE);
        row.center[j] = row.center[j] * row.scale[j];
    }
    row.scaled = true;
    next_walk<STEP_SCALED_CENTERED>(p, item, arena, held, false, row, a);
}

inline void center_rows(const reduce_command& c, const reduce_plan& p, const reduce_item& item, vec16* arena,
                        float* held, accumulators& a, row_values& row) {
    next_walk<STEP_CENTERED>(p, item, arena, held, false, row, a);
    row.scaled = false;
    const float smallest = c.kind == REDUCE_NORM && c.eps >= SMALL_EPS ? -1.0f : SMALL_SQUARES;
    if (leaves_range(item, a, smallest)) center_scaled(p, item, smallest, arena, held, a, row);
}

// What the sums of a row's last pass say about its results; Value is a vec16, or a float where all lanes are alike.
template <class Value>
FPGA_INLINE void row_result(const reduce_command& c, const Value& sum, const Value& other, const Value& share,
                            bool scaled, const Value& scale, Value& factor, Value& offset) {
    const Value one(1.0f), zero(0.0f), eps(c.eps);
    factor = one;
    offset = zero;
    switch (c.kind) {
        case REDUCE_SOFTMAX: factor = one / sum; break;
        case REDUCE_LOG_SOFTMAX: offset = zero - vlog(sum * Value(1.0f / DECAY_SCALE)); break;
        case REDUCE_RMS_NORM: factor = one / vsqrt(sum * share + eps); break;
        default:
            offset = other * share;  // what rounding took from the mean
            // Of equal numbers nothing is to be left: a little more is taken than rounding may have added.
            factor = vmax(sum * share - opaque(offset * offset * Value(1.000001f)), zero);
            if (c.kind == REDUCE_DEVIATION) factor = vsqrt(factor);
            if (c.kind != REDUCE_NORM) break;
            if (scaled)  // eps times a small scale's square may be 0
                factor = one / vmax(vsqrt(factor + eps * scale * scale), vsqrt(eps) * scale);
            else
                factor = one / vsqrt(factor + eps);
            offset = zero - offset * factor;
    }
}

// The further passes: for each way what write_rows needs. Kinds with moments have the spread as their factor, and as
// their offset what the mean lacks.
inline void prepare_rows(const reduce_command& c, const reduce_plan& p, const reduce_item& item, float share,
                         vec16* arena, float* held, accumulators& a, row_values& row) {
centers:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        const vec16 x = of_row(item, a.sum, j);
        row.center[j] = reduce_centers(c.kind) ? x * vec16(share) : x;
        if (row.scaled) row.center[j] = row.center[j] * row.unit[j];
    }
    if (reduce_centers(c.kind)) center_rows(c, p, item, arena, held, a, row);
    if (c.kind == REDUCE_SOFTMAX) next_walk<STEP_EXP>(p, item, arena, held, item.fits, row, a);
    if (c.kind == REDUCE_LOG_SOFTMAX) next_walk<STEP_EXP>(p, item, arena, held, false, row, a);
factors:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        if (item.row_in_lanes) {
            float factor, offset;
            row_result<float>(c, of_row(item, a.sum, j)[0], of_row(item, a.other, j)[0], share, row.scaled,
                              row.scaled ? row.scale[j][0] : 1.0f, factor, offset);
            row.factor[j] = vec16(factor);
            row.offset[j] = vec16(offset);
        } else {
            row_result<vec16>(c, a.sum[j], a.other[j], vec16(share), row.scaled,
                              row.scaled ? row.scale[j] : vec16(1.0f), row.factor[j], row.offset[j]);
        }
    }
}

template <int KIND>
inline void write_kind(const reduce_command& c, const reduce_plan& p, const reduce_item& item, vec16* arena,
                       const vec16* weights, const float* held, const row_values& row) {
    if (item.fits && (REDUCE_HOLDS_INPUT || p.of_bytes || KIND == REDUCE_SOFTMAX))
        write_rows<KIND, FROM_HELD>(c, p, item, arena, weights, held, row);
    else
        write_rows<KIND, FROM_BANK>(c, p, item, arena, weights, held, row);
}

inline void reduce_rows(const reduce_command& c, const reduce_plan& p, const reduce_item& item, float share,
                        vec16* arena, const vec16* weights, float* held) {
    accumulators a;
    row_values row;
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) row.center[j] = vec16(0.0f);
    row.scaled = false;
    first_walk(c, p, item, arena, held, row, a);
    const bool sums = c.kind == REDUCE_SUM || c.kind == REDUCE_MEAN || reduce_centers(c.kind);
    if (sums && !p.of_bytes && leaves_range(item, a, -FLOAT_INFINITY)) add_up_scaled(p, item, arena, held, a, row);
    if (reduce_keeps_size(c.kind) || reduce_has_moments(c.kind)) prepare_rows(c, p, item, share, arena, held, a, row);
    switch (c.kind) {
        case REDUCE_SOFTMAX: return write_kind<REDUCE_SOFTMAX>(c, p, item, arena, weights, held, row);
        case REDUCE_LOG_SOFTMAX: return write_kind<REDUCE_LOG_SOFTMAX>(c, p, item, arena, weights, held, row);
        case REDUCE_NORM:
            if (row.scaled) return write_kind<NORM_OF_SCALED>(c, p, item, arena, weights, held, row);
            return write_kind<REDUCE_NORM>(c, p, item, arena, weights, held, row);
        case REDUCE_RMS_NORM: return write_kind<REDUCE_RMS_NORM>(c, p, item, arena, weights, held, row);
        default: break;
    }
    const bool position = c.kind == REDUCE_ARGMAX || c.kind == REDUCE_ARGMIN;
    vec16 y[REDUCE_WAYS][1], spread[REDUCE_WAYS][1];
results:
    UNROLL for (int j = 0; j < REDUCE_WAYS; j++) {
#pragma HLS unroll
        y[j][0] = a.sum[j];
        if (position) y[j][0] = from_bits(select(veq(a.where[j], ivec16(NOWHERE)), ivec16(0), a.where[j]));
        if (sums && row.scaled) y[j][0] = y[j][0] * row.unit[j];
        if (c.kind == REDUCE_MEAN) y[j][0] = y[j][0] / vec16(static_cast<float>(p.count));
        if (reduce_has_moments(c.kind)) {
            // An infinite mean stays; its distance from an infinite element is NaN.
            const vec16 mean = row.center[j] + select(is_nan(row.offset[j]), vec16(0.0f), row.offset[j]);
            const vec16 unit = row.scaled ? row.unit[j] : vec16(1.0f);
            y[j][0] = mean * unit;
            spread[j][0] = row.factor[j] * unit;
            if (c.kind == REDUCE_MOMENTS) spread[j][0] = spread[j][0] * unit;
        }
    }
    if (!position) activate<REDUCE_WAYS, 1>(y, c.activation, c.act_a, c.act_b);
    write_results(item, arena, y, 0);
    if (reduce_has_moments(c.kind)) write_results(item, arena, spread, static_cast<int64_t>(c.second) - c.output);
}

inline uint32_t reduce(const reduce_command& c, const vec16*, vec16* arena, const vec16* weights, uint32_t slice,
                       uint32_t slices) {
    alignas(64) float held[tile::REDUCE_ROW];
#pragma HLS array_partition variable = held cyclic factor = 16
    const reduce_plan p = plan_reduce(c);
    const float share = 1.0f / static_cast<float>(p.count);
    const int64_t count = reduce_items(p), end = slice_begin(count, slice + 1, slices);
    int64_t i = slice_begin(count, slice, slices);
    reduce_position at = reduce_position_of(p, i);
items:
    for (; i < end; i++) {
#pragma HLS loop_tripcount min = 1 max = 1024
        reduce_rows(c, p, item_at(c, p, at), share, arena, weights, held);
        next_item(p, at);
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<reduce_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(reduce_command& c, const windows& elsewhere) {
        elsewhere.redirect_elements(bytes_of(c.in_format), c.input);
        elsewhere.redirect_elements(bytes_of(c.out_format), c.output);
        elsewhere.redirect(c.second);
    }
};

inline void reduce_bounds(const reduce_command& c, bounds& b) {
    b.require(c.kind >= REDUCE_SUM && c.kind <= REDUCE_DEVIATION, "has an unknown kind");
    b.require(activation_is_known(c.activation), "has an unknown activation");
    int64_t count = 1;
    for (int d = 0; d < 3; d++) {
        b.require(c.kept[d] >= 1 && c.reduced[d] >= 1, "has a dimension below 1");
        if (!b.ok()) return;
        b.require(count * c.reduced[d] < INT32_MAX, "reduces 2^31 elements or more to one");
        if (!b.ok()) return;
        count *= c.reduced[d];
    }
    real_bounds(c, b);
    const bool bytes = c.in_format != FORMAT_F32 || c.out_format != FORMAT_F32;
    b.require(!bytes || reduce_keeps_size(c.kind), "has bytes, which its kind does not take");
    if (!b.ok()) return;
    if (c.in_format != FORMAT_F32) {
        const reduce_plan p = plan_reduce(c);
        b.require(item_at(c, p, reduce_position_of(p, 0)).fits, "has longer rows of bytes than the core holds");
        if (!b.ok()) return;
    }
    extent input, output, affine;
    for (int d = 0; d < 3; d++) {
        input.dim(c.kept[d], c.in_stride[d]).dim(c.reduced[d], c.in_stride[3 + d]);
        output.dim(c.kept[d], c.out_stride[d]);
        if (reduce_keeps_size(c.kind)) output.dim(c.reduced[d], c.out_stride[3 + d]);
        affine.dim(c.kept[d], c.affine_stride[d]).dim(c.reduced[d], c.affine_stride[3 + d]);
    }
    b.read(REGION_ARENA, c.input, input, bytes_of(c.in_format));
    b.write(REGION_ARENA, c.output, output, bytes_of(c.out_format));
    b.require(reduce_has_moments(c.kind) == (c.second != ABSENT), "has a second result, or none, against its kind");
    if (c.second != ABSENT) b.write(REGION_ARENA, c.second, output);
    if (reduce_has_affine(c.kind) && c.scale != ABSENT) b.read(REGION_WEIGHTS, c.scale, affine);
    if (c.kind == REDUCE_NORM && c.shift != ABSENT) b.read(REGION_WEIGHTS, c.shift, affine);
}
#endif

}  // namespace fpga
