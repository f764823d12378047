// core: fft; opcodes: fft
//
// Discrete Fourier transforms of any length that FFT_POINTS holds, or 16 times that, with prime factors up to 13. The
// vector lanes are 16 transforms side by side; with `spread` 16 parts of one. Longer transforms are two commands, and
// lengths with larger prime factors two of a longer one: before and behind a transform numbers are multiplied by tables,
// which is all that those take (fpga_dynamo/lowering/ops/signal/plan.py).
#pragma once
#include "butterfly.hpp"
#include "command.hpp"
#include "lib/bounds.hpp"
#include "load_store.hpp"
#include "tiles.hpp"
#include "walk.hpp"

namespace fpga {

inline void fft_load_table(fft_table& table, const vec16* weights, uint32_t twiddles, int32_t floats) {
#ifdef __SYNTHESIS__
table_beats:
    for (int32_t i = 0; i < ceil_div(floats, VEC); i++) {
#pragma HLS loop_tripcount min = 1 max = 192
#pragma HLS pipeline II = 1
        table[i] = weights[twiddles / VEC + i];
    }
#else
    copy_in(table, 0, weights, twiddles, floats);
#endif
}

inline uint32_t fft(const fft_command& c, const vec16*, vec16* arena, const vec16* weights, uint32_t slice,
                    uint32_t slices) {
    fft_memory memory;
#pragma HLS bind_storage variable = memory.re type = ram_s2p
#pragma HLS bind_storage variable = memory.im type = ram_s2p
    alignas(64) fft_table table;
    fft_group group;
    int32_t floats = 0;
table_sizes:
    for (int32_t pass = 0, m = c.points; pass < c.passes; pass++) {
#pragma HLS loop_tripcount min = 1 max = 10
        m /= c.radix[pass];
        floats += fft_pass_floats(c.radix[pass], m);
    }
    fft_load_table(table, weights, c.twiddles, floats);

    const int64_t groups = fft_groups_of(c), end = slice_begin(groups, slice + 1, slices);
    int64_t number = slice_begin(groups, slice, slices);
    if (number >= end) return STATUS_OK;
    fft_walk walk(c, number);
groups_of_rows:
    for (; number < end; number++) {
#pragma HLS loop_tripcount min = 1 max = 64
        walk.next(c, group);
        if (c.spread != ABSENT)
            fft_load_spread(c, arena, weights, group, memory);
        else if (fft_in_rows(c))
            fft_load_rows(c, arena, weights, group, memory);
        else
            fft_load_columns(c, arena, weights, group, memory);
        int32_t at = 0, size = 1, m = c.points, bank = 0;
    passes:
        for (int32_t pass = 0; pass < c.passes; pass++) {
#pragma HLS loop_tripcount min = 1 max = 10
            const int32_t radix = c.radix[pass], other = tile::FFT_POINTS - bank;
            m /= radix;
            run_fft_pass(memory, table, at, {bank, other, 0, 0, radix, m, size});
            bank = other;
            at += fft_pass_floats(radix, m);
            size *= radix;
        }
        if (c.spread != ABSENT)
            fft_store_spread(c, arena, weights, group, memory, bank);
        else if (fft_out_rows(c))
            fft_store_rows(c, arena, weights, group, memory, bank);
        else
            fft_store_columns(c, arena, weights, group, memory, bank);
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<fft_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(fft_command& c, const windows& elsewhere) { elsewhere.redirect(c.input, c.output); }
};

// Elements of a transform of which all columns exist, and all of which some do.
inline int32_t fft_whole(const fft_command& c, int32_t count, int32_t step) {
    return minimum(count / step, c.spread != ABSENT ? c.points * VEC : c.points);
}
inline int32_t fft_begun(const fft_command& c, int32_t count, int32_t step) {
    return minimum((static_cast<int64_t>(count) + step - 1) / step, c.spread != ABSENT ? c.points * VEC : c.points);
}

// What one side of a transform touches: `visit` gets extents.
template <class VISIT>
inline void fft_extents(const fft_command& c, const int32_t (&stride)[5], bool real, int32_t count, int32_t step,
                        VISIT visit) {
    extent outer(real ? 1 : 2);
    for (int d = 0; d < 3; d++) outer.dim(c.kept[d], stride[d]);
    const int32_t whole = fft_whole(c, count, step);
    extent all = outer;
    if (whole > 0) visit(0, all.dim(c.kept[3], stride[3]).dim(whole, stride[4]));
    if (whole < fft_begun(c, count, step)) {
        extent rest = outer;
        const int32_t columns = minimum(count - whole * step, c.kept[3]);
        visit(static_cast<int64_t>(whole) * stride[4], rest.dim(columns, stride[3]));
    }
}

inline void fft_check_factors(const fft_command& c, uint32_t table, const int32_t (&stride)[2], bool columns,
                              int32_t elements, bounds& b) {
    if (table == ABSENT) return;
    b.require(table % 2 == 0, "has factors at an odd place");
    b.require(stride[0] >= 0 && (stride[1] == 0 || (stride[1] == 1 && columns)), "has factors in no order it can take");
    b.require(c.spread == ABSENT || (stride[0] == 1 && stride[1] == 0), "spreads a transform with factors apart");
    extent e(2);
    b.read(REGION_WEIGHTS, table, e.dim(elements, 2 * int64_t(stride[0])).dim(c.kept[3], 2 * int64_t(stride[1])));
}

inline void fft_bounds(const fft_command& c, bounds& b) {
    b.require(c.points >= 1 && c.points <= tile::FFT_POINTS, "has no points, or more than FFT_POINTS");
    b.require(c.passes >= 0 && c.passes <= 14, "has more passes than it has radices");
    if (!b.ok()) return;
    int64_t product = 1, floats = 0;
    int32_t left = c.points;
    for (int32_t pass = 0; pass < c.passes; pass++) {
        const int32_t r = c.radix[pass];
        b.require(r == 4 || r == 2 || (r % 2 == 1 && r >= 3 && r <= FFT_MOST_RADIX), "has an unknown radix");
        if (!b.ok()) return;
        product *= r;
        left /= r;
        floats += fft_pass_floats(r, left);
    }
    b.require(product == c.points, "has passes that do not make up its points");
    b.require(floats <= FFT_TABLE, "has more factors than local memory");
    int64_t rows = 1;
    for (int d = 0; d < 4; d++) {
        b.require(c.kept[d] >= 1 && c.kept[d] <= 1 << 30, "has a dimension below 1, or above 2^30");
        if (!b.ok()) return;
        rows *= c.kept[d];
        b.require(rows <= 1 << 30, "has more than 2^30 rows");
    }
    for (int d = 0; d < 4; d++) b.require(c.kept[d] == 1 || c.out_stride[d] > 0, "stores a row more than once");
    b.require(c.points == 1 || c.out_stride[4] > 0, "stores backwards");
    b.require(c.twiddles % VEC == 0 && (c.spread == ABSENT || c.spread % VEC == 0), "has a table amid a beat");
    const int32_t in_unit = c.in_real ? 1 : 2, out_unit = c.out_real ? 1 : 2;
    const bool in_columns = c.kept[3] == 1 || c.in_stride[3] == in_unit;
    const bool out_columns = c.kept[3] == 1 || c.out_stride[3] == out_unit;
    b.require(fft_in_rows(c) || in_columns, "has neither contiguous rows nor columns of input");
    b.require(fft_out_rows(c) || out_columns, "has neither contiguous rows nor columns of output");
    b.require(c.spread == ABSENT || (c.in_stride[4] == in_unit && c.out_stride[4] == out_unit),
              "spreads a transform whose numbers are apart");
    b.require(c.in_count >= 1 && c.out_count >= 1 && c.in_step >= 1 && c.out_step >= 1, "has no input or no output");
    b.require(c.in_step == 1 || (!fft_in_rows(c) && c.in_step >= c.kept[3]), "counts rows as columns");
    b.require(c.out_step == 1 || (!fft_out_rows(c) && c.out_step >= c.kept[3]), "counts rows as columns");
    if (!b.ok()) return;
    b.read(REGION_WEIGHTS, c.twiddles, floats);
    if (c.spread != ABSENT) b.read(REGION_WEIGHTS, c.spread, int64_t(2) * VEC * c.points);
    fft_check_factors(c, c.before, c.before_stride, !fft_in_rows(c), fft_begun(c, c.in_count, c.in_step), b);
    fft_check_factors(c, c.behind, c.behind_stride, !fft_out_rows(c), fft_begun(c, c.out_count, c.out_step), b);
    fft_extents(c, c.in_stride, c.in_real, c.in_count, c.in_step,
                [&](int64_t from, const extent& e) { b.read(REGION_ARENA, c.input + from, e); });
    fft_extents(c, c.out_stride, c.out_real, c.out_count, c.out_step,
                [&](int64_t from, const extent& e) { b.write(REGION_ARENA, c.output + from, e); });
}
#endif

}  // namespace fpga
