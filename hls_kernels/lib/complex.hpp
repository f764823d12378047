// Sixteen complex numbers as a vector of real and one of imaginary parts, and their way to and from pairs in memory.
//
// A product of complex numbers has two products in each sum. Which of them is fused with the addition is said by
// `opaque`, so that all instruction sets with FMA agree.
#pragma once
#include "beats.hpp"
#include "vector.hpp"

namespace fpga {

struct cvec16 {
    vec16 re, im;
};

FPGA_INLINE cvec16 operator+(const cvec16& a, const cvec16& b) { return {a.re + b.re, a.im + b.im}; }
FPGA_INLINE cvec16 operator-(const cvec16& a, const cvec16& b) { return {a.re - b.re, a.im - b.im}; }
FPGA_INLINE cvec16 operator*(const cvec16& a, const cvec16& b) {
    return {a.re * b.re - opaque(a.im * b.im), a.re * b.im + opaque(a.im * b.re)};
}

FPGA_INLINE cvec16 cvec_of(float re, float im) { return {vec16(re), vec16(im)}; }
FPGA_INLINE cvec16 conjugate(const cvec16& a) { return {a.re, vneg(a.im)}; }
FPGA_INLINE cvec16 swapped(const cvec16& a) { return {a.im, a.re}; }
// -i times a.
FPGA_INLINE cvec16 times_minus_i(const cvec16& a) { return {a.im, vneg(a.re)}; }

// The pairs in two vectors as they lie in memory.
FPGA_INLINE cvec16 from_pairs(const vec16& low, const vec16& high) {
    const ivec16 a = bits_of(low), b = bits_of(high);
    return {from_bits(even_lanes(a, b)), from_bits(odd_lanes(a, b))};
}

// The lower and the upper eight pairs.
FPGA_INLINE vec16 low_pairs(const cvec16& x) {
    const ivec16 odd = veq(lane_numbers() & ivec16(1), ivec16(1));
    return from_bits(select(odd, doubled_lanes<0>(bits_of(x.im)), doubled_lanes<0>(bits_of(x.re))));
}
FPGA_INLINE vec16 high_pairs(const cvec16& x) {
    const ivec16 odd = veq(lane_numbers() & ivec16(1), ivec16(1));
    return from_bits(select(odd, doubled_lanes<1>(bits_of(x.im)), doubled_lanes<1>(bits_of(x.re))));
}

// The first `count` numbers, zeros behind them.
FPGA_INLINE cvec16 first_numbers(const cvec16& x, int32_t count) {
    const ivec16 there = vlt(lane_numbers(), ivec16(count));
    return {select(there, x.re, vec16(0.0f)), select(there, x.im, vec16(0.0f))};
}

// `count` (1 to 16) contiguous numbers from float `at` on, pairs or with `real` floats; zeros behind them, or on a card
// anything. WHOLE: the first begins with a beat.
// \tparam WHOLE Whether all lanes or beats are whole.
template <bool WHOLE = false>
FPGA_INLINE cvec16 load_complex(const vec16* region, int64_t at, int32_t count, bool real) {
#ifdef __SYNTHESIS__
    const int32_t skew = WHOLE ? 0 : static_cast<int32_t>(at % VEC), end = skew + (real ? count : 2 * count);
    const int64_t beat = at / VEC;
    const vec16 first = region[beat];
    vec16 second = first, third = first;
    if (end > VEC) second = region[beat + 1];
    if (!WHOLE && end > 2 * VEC) third = region[beat + 2];
    const vec16 low = WHOLE ? first : turned(joined(second, first, skew), skew);
    const vec16 high = WHOLE ? second : turned(joined(third, second, skew), skew);
    return real ? cvec16{low, vec16(0.0f)} : from_pairs(low, high);
#else
    if (real) return {load_some(region, at, count), vec16(0.0f)};
    const vec16 low = load_some(region, at, 2 * count);
    const vec16 high = count > VEC / 2 ? load_some(region, at + VEC, 2 * count - VEC) : vec16(0.0f);
    return from_pairs(low, high);
#endif
}

// The first `count` (1 to 16) numbers, as pairs, or with `real` their real parts as floats. WHOLE: these are whole beats.
// \tparam WHOLE Whether all lanes or beats are whole.
template <bool WHOLE = false>
FPGA_INLINE void store_complex(beat_writer& out, vec16* region, int64_t at, const cvec16& x, int32_t count, bool real) {
#ifdef __SYNTHESIS__
    const vec16 low = real ? x.re : low_pairs(x), high = high_pairs(x);
    if (WHOLE) {
        region[at / VEC] = low;
        if (!real) region[at / VEC + 1] = high;
    } else {
        out.put(region, at, low, high, real ? count : 2 * count);
    }
#else
    if (real) {
        store_some(region, at, x.re, count);
        return;
    }
    store_some(region, at, low_pairs(x), 2 * count);
    if (count > VEC / 2) store_some(region, at + VEC, high_pairs(x), 2 * count - VEC);
#endif
}

// The same behind what a writer has got already.
FPGA_INLINE void append_complex(row_writer& out, vec16* region, const cvec16& x, int32_t count, bool real) {
    out.append(region, real ? x.re : low_pairs(x), real ? count : 2 * count);
    if (!real) out.append(region, high_pairs(x), 2 * count - VEC);
}

// One number in all lanes; it begins at an even float.
FPGA_INLINE cvec16 complex_at(const vec16* region, int64_t at) {
#ifdef __SYNTHESIS__
    const vec16 beat = region[at / VEC];
    return cvec_of(beat[at % VEC], beat[at % VEC + 1]);
#else
    return cvec_of(scalar_at(region, at), scalar_at(region, at + 1));
#endif
}

}  // namespace fpga
