// core: zip; opcodes: zip
//
// Arithmetic of complex numbers, element by element: products, products with a conjugate, sums, magnitudes.
#pragma once
#include "command.hpp"
#include "lib/beats.hpp"
#include "lib/bounds.hpp"
#include "lib/complex.hpp"
#include "lib/nest.hpp"

namespace fpga {

// A row of an operand: its elements one behind the other, or the same one over and over.
class zip_row {
public:
    FPGA_INLINE zip_row(const operand_region& region, int64_t at, bool same, bool real, bool conjugated)
        : in_(region, at), same_(same), real_(real), conjugated_(conjugated), value_(cvec_of(0, 0)) {
        if (same) value_ = cvec_of(region.at(at), real ? 0 : region.at(at + 1));
    }
    // The next `count` elements, and anything behind them.
    FPGA_INLINE cvec16 next(int32_t count) {
        cvec16 x = value_;
        if (!same_) {
            const vec16 low = in_.next(real_ ? count : 2 * count);
            x = {low, vec16(0.0f)};
            if (!real_) x = from_pairs(low, in_.next(2 * count - VEC));
        }
        return conjugated_ ? conjugate(x) : x;
    }

private:
    row_reader<operand_region> in_;
    bool same_, real_, conjugated_;
    cvec16 value_;
};

// The larger part times the square root of 1 plus the square of the quotient of both.
FPGA_INLINE vec16 zip_magnitude(const cvec16& x) {
    const vec16 re = vabs(x.re), im = vabs(x.im);
    const ivec16 swap = vlt(re, im);
    const vec16 large = select(swap, im, re), small = select(swap, re, im);
    const vec16 quotient = select(veq(large, vec16(0.0f)), vec16(0.0f), small / large);
    const vec16 result = large * vsqrt(vec16(1.0f) + quotient * quotient);
    const vec16 infinity = from_bits(ivec16(0x7f800000));
    return select(veq(re, infinity) | veq(im, infinity), infinity,
                  select(vne(re, re), re, select(vne(im, im), im, result)));
}

FPGA_INLINE cvec16 zip_value(int32_t kind, const cvec16& a, const cvec16& b, bool a_real, bool b_real) {
    switch (kind) {
        case ZIP_SUM: return a + b;
        case ZIP_DIFFERENCE: return a - b;
        case ZIP_COPY: return a;
        case ZIP_MAGNITUDE: return {zip_magnitude(a), vec16(0.0f)};
        default:
            // A real factor scales: infinity times a number without imaginary part is not NaN.
            if (b_real) return {a.re * b.re, a.im * b.re};
            if (a_real) return {a.re * b.re, a.re * b.im};
            return a * b;
    }
}

inline uint32_t zip(const zip_command& c, const vec16*, vec16* arena, const vec16* weights, uint32_t slice,
                    uint32_t slices) {
    constexpr int OUTER = 4;
    loop_nest n = {};
    n.dims = OUTER;
dimensions:
    for (int d = 0; d < OUTER; d++) {
        n.size[d] = c.dims[d];
        n.stride[d][0] = c.out_stride[d];
        n.stride[d][1] = c.a_stride[d];
        n.stride[d][2] = c.b_stride[d];
    }
    const int32_t pieces = ceil_div(c.dims[4], VEC);
    const bool one = c.kind >= ZIP_COPY, alone = c.dims[4] == 1;
    const operand_region a_region = {arena, weights, c.a_from_weights != 0};
    const operand_region b_region = {arena, weights, c.b_from_weights != 0};
    const int64_t vectors = iterations(n, OUTER) * pieces, begin = slice_begin(vectors, slice, slices);
    int64_t left = slice_begin(vectors, slice + 1, slices) - begin;
    if (left <= 0) return STATUS_OK;
    nest_position p = position_at(n, OUTER, begin / pieces);
    int32_t piece = static_cast<int32_t>(begin % pieces);
    row_writer out;
rows:
    for (; left > 0; advance(n, OUTER, p)) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t end = static_cast<int32_t>(minimum(piece + left, pieces));
        const int64_t first = static_cast<int64_t>(piece) * VEC;
        const int64_t at_a = c.a + p.offset[1] + first * c.a_stride[4];
        const int64_t at_b = one ? at_a : c.b + p.offset[2] + first * c.b_stride[4];
        zip_row a_row(a_region, at_a, c.a_stride[4] == 0 && !alone, c.a_real, c.a_conjugated);
        zip_row b_row(one ? a_region : b_region, at_b, one || (c.b_stride[4] == 0 && !alone), one || c.b_real,
                      c.b_conjugated);
        out.begin(arena, c.output + p.offset[0] + first * c.out_stride[4]);
        left -= end - piece;
    vectors:
        for (; piece < end; piece++) {
#pragma HLS loop_tripcount min = 1 max = 4096
#pragma HLS pipeline II = 4
#pragma HLS dependence variable = arena type = inter false
            const int32_t count = minimum(c.dims[4] - piece * VEC, VEC);
            const cvec16 a = a_row.next(count), b = b_row.next(count);
            append_complex(out, arena, zip_value(c.kind, a, b, c.a_real, c.b_real), count, c.out_real);
        }
        piece = 0;
    }
    out.flush(arena);
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<zip_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(zip_command& c, const windows& elsewhere) {
        if (!c.a_from_weights) elsewhere.redirect(c.a);
        if (!c.b_from_weights) elsewhere.redirect(c.b);
        elsewhere.redirect(c.output);
    }
};

inline void zip_bounds(const zip_command& c, bounds& b) {
    b.require(c.kind >= ZIP_PRODUCT && c.kind <= ZIP_MAGNITUDE, "has an unknown kind");
    const int32_t unit[3] = {c.a_real ? 1 : 2, c.b_real ? 1 : 2, c.out_real ? 1 : 2};
    extent operand_a(unit[0]), operand_b(unit[1]), result(unit[2]);
    int64_t rows = 1;
    for (int d = 0; d < 5; d++) {
        b.require(c.dims[d] >= 1 && c.dims[d] <= 1 << 30, "has a dimension below 1, or above 2^30");
        if (!b.ok()) return;
        rows *= c.dims[d];
        b.require(rows <= 1 << 30, "has more than 2^30 elements");
        operand_a.dim(c.dims[d], c.a_stride[d]);
        operand_b.dim(c.dims[d], c.b_stride[d]);
        result.dim(c.dims[d], c.out_stride[d]);
    }
    const bool alone = c.dims[4] == 1, one = c.kind >= ZIP_COPY;
    b.require(alone || c.a_stride[4] == 0 || c.a_stride[4] == unit[0], "has a first operand that is not contiguous");
    b.require(alone || one || c.b_stride[4] == 0 || c.b_stride[4] == unit[1],
              "has a second operand that is not contiguous");
    b.require(alone || c.out_stride[4] == unit[2], "has a result that is not contiguous");
    if (!b.ok()) return;
    b.read(c.a_from_weights ? REGION_WEIGHTS : REGION_ARENA, c.a, operand_a);
    if (!one) b.read(c.b_from_weights ? REGION_WEIGHTS : REGION_ARENA, c.b, operand_b);
    b.write(REGION_ARENA, c.output, result);
}
#endif

}  // namespace fpga
