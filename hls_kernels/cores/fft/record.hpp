// Record of the core fft. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

constexpr int32_t FFT_MOST_RADIX = 13;  // largest prime factor of a transform's length

// Discrete Fourier transforms along one dimension, of `points` complex numbers each:
//   result[k] = scale * behind[k] * sum over j of before[j] * input[j] * exp(-+ 2 pi i j k / points)
// with + in the exponent if `inverse`. An operand is complex (pairs of floats, real part first) or, with in_real or
// out_real, real. Its strides count floats: the kept dimensions 0..3, then the transformed one. It is contiguous along the
// transformed dimension (rows) or along kept[3] (columns): floats lie 1 apart and pairs 2. A size of 1 has any stride.
//
// Input element k of the transform whose place in kept[3] is r exists if k * in_step + r < in_count, the others count as
// zero; result elements likewise are stored. With a step of 1, r is left out; others take columns. Factors are complex
// numbers: that of element k is number k * stride[0] + r * stride[1], where stride[1] is 0, or 1 for columns.
//
// Passes of radix[0..passes) multiply to `points`. `twiddles` has for each, of n points that are left and m = n / radix,
// exp(-2 pi i p j / n) as [p < m][0 < j < radix], before that for a radix above 5 exp(-2 pi i j / radix) as [j < radix].
//
// With `spread`, which takes rows on both sides, a transform has 16 * points numbers: lane l of 16 transforms numbers
// l, l + 16, ...; `spread` has exp(-2 pi i l k / (16 * points)) as [k < points][16 real parts, 16 imaginary parts].
struct fft_command {
    int32_t opcode;
    int32_t slices;
    place_t input;      // arena
    place_t output;     // arena
    uint32_t twiddles;  // weights
    uint32_t spread;    // weights, or ABSENT
    uint32_t before;    // weights, or ABSENT
    uint32_t behind;    // weights, or ABSENT
    int32_t in_real;
    int32_t out_real;
    int32_t inverse;
    int32_t points;
    int32_t in_count;
    int32_t in_step;
    int32_t out_count;
    int32_t out_step;
    int32_t kept[4];
    int32_t in_stride[5];
    int32_t out_stride[5];
    int32_t before_stride[2];
    int32_t behind_stride[2];
    float scale;
    int32_t passes;
    int32_t radix[14];
};

}  // namespace fpga
