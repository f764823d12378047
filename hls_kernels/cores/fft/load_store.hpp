// Both ends of a transform: a group's numbers from the arena into local memory, by rows, by columns or spread over the
// lanes, with the factors before it; and back, with those behind it.
#pragma once
#include "butterfly.hpp"
#include "command.hpp"
#include "lib/beats.hpp"
#include "lib/complex.hpp"
#include "tiles.hpp"
#include "walk.hpp"

namespace fpga {

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

}  // namespace fpga
