// core: fft; opcodes: fft
//
// Discrete Fourier transforms of any length that FFT_POINTS holds, or 16 times that, with prime factors up to 13. The
// vector lanes are 16 transforms side by side; with `spread` 16 parts of one. Longer transforms are two commands, and
// lengths with larger prime factors two of a longer one: before and behind a transform numbers are multiplied by tables,
// which is all that those take (fpga_dynamo/lowering/ops/signal/plan.py).
#pragma once
#include "butterfly.hpp"
#include "command.hpp"
#include "lib/beats.hpp"
#include "lib/bounds.hpp"
#include "lib/complex.hpp"
#include "lib/nest.hpp"
#include "tiles.hpp"

namespace fpga {

// Sixteen rows that are transformed together.
struct fft_group {
    int64_t input[VEC];
    int64_t output[VEC];
    int32_t row;                           // the place of the first in kept[3]
    int32_t lanes;                         // how many there are
    bool input_on_beats, output_on_beats;  // whether all begin with a beat
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

// Goes from group to group. Rows that share vectors go in the order in which they are stored.
class fft_walk {
public:
    FPGA_INLINE fft_walk(const fft_command& c, int64_t group) : nest_{}, rows_(0), row_(0) {
        const bool flat = c.spread != ABSENT || fft_is_flat(c);
        nest_.dims = flat ? 4 : 3;
    dimensions:
        for (int d = 0; d < 4; d++) {
            nest_.size[d] = c.kept[d];
            nest_.stride[d][0] = c.out_stride[d];
            nest_.stride[d][1] = c.in_stride[d];
        }
        if (flat) simplify(nest_);
        per_group_ = c.spread != ABSENT ? 1 : VEC;
        rows_ = flat ? fft_rows_of(c) - group * per_group_ : c.kept[3];
        const int32_t pieces = flat ? 1 : ceil_div(c.kept[3], VEC);
        row_ = flat ? 0 : static_cast<int32_t>(group % pieces) * VEC;
        flat_ = flat;
        at_ = position_at(nest_, nest_.dims, flat ? group * per_group_ : group / pieces);
    }

    // Fills in the next group.
    FPGA_INLINE void next(const fft_command& c, fft_group& group) {
        group.row = row_;
        group.lanes = static_cast<int32_t>(minimum(rows_ - row_, per_group_));
        const bool in_rows = fft_in_rows(c), out_rows = fft_out_rows(c);
        int64_t input = 0, output = 0, read = in_rows ? 0 : c.in_stride[4], stored = out_rows ? 0 : c.out_stride[4];
    lanes:
        for (int i = 0; i < VEC; i++) {
            if (i < group.lanes) {
                const int64_t row = flat_ ? 0 : row_ + i;
                input = c.input + at_.offset[1] + row * c.in_stride[3];
                output = c.output + at_.offset[0] + row * c.out_stride[3];
                if (flat_) advance(nest_, nest_.dims, at_);
            }
            group.input[i] = input;
            group.output[i] = output;
            if (i == 0 || in_rows) read |= input;
            if (i == 0 || out_rows) stored |= output;
        }
        group.input_on_beats = read % VEC == 0;
        group.output_on_beats = stored % VEC == 0;
        if (flat_) {
            rows_ -= group.lanes;
        } else {
            row_ += VEC;
            if (row_ >= rows_) {
                row_ = 0;
                advance(nest_, nest_.dims, at_);
            }
        }
    }

private:
    loop_nest nest_;
    nest_position at_;
    int64_t rows_;  // that are left, or in columns those of kept[3]
    int32_t row_, per_group_;
    bool flat_;
};

// The factors of element k of a group, for its lanes.
template <bool WHOLE>
FPGA_INLINE cvec16 fft_factors(const vec16* weights, uint32_t table, const int32_t (&stride)[2], int64_t k,
                               const fft_group& group) {
    const int64_t at = table + 2 * (k * stride[0] + static_cast<int64_t>(group.row) * stride[1]);
#ifdef __SYNTHESIS__
    const cvec16 many = load_complex<WHOLE>(weights, at, stride[1] ? group.lanes : 1, false);
    return stride[1] ? many : complex_at(weights, at);
#else
    return stride[1] ? load_complex(weights, at, group.lanes, false) : complex_at(weights, at);
#endif
}

// Whether factors for columns begin with beats.
FPGA_INLINE bool fft_factors_on_beats(uint32_t table, const int32_t (&stride)[2]) {
    return table == ABSENT || stride[1] == 0 || (table | static_cast<uint32_t>(2 * stride[0])) % VEC == 0;
}

// How many of a group's lanes have an element k, of `count` that are counted `step` apart.
FPGA_INLINE int32_t fft_lanes_left(int32_t k, int32_t count, int32_t step, const fft_group& group) {
    const int64_t left = count - static_cast<int64_t>(k) * step - (step > 1 ? group.row : 0);
    return left <= 0 ? 0 : step > 1 ? static_cast<int32_t>(minimum(left, group.lanes)) : group.lanes;
}

// Numbers that a side of a transform takes in one go: body(k) for k in [begin, end). Two beats of the arena in a step
// where numbers begin with a beat, three where they lie between, and then on a card only.
template <class BODY>
FPGA_INLINE void fft_each_on_beats(vec16* arena, int32_t begin, int32_t end, BODY body) {
on_beats:
    for (int32_t k = begin; k < end; k++) {
#pragma HLS loop_tripcount min = 16 max = 1024
#pragma HLS pipeline II = 2
#pragma HLS dependence variable = arena type = inter false
        body(k);
    }
}
template <class BODY>
FPGA_INLINE void fft_each_between(vec16* arena, int32_t begin, int32_t end, BODY body) {
between_beats:
    for (int32_t k = begin; k < end; k++) {
#pragma HLS loop_tripcount min = 16 max = 1024
#pragma HLS pipeline II = 3
#pragma HLS dependence variable = arena type = inter false
        body(k);
    }
}

FPGA_INLINE void fft_take(const fft_command& c, int32_t k, const cvec16& x, fft_memory& memory) {
    put_number(memory, k, c.inverse ? swapped(x) : x);
}

FPGA_INLINE cvec16 fft_scaled(const fft_command& c, const cvec16& x) {
    return {x.re * vec16(c.scale), x.im * vec16(c.scale)};
}

template <bool WHOLE>
FPGA_INLINE void fft_load_column(const fft_command& c, const vec16* arena, const vec16* weights, const fft_group& group,
                                 int32_t k, fft_memory& memory) {
    const int32_t lanes = fft_lanes_left(k, c.in_count, c.in_step, group);
    cvec16 x = cvec_of(0, 0);
    if (lanes > 0) {
        x = load_complex<WHOLE>(arena, group.input[0] + static_cast<int64_t>(k) * c.in_stride[4], lanes, c.in_real);
        if (c.before != ABSENT) x = x * fft_factors<WHOLE>(weights, c.before, c.before_stride, k, group);
#ifdef __SYNTHESIS__
        x = first_numbers(x, lanes);
#endif
    }
    fft_take(c, k, x, memory);
}

inline void fft_load_columns(const fft_command& c, vec16* arena, const vec16* weights, const fft_group& group,
                             fft_memory& memory) {
#ifdef __SYNTHESIS__
    if (group.input_on_beats && fft_factors_on_beats(c.before, c.before_stride)) {
        fft_each_on_beats(arena, 0, c.points,
                          [&](int32_t k) { fft_load_column<true>(c, arena, weights, group, k, memory); });
        return;
    }
#endif
    fft_each_between(arena, 0, c.points,
                     [&](int32_t k) { fft_load_column<false>(c, arena, weights, group, k, memory); });
}

inline void fft_load_rows(const fft_command& c, vec16* arena, const vec16* weights, const fft_group& group,
                          fft_memory& memory) {
    const int32_t count = minimum(c.in_count, c.points), unit = c.in_real ? 1 : 2;
    vec16 re[VEC], im[VEC];
#pragma HLS array_partition variable = re complete
#pragma HLS array_partition variable = im complete
blocks:
    for (int32_t k = 0; k < c.points; k += VEC) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t left = minimum(count - k, VEC);
        const auto load_row = [&](int32_t i, const cvec16& x) {
            re[i] = x.re;
            im[i] = x.im;
        };
        const int64_t from = static_cast<int64_t>(k) * unit;
#ifdef __SYNTHESIS__
        if (group.input_on_beats && left > 0)
            fft_each_on_beats(arena, 0, group.lanes, [&](int32_t i) {
                load_row(i, load_complex<true>(arena, group.input[i] + from, left, c.in_real));
            });
        else if (left > 0)
            fft_each_between(arena, 0, group.lanes, [&](int32_t i) {
                load_row(i, load_complex(arena, group.input[i] + from, left, c.in_real));
            });
#else
        for (int32_t i = 0; i < VEC; i++)
            load_row(i, i < group.lanes && left > 0 ? load_complex(arena, group.input[i] + from, left, c.in_real)
                                                    : cvec_of(0, 0));
#endif
        transpose(re);
        transpose(im);
        const int32_t end = minimum(c.points - k, VEC);
    elements:
        for (int32_t j = 0; j < end; j++) {
#pragma HLS loop_tripcount min = 16 max = 16
#pragma HLS pipeline II = 1
            cvec16 x = {re[j], im[j]};
            if (j < left && c.before != ABSENT)
                x = x * complex_at(weights, c.before + 2 * static_cast<int64_t>(k + j) * c.before_stride[0]);
            fft_take(c, k + j, j < left ? x : cvec_of(0, 0), memory);
        }
    }
}

template <bool WHOLE>
FPGA_INLINE void fft_store_column(const fft_command& c, beat_writer& out, vec16* arena, const vec16* weights,
                                  const fft_group& group, int32_t k, int32_t lanes, cvec16 x) {
    if (c.inverse) x = swapped(x);
    if (c.behind != ABSENT) x = x * fft_factors<WHOLE>(weights, c.behind, c.behind_stride, k, group);
    store_complex<WHOLE>(out, arena, group.output[0] + static_cast<int64_t>(k) * c.out_stride[4], fft_scaled(c, x),
                         lanes, c.out_real);
}

inline void fft_store_columns(const fft_command& c, vec16* arena, const vec16* weights, const fft_group& group,
                              const fft_memory& memory, int32_t bank) {
    beat_writer out;
    int32_t whole = 0;  // elements of which all lanes are stored
#ifdef __SYNTHESIS__
    if (group.output_on_beats && group.lanes == VEC && fft_factors_on_beats(c.behind, c.behind_stride)) {
        const int32_t beyond = c.out_step > 1 ? group.row + VEC : 1;  // of the last number of element 0
        whole = c.out_count < beyond ? 0 : minimum((c.out_count - beyond) / c.out_step + 1, c.points);
    }
    fft_each_on_beats(arena, 0, whole, [&](int32_t k) {
        fft_store_column<true>(c, out, arena, weights, group, k, VEC, number_at(memory, bank + k));
    });
#endif
    fft_each_between(arena, whole, c.points, [&](int32_t k) {
        const int32_t lanes = fft_lanes_left(k, c.out_count, c.out_step, group);
        if (lanes > 0) fft_store_column<false>(c, out, arena, weights, group, k, lanes, number_at(memory, bank + k));
    });
    out.flush(arena);
}

inline void fft_store_rows(const fft_command& c, vec16* arena, const vec16* weights, const fft_group& group,
                           const fft_memory& memory, int32_t bank) {
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
            cvec16 x = number_at(memory, bank + element);
            if (c.inverse) x = swapped(x);
            if (c.behind != ABSENT)
                x = x * complex_at(weights, c.behind + 2 * static_cast<int64_t>(element) * c.behind_stride[0]);
            x = fft_scaled(c, x);
            re[j] = x.re;
            im[j] = x.im;
        }
        transpose(re);
        transpose(im);
        const int64_t to = static_cast<int64_t>(k) * unit;
        beat_writer out;
#ifdef __SYNTHESIS__
        if (group.output_on_beats && left == VEC) {
            fft_each_on_beats(arena, 0, group.lanes, [&](int32_t i) {
                store_complex<true>(out, arena, group.output[i] + to, {re[i], im[i]}, VEC, c.out_real);
            });
            continue;
        }
#endif
        fft_each_between(arena, 0, group.lanes, [&](int32_t i) {
            store_complex(out, arena, group.output[i] + to, {re[i], im[i]}, left, c.out_real);
        });
        out.flush(arena);
    }
}

// One row whose number 16 k + l becomes element k of lane l.
inline void fft_load_spread(const fft_command& c, const vec16* arena, const vec16* weights, const fft_group& group,
                            fft_memory& memory) {
    row_reader<one_region> in({arena}, group.input[0]);
    row_reader<one_region> factors({weights}, c.before != ABSENT ? c.before : c.spread);
vectors:
    for (int32_t k = 0; k < c.points; k++) {
#pragma HLS loop_tripcount min = 1 max = 1024
#pragma HLS pipeline II = 2
        const int32_t left = minimum(c.in_count - k * VEC, VEC);
        const vec16 low = in.next(c.in_real ? left : 2 * left);
        cvec16 x = {low, vec16(0.0f)};
        if (!c.in_real) x = from_pairs(low, in.next(2 * left - VEC));
        if (c.before != ABSENT) {
            const vec16 factor = factors.next(2 * left);
            x = x * from_pairs(factor, factors.next(2 * left - VEC));
        }
#ifdef __SYNTHESIS__
        x = first_numbers(x, left);
#endif
        fft_take(c, k, x, memory);
    }
}

template <bool WHOLE>
FPGA_INLINE void fft_store_lane(const fft_command& c, beat_writer& out, vec16* arena, const vec16* weights,
                                const fft_group& group, int32_t first, int32_t left, cvec16 x) {
    if (c.inverse) x = swapped(x);
    if (c.behind != ABSENT)
        x = x * load_complex<WHOLE>(weights, c.behind + 2 * static_cast<int64_t>(first), left, false);
    store_complex<WHOLE>(out, arena, group.output[0] + static_cast<int64_t>(first) * (c.out_real ? 1 : 2),
                         fft_scaled(c, x), left, c.out_real);
}

// The lanes' transforms become one: factors, then transforms of 16 across the lanes. Element k of lane l's is element
// points * l' + k of the whole for l' = 0..15.
inline void fft_store_spread(const fft_command& c, vec16* arena, const vec16* weights, const fft_group& group,
                             const fft_memory& memory, int32_t bank) {
    vec16 re[VEC], im[VEC];
#pragma HLS array_partition variable = re complete
#pragma HLS array_partition variable = im complete
blocks:
    for (int32_t k = 0; k < c.points; k += VEC) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t width = minimum(c.points - k, VEC);
    spread_elements:
        for (int32_t j = 0; j < VEC; j++) {
#pragma HLS pipeline II = 2
            const int32_t element = k + minimum(j, width - 1);
            const int64_t beat = c.spread / VEC + 2 * static_cast<int64_t>(element);
            const cvec16 factors = {weights[beat], weights[beat + 1]};
            const cvec16 v = number_at(memory, bank + element) * factors;
#ifdef __SYNTHESIS__
            complex_lane x[VEC];
#pragma HLS array_partition variable = x complete
            vec16 x_re, x_im;
        split:
            for (int i = 0; i < VEC; i++) x[i] = {v.re[i], v.im[i]};
            butterfly_16(x);
        join:
            for (int i = 0; i < VEC; i++) {
                x_re[i] = x[i].re;
                x_im[i] = x[i].im;
            }
            re[j] = x_re;
            im[j] = x_im;
#else
            re[j] = v.re;
            im[j] = v.im;
#endif
        }
        transpose(re);
        transpose(im);
#ifndef __SYNTHESIS__
        cvec16 x[VEC];
        for (int i = 0; i < VEC; i++) x[i] = {re[i], im[i]};
        butterfly_16(x);
        for (int i = 0; i < VEC; i++) {
            re[i] = x[i].re;
            im[i] = x[i].im;
        }
#endif
        beat_writer out;
#ifdef __SYNTHESIS__
        if (group.output_on_beats && c.points % VEC == 0 && (c.behind == ABSENT || c.behind % VEC == 0) &&
            (VEC - 1) * c.points + k + VEC <= c.out_count) {
            fft_each_on_beats(arena, 0, VEC, [&](int32_t i) {
                fft_store_lane<true>(c, out, arena, weights, group, i * c.points + k, VEC, {re[i], im[i]});
            });
            continue;
        }
#endif
        fft_each_between(arena, 0, VEC, [&](int32_t i) {
            const int32_t first = i * c.points + k, left = minimum(c.out_count - first, width);
            if (left > 0) fft_store_lane<false>(c, out, arena, weights, group, first, left, {re[i], im[i]});
        });
        out.flush(arena);
    }
}

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
