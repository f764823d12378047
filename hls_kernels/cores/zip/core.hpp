// core: zip; opcodes: zip
//
// Arithmetic of complex numbers, element by element: products, products with a conjugate, sums, magnitudes.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/complex.hpp"

namespace fpga {

// One operand of 16 elements.
FPGA_INLINE cvec16 zip_load(const vec16* region, int64_t at, int32_t step, int32_t count, bool real, bool conjugated) {
    cvec16 x;
    if (step == 0 && count > 1)
        x = real ? cvec_of(scalar_at(region, at), 0) : complex_at(region, at);
    else
        x = load_complex(region, at, count, real);
    return conjugated ? conjugate(x) : x;
}

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
    const int32_t pieces = ceil_div(c.dims[4], VEC);
    const int64_t rows = static_cast<int64_t>(c.dims[0]) * c.dims[1] * c.dims[2] * c.dims[3];
    const int64_t end = slice_begin(rows * pieces, slice + 1, slices);
    const vec16* a_region = c.a_from_weights ? weights : arena;
    const vec16* b_region = c.b_from_weights ? weights : arena;
vectors:
    for (int64_t vector = slice_begin(rows * pieces, slice, slices); vector < end; vector++) {
#pragma HLS loop_tripcount min = 1 max = 4096
#pragma HLS pipeline II = 4
        const int32_t first = static_cast<int32_t>(vector % pieces) * VEC, count = minimum(c.dims[4] - first, VEC);
        int64_t row = vector / pieces;
        int64_t at_a = c.a + static_cast<int64_t>(first) * c.a_stride[4];
        int64_t at_b = c.b + static_cast<int64_t>(first) * c.b_stride[4];
        int64_t at_out = c.output + static_cast<int64_t>(first) * c.out_stride[4];
    dimensions:
        for (int d = 3; d >= 0; d--) {
            const int64_t i = row % c.dims[d];
            row /= c.dims[d];
            at_a += i * c.a_stride[d];
            at_b += i * c.b_stride[d];
            at_out += i * c.out_stride[d];
        }
        const cvec16 a = zip_load(a_region, at_a, c.a_stride[4], count, c.a_real, c.a_conjugated);
        const cvec16 b = c.kind < ZIP_COPY ? zip_load(b_region, at_b, c.b_stride[4], count, c.b_real, c.b_conjugated)
                                           : a;
        store_complex(arena, at_out, zip_value(c.kind, a, b, c.a_real, c.b_real), count, c.out_real);
    }
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
