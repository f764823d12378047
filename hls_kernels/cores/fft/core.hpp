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
#include "lib/complex.hpp"
#include "tiles.hpp"

namespace fpga {

constexpr int32_t FFT_TABLE = 3 * tile::FFT_POINTS;  // floats of the passes' factors in local memory, and some

// Sixteen rows that are transformed together.
struct fft_group {
    int64_t input[VEC];
    int64_t output[VEC];
    int32_t row;    // the place of the first in kept[3]
    int32_t lanes;  // how many there are
};

FPGA_INLINE bool fft_by_rows(const int32_t (&stride)[5], int32_t length, bool real) {
    return length == 1 || stride[4] == (real ? 1 : 2);
}
FPGA_INLINE bool fft_in_rows(const fft_command& c) { return fft_by_rows(c.in_stride, c.points, c.in_real); }
FPGA_INLINE bool fft_out_rows(const fft_command& c) { return fft_by_rows(c.out_stride, c.points, c.out_real); }

FPGA_INLINE int64_t fft_rows_of(const fft_command& c) {
    return static_cast<int64_t>(c.kept[0]) * c.kept[1] * c.kept[2] * c.kept[3];
}

// Whether rows of all kept dimensions share vectors; columns lie side by side in the last one alone.
FPGA_INLINE bool fft_is_flat(const fft_command& c) { return fft_in_rows(c) && fft_out_rows(c); }

FPGA_INLINE int64_t fft_groups_of(const fft_command& c) {
    if (c.spread != ABSENT) return fft_rows_of(c);
    if (fft_is_flat(c)) return (fft_rows_of(c) + VEC - 1) / VEC;
    return fft_rows_of(c) / c.kept[3] * ceil_div(c.kept[3], VEC);
}

inline void fft_seek(const fft_command& c, int64_t index, int64_t& input, int64_t& output) {
    input = c.input;
    output = c.output;
dimensions:
    for (int d = 3; d >= 0; d--) {
        const int64_t i = index % c.kept[d];
        index /= c.kept[d];
        input += i * c.in_stride[d];
        output += i * c.out_stride[d];
    }
}

inline void fft_find_group(const fft_command& c, int64_t number, fft_group& group) {
    int64_t first;
    if (c.spread != ABSENT) {
        first = number;
        group.row = 0;
        group.lanes = 1;
    } else if (fft_is_flat(c)) {
        first = number * VEC;
        group.row = 0;
        group.lanes = static_cast<int32_t>(minimum(fft_rows_of(c) - first, static_cast<int64_t>(VEC)));
    } else {
        const int32_t pieces = ceil_div(c.kept[3], VEC);
        group.row = static_cast<int32_t>(number % pieces) * VEC;
        first = number / pieces * c.kept[3] + group.row;
        group.lanes = minimum(c.kept[3] - group.row, VEC);
    }
lanes:
    for (int i = 0; i < VEC; i++) {
        fft_seek(c, first + minimum(i, group.lanes - 1), group.input[i], group.output[i]);
    }
}

// The factors of element k of a group, for its lanes.
FPGA_INLINE cvec16 fft_factors(const vec16* weights, uint32_t table, const int32_t (&stride)[2], int64_t k,
                               const fft_group& group) {
    const int64_t at = table + 2 * (k * stride[0] + static_cast<int64_t>(group.row) * stride[1]);
    return stride[1] ? load_complex(weights, at, group.lanes, false) : complex_at(weights, at);
}

// How many of a group's lanes have an element k, of `count` that are counted `step` apart.
FPGA_INLINE int32_t fft_lanes_left(int32_t k, int32_t count, int32_t step, const fft_group& group) {
    const int64_t left = count - static_cast<int64_t>(k) * step - (step > 1 ? group.row : 0);
    return left <= 0 ? 0 : step > 1 ? static_cast<int32_t>(minimum(left, group.lanes)) : group.lanes;
}

// Puts an element of the input in its place; `there`: it exists, and so do its factors.
FPGA_INLINE void fft_take(const fft_command& c, const vec16* weights, const fft_group& group, int32_t k, cvec16 x,
                          bool there, fft_bank& bank) {
    if (there && c.before != ABSENT) x = x * fft_factors(weights, c.before, c.before_stride, k, group);
    put_in_bank(bank, k, c.inverse ? swapped(x) : x);
}

FPGA_INLINE cvec16 fft_give(const fft_command& c, const vec16* weights, const fft_group& group, int32_t k, cvec16 x) {
    if (c.inverse) x = swapped(x);
    if (c.behind != ABSENT) x = x * fft_factors(weights, c.behind, c.behind_stride, k, group);
    return {x.re * vec16(c.scale), x.im * vec16(c.scale)};
}

inline void fft_load_columns(const fft_command& c, const vec16* arena, const vec16* weights, const fft_group& group,
                             fft_bank& bank) {
columns:
    for (int32_t k = 0; k < c.points; k++) {
#pragma HLS loop_tripcount min = 1 max = 1024
#pragma HLS pipeline II = 2
        const int32_t lanes = fft_lanes_left(k, c.in_count, c.in_step, group);
        cvec16 x = cvec_of(0, 0);
        if (lanes > 0)
            x = load_complex(arena, group.input[0] + static_cast<int64_t>(k) * c.in_stride[4], lanes, c.in_real);
        fft_take(c, weights, group, k, x, lanes > 0, bank);
    }
}

inline void fft_load_rows(const fft_command& c, const vec16* arena, const vec16* weights, const fft_group& group,
                          fft_bank& bank) {
    const int32_t count = minimum(c.in_count, c.points), unit = c.in_real ? 1 : 2;
    vec16 re[VEC], im[VEC];
#pragma HLS array_partition variable = re complete
#pragma HLS array_partition variable = im complete
blocks:
    for (int32_t k = 0; k < c.points; k += VEC) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t left = minimum(count - k, VEC);
    lanes:
        for (int i = 0; i < VEC; i++) {
#pragma HLS pipeline II = 2
            cvec16 x = cvec_of(0, 0);
            if (i < group.lanes && left > 0)
                x = load_complex(arena, group.input[i] + static_cast<int64_t>(k) * unit, left, c.in_real);
            re[i] = x.re;
            im[i] = x.im;
        }
        transpose(re);
        transpose(im);
        const int32_t end = minimum(c.points - k, VEC);
    elements:
        for (int32_t j = 0; j < end; j++) {
#pragma HLS loop_tripcount min = 16 max = 16
#pragma HLS pipeline II = 1
            const cvec16 x = {re[j], im[j]};
            fft_take(c, weights, group, k + j, x, j < left, bank);
        }
    }
}

inline void fft_store_columns(const fft_command& c, vec16* arena, const vec16* weights, const fft_group& group,
                              const fft_bank& bank) {
columns:
    for (int32_t k = 0; k < c.points; k++) {
#pragma HLS loop_tripcount min = 1 max = 1024
#pragma HLS pipeline II = 2
        const int32_t lanes = fft_lanes_left(k, c.out_count, c.out_step, group);
        if (lanes > 0) {
            const cvec16 x = fft_give(c, weights, group, k, bank_at(bank, k));
            store_complex(arena, group.output[0] + static_cast<int64_t>(k) * c.out_stride[4], x, lanes, c.out_real);
        }
    }
}

inline void fft_store_rows(const fft_command& c, vec16* arena, const vec16* weights, const fft_group& group,
                           const fft_bank& bank) {
    const int32_t count = minimum(c.out_count, c.points), unit = c.out_real ? 1 : 2;
    vec16 re[VEC], im[VEC];
#pragma HLS array_partition variable = re complete
#pragma HLS array_partition variable = im complete
blocks:
    for (int32_t k = 0; k < count; k += VEC) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t left = minimum(count - k, VEC);
    elements:
        for (int32_t j = 0; j < VEC; j++) {
#pragma HLS pipeline II = 1
            const int32_t element = k + minimum(j, left - 1);
            const cvec16 x = fft_give(c, weights, group, element, bank_at(bank, element));
            re[j] = x.re;
            im[j] = x.im;
        }
        transpose(re);
        transpose(im);
    lanes:
        for (int32_t i = 0; i < group.lanes; i++) {
#pragma HLS loop_tripcount min = 16 max = 16
#pragma HLS pipeline II = 2
            const cvec16 x = {re[i], im[i]};
            store_complex(arena, group.output[i] + static_cast<int64_t>(k) * unit, x, left, c.out_real);
        }
    }
}

// One row whose number 16 k + l becomes element k of lane l.
inline void fft_load_spread(const fft_command& c, const vec16* arena, const vec16* weights, const fft_group& group,
                            fft_bank& bank) {
    const int32_t unit = c.in_real ? 1 : 2;
vectors:
    for (int32_t k = 0; k < c.points; k++) {
#pragma HLS loop_tripcount min = 1 max = 1024
#pragma HLS pipeline II = 2
        const int32_t first = k * VEC, left = minimum(c.in_count - first, VEC);
        cvec16 x = cvec_of(0, 0);
        if (left > 0) {
            x = load_complex(arena, group.input[0] + static_cast<int64_t>(first) * unit, left, c.in_real);
            if (c.before != ABSENT)
                x = x * load_complex(weights, c.before + 2 * static_cast<int64_t>(first), left, false);
        }
        put_in_bank(bank, k, c.inverse ? swapped(x) : x);
    }
}

// The lanes' transforms become one: factors, then transforms of 16 across the lanes. Element k of lane l's is element
// points * l' + k of the whole for l' = 0..15.
inline void fft_store_spread(const fft_command& c, vec16* arena, const vec16* weights, const fft_group& group,
                             const fft_bank& bank) {
    const int32_t unit = c.out_real ? 1 : 2;
    vec16 re[VEC], im[VEC];
    cvec16 x[VEC];
#pragma HLS array_partition variable = re complete
#pragma HLS array_partition variable = im complete
#pragma HLS array_partition variable = x complete
blocks:
    for (int32_t k = 0; k < c.points; k += VEC) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t width = minimum(c.points - k, VEC);
    elements:
        for (int32_t j = 0; j < VEC; j++) {
#pragma HLS pipeline II = 2
            const int32_t element = k + minimum(j, width - 1);
            const int64_t at = c.spread + static_cast<int64_t>(element) * 2 * VEC;
            const cvec16 factors = {load(weights, at), load(weights, at + VEC)};
            const cvec16 v = bank_at(bank, element) * factors;
            re[j] = v.re;
            im[j] = v.im;
        }
        transpose(re);
        transpose(im);
    gather:
        UNROLL for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
            x[i].re = re[i];
            x[i].im = im[i];
        }
        butterfly_16(x);
    lanes:
        for (int i = 0; i < VEC; i++) {
#pragma HLS pipeline II = 2
            const int32_t first = i * c.points + k, left = minimum(c.out_count - first, width);
            if (left > 0) {
                cvec16 y = c.inverse ? swapped(x[i]) : x[i];
                if (c.behind != ABSENT)
                    y = y * load_complex(weights, c.behind + 2 * static_cast<int64_t>(first), left, false);
                y = {y.re * vec16(c.scale), y.im * vec16(c.scale)};
                store_complex(arena, group.output[0] + static_cast<int64_t>(first) * unit, y, left, c.out_real);
            }
        }
    }
}

inline uint32_t fft(const fft_command& c, const vec16*, vec16* arena, const vec16* weights, uint32_t slice,
                    uint32_t slices) {
    fft_bank bank[2];
    alignas(64) float table[FFT_TABLE];
    fft_group group;
    int32_t floats = 0;
table_sizes:
    for (int32_t pass = 0, m = c.points; pass < c.passes; pass++) {
#pragma HLS loop_tripcount min = 1 max = 10
        m /= c.radix[pass];
        floats += fft_pass_floats(c.radix[pass], m);
    }
    copy_in(table, 0, weights, c.twiddles, floats);

    const int64_t groups = fft_groups_of(c), end = slice_begin(groups, slice + 1, slices);
groups_of_rows:
    for (int64_t number = slice_begin(groups, slice, slices); number < end; number++) {
#pragma HLS loop_tripcount min = 1 max = 64
        fft_find_group(c, number, group);
        if (c.spread != ABSENT)
            fft_load_spread(c, arena, weights, group, bank[0]);
        else if (fft_in_rows(c))
            fft_load_rows(c, arena, weights, group, bank[0]);
        else
            fft_load_columns(c, arena, weights, group, bank[0]);
        int32_t at = 0, size = 1, m = c.points;
    passes:
        for (int32_t pass = 0; pass < c.passes; pass++) {
#pragma HLS loop_tripcount min = 1 max = 10
            const int32_t radix = c.radix[pass];
            m /= radix;
            if (pass % 2 == 0)
                fft_pass_of(bank[0], bank[1], table + at, radix, m, size);
            else
                fft_pass_of(bank[1], bank[0], table + at, radix, m, size);
            at += fft_pass_floats(radix, m);
            size *= radix;
        }
        const fft_bank& last = bank[c.passes % 2];
        if (c.spread != ABSENT)
            fft_store_spread(c, arena, weights, group, last);
        else if (fft_out_rows(c))
            fft_store_rows(c, arena, weights, group, last);
        else
            fft_store_columns(c, arena, weights, group, last);
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
