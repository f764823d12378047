// Elementary functions on vec16, lane by lane and without branches: used by pointwise, reduce and the epilogue.
//
// Largest errors over all tested floats (every 251st bit pattern, denormals, infinities and NaN included; see
// lib/math_tb.cpp, which also checks each function against its bound), in units in the last place of the true result:
//   `vexp, vexp_decay 1.1   vexpm1 1.7   vlog 0.8   vlog1p 1.4   vpow 3.7   vtanh 2.4   vsigmoid 2.3   verf 1.3`
//   `vsin, vcos 1.6   1 - vnormal_tail 1.6`.
// The functions vsqrt and the roundings are exact. Results below the smallest normal float are correctly denormal.
//
// Polynomials are minimax fits of the quotient that their comment names, in Horner's form. Where a sum must not lose
// bits the operands are short enough for the products to be exact, so that contraction to FMA changes nothing.
#pragma once
#include <cmath>
#include <cstdint>

#include "vector.hpp"

namespace fpga {

constexpr float FLOAT_INFINITY = __builtin_inff();
constexpr float FLOAT_NAN = __builtin_nanf("");

// The sign of `sign` on the non-negative x.
FPGA_INLINE vec16 with_sign_of(const vec16& x, const vec16& sign) {
    return from_bits(bits_of(x) | (bits_of(sign) & ivec16(INT32_MIN)));
}

FPGA_INLINE ivec16 is_nan(const vec16& x) { return vne(x, x); }

FPGA_INLINE ivec16 is_finite(const vec16& x) { return vlt(vabs(x), vec16(FLOAT_INFINITY)); }

// ---- rounding: adding 2^23 with x's sign pushes the fraction out of the significand ----

FPGA_INLINE vec16 vround(const vec16& x) {
    const vec16 shift(8388608.0f), a = vabs(x);
    return select(vlt(a, shift), with_sign_of((a + shift) - shift, x), x);
}

FPGA_INLINE vec16 vfloor(const vec16& x) {
    const vec16 r = vround(x);
    return with_sign_of(r - select(vgt(r, x), vec16(1.0f), vec16(0.0f)), x);
}

FPGA_INLINE vec16 vceil(const vec16& x) { return vneg(vfloor(vneg(x))); }

FPGA_INLINE vec16 vtrunc(const vec16& x) { return with_sign_of(vfloor(vabs(x)), x); }

// One value, where all lanes would be alike.
FPGA_INLINE float vsqrt(float x) { return std::sqrt(x); }

// ---- exponentials ----

// p 2^n for -252 <= n <= 254; two factors, so that a denormal result is rounded once and an overflow is infinity.
FPGA_INLINE vec16 scale_by_power(const vec16& p, const ivec16& n) {
    const ivec16 half = n >> ivec16(1);
    return p * from_bits((half + ivec16(127)) << ivec16(23)) * from_bits((n - half + ivec16(127)) << ivec16(23));
}

// x = n ln 2 + r, |r| <= 0.35; needs |x| < 2^15. n ln2_high is exact. NaN stays in r.
FPGA_INLINE vec16 reduce_exp(const vec16& x, ivec16& n) {
    const vec16 shift(12582912.0f);  // 1.5 * 2^23: the sum's low bits are the rounded integer
    const vec16 t = x * vec16(1.44269504f) + shift;
    const vec16 k = t - shift;
    n = bits_of(t) - ivec16(0x4b400000);
    return (x - k * vec16(0.693359375f)) - k * vec16(-2.12194440e-4f);
}

// (exp(r) - 1 - r) / r^2
FPGA_INLINE vec16 exp_tail(const vec16& r) {
    vec16 q = vec16(1.388246892e-3f);
    q = q * r + vec16(8.366712369e-3f);
    q = q * r + vec16(4.166720808e-2f);
    q = q * r + vec16(1.666654199e-1f);
    return q * r + vec16(4.999999702e-1f);
}

FPGA_INLINE vec16 vexp(const vec16& x) {
    ivec16 n;
    const vec16 r = reduce_exp(vclamp(x, vec16(-104.0f), vec16(89.0f)), n);
    return scale_by_power(exp_tail(r) * (r * r) + r + vec16(1.0f), n);
}

// DECAY_SCALE exp(x) for x <= 0; 0 below -104, where exp(x) rounds to 0. The scale keeps it from being denormal: who divides
// by a sum of such numbers rounds once.
constexpr float DECAY_SCALE = 0x1p24f;

FPGA_INLINE vec16 vexp_decay(const vec16& x) {
    const vec16 shift(12583063.0f);  // 1.5 * 2^23 + 151: the sum's low 8 bits are the exponent field of 2^(n + 24)
    const vec16 t = x * vec16(1.44269504f) + shift, k = t - shift;
    const vec16 r = (x - k * vec16(0.693359375f)) - k * vec16(-2.12194440e-4f);
    const vec16 power = from_bits(bits_of(t) << ivec16(23));
    const vec16 y = (exp_tail(r) * (r * r) + r + vec16(1.0f)) * power;
    return select(vlt(x, vec16(-104.0f)), vec16(0.0f), y);
}

// exp(x) - 1 for -40 <= x <= 89, the zero's sign and the last bits of denormals apart.
FPGA_INLINE vec16 expm1_core(const vec16& x) {
    ivec16 n;
    const vec16 r = reduce_exp(x, n);
    const vec16 m = exp_tail(r) * (r * r) + r;
    // 2^n m + (2^n - 1), halved because 2^128 is no float
    const vec16 half = from_bits((n + ivec16(126)) << ivec16(23));
    const vec16 y = half * m + (half - vec16(0.5f));
    return y + y;
}

FPGA_INLINE vec16 vexpm1(const vec16& x) {
    const ivec16 small = vlt(vabs(x), vec16(2.98023224e-8f));  // where x is the nearest float
    return select(small, x, expm1_core(vclamp(x, vec16(-40.0f), vec16(89.0f))));
}

FPGA_INLINE vec16 vsigmoid(const vec16& x) {
    const vec16 one(1.0f), z = vexp(vneg(vabs(x)));
    return select(vlt(x, vec16(0.0f)), z, one) / (one + z);
}

FPGA_INLINE vec16 vtanh(const vec16& x) {
    const vec16 a = vclamp(vabs(x), vec16(0.0f), vec16(10.0f));  // tanh rounds to 1 from 9.02 on
    const vec16 e = expm1_core(a + a);
    return with_sign_of(e / (e + vec16(2.0f)), x);
}

// ---- logarithms ----

// Cuts a positive x into 2^k and a significand in [sqrt(1/2), sqrt(2)). Others give a finite value without a meaning.
FPGA_INLINE vec16 split_exponent(const vec16& x, vec16& k) {
    const ivec16 denormal = vlt(x, vec16(1.17549435e-38f));
    const ivec16 bits = bits_of(select(denormal, x * vec16(8388608.0f), x));
    const ivec16 offset = (bits & ivec16(INT32_MAX)) - ivec16(0x3f3504f3);  // bits of sqrt(1/2)
    k = to_float((offset >> ivec16(23)) - (denormal & ivec16(23)));
    return from_bits((offset & ivec16(0x7fffff)) + ivec16(0x3f3504f3));
}

// log(1 + f) + k ln 2 for f in [sqrt(1/2) - 1, sqrt(2) - 1]
FPGA_INLINE vec16 log_core(const vec16& f, const vec16& k) {
    const vec16 z = f * f;
    vec16 q = vec16(6.746753305e-2f);  // (log(1 + f) - f + f^2 / 2) / f^3
    q = q * f + vec16(-1.167570800e-1f);
    q = q * f + vec16(1.188814342e-1f);
    q = q * f + vec16(-1.240557805e-1f);
    q = q * f + vec16(1.421955228e-1f);
    q = q * f + vec16(-1.666799635e-1f);
    q = q * f + vec16(2.000211924e-1f);
    q = q * f + vec16(-2.500000894e-1f);
    q = q * f + vec16(3.333331347e-1f);
    const vec16 tail = q * (f * z) + k * vec16(-2.12194440e-4f) - z * vec16(0.5f);
    return (f + tail) + k * vec16(0.693359375f);
}

FPGA_INLINE vec16 vlog(const vec16& x) {
    const vec16 zero(0.0f), infinity(FLOAT_INFINITY);
    vec16 k;
    const vec16 m = split_exponent(x, k);
    const vec16 y = select(vlt(x, infinity), log_core(m - vec16(1.0f), k), x);  // infinity and NaN are their own result
    return select(vgt(x, zero), y, select(veq(x, zero), vneg(infinity), select(vlt(x, zero), vec16(FLOAT_NAN), x)));
}

FPGA_INLINE float vlog(float x) { return vlog(vec16(x))[0]; }

FPGA_INLINE vec16 vlog1p(const vec16& x) {
    const vec16 one(1.0f), minus_one(-1.0f), infinity(FLOAT_INFINITY);
    const vec16 u = one + x, added = u - one;
    const vec16 lost = (one - (u - added)) + (x - added);  // what rounding took from u (Knuth's two-sum)
    vec16 k;
    const vec16 m = split_exponent(u, k);
    const ivec16 power = (ivec16(127) - to_int(select(vlt(u, infinity), k, one))) << ivec16(23);
    // From 2^127 on the factor would be denormal and what was lost does not matter.
    const vec16 correction = select(vlt(x, vec16(1e30f)), lost * from_bits(power), vec16(0.0f));
    const vec16 y = log_core((m - one) + correction, k);
    const vec16 finite = from_bits(bits_of(y) | (bits_of(x) & ivec16(INT32_MIN)));  // -0 stays -0
    return select(vgt(x, minus_one), select(vlt(x, infinity), finite, x),
                  select(veq(x, minus_one), vneg(infinity), select(vlt(x, minus_one), vec16(FLOAT_NAN), x)));
}

// ---- power ----

// The leading 12 bits of a significand: products of two such numbers are exact.
FPGA_INLINE vec16 leading_bits(const vec16& x) { return from_bits(bits_of(x) & ivec16(~0xfff)); }

// log2(x) for finite x > 0 as high + low with a relative error below 2^-30, from s = (m - 1) / (m + 1).
FPGA_INLINE vec16 log2_extended(const vec16& x, vec16& low) {
    vec16 k;
    const vec16 m = split_exponent(x, k);
    const vec16 f = m - vec16(1.0f), d = m + vec16(1.0f), d_lost = m - (d - vec16(1.0f));
    const vec16 s_high = leading_bits(f / d), d_high = leading_bits(d), d_low = (d - d_high) + d_lost;
    const vec16 s_low = ((f - s_high * d_high) - s_high * d_low) / d;
    const vec16 s = s_high + s_low, z = s * s;
    vec16 q = vec16(3.404130340e-1f);  // (log2((1 + s) / (1 - s)) - 2 s / ln 2) / s^3, in s^2
    q = q * z + vec16(4.116967320e-1f);
    q = q * z + vec16(5.770829916e-1f);
    q = q * z + vec16(9.617967010e-1f);
    const vec16 c_high(2.884765625f), c_low(6.244568e-4f);  // 2 / ln 2 - c_high; 2.884765625 has 12 bits
    const vec16 p = s_high * c_high, high = k + p, p_lost = p - (high - k);
    const vec16 tail = (s_high * c_low + s_low * (c_high + c_low)) + (q * (s * z) + p_lost);
    const vec16 sum = high + tail;
    low = tail - (sum - high);
    return sum;
}

// torch.pow, C's pow: pow(x, 0) = pow(1, y) = 1 even of NaN; a negative x needs an integral y.
FPGA_INLINE vec16 vpow(const vec16& x, const vec16& y) {
    const vec16 zero(0.0f), one(1.0f), infinity(FLOAT_INFINITY), a = vabs(x);
    vec16 l_low;
    const vec16 l = log2_extended(a, l_low);
    const vec16 limit(8589934592.0f);  // any larger |y| gives the same: 0, infinity or 1
    const vec16 e = vclamp(y, vneg(limit), limit);
    const vec16 e_high = leading_bits(e), l_high = leading_bits(l);
    const vec16 high = e_high * l_high;
    const vec16 low = e_high * (l - l_high) + ((e - e_high) * l + e * l_low);
    const vec16 bound(200.0f), t = vclamp(high + low, vneg(bound), bound), n = vround(t);
    const vec16 r = select(vlt(vabs(t), bound), (high - n) + low, zero);
    vec16 q = vec16(1.535314223e-4f);  // (2^r - 1) / r
    q = q * r + vec16(1.339913113e-3f);
    q = q * r + vec16(9.618439712e-3f);
    q = q * r + vec16(5.550331995e-2f);
    q = q * r + vec16(2.402264774e-1f);
    q = q * r + vec16(6.931471825e-1f);
    const vec16 finite = scale_by_power(q * r + one, to_int(select(is_nan(n), zero, n)));

    const ivec16 x_is_zero = veq(x, zero), x_is_infinite = veq(a, infinity), y_is_negative = vlt(y, zero);
    const vec16 grown = select(y_is_negative ^ x_is_infinite, infinity, zero);
    const vec16 magnitude = select(x_is_zero | x_is_infinite, grown, finite);
    const vec16 half = y * vec16(0.5f);
    const ivec16 integral = veq(vtrunc(y), y), odd = integral & vne(vtrunc(half), half);
    const vec16 with_sign = from_bits(bits_of(magnitude) ^ (bits_of(x) & odd & ivec16(INT32_MIN)));
    const ivec16 invalid = vlt(x, zero) & vlt(a, infinity) & vne(vtrunc(y), y) & vlt(vabs(y), infinity);
    const vec16 result = select(invalid, vec16(FLOAT_NAN), with_sign);
    const vec16 checked = select(is_nan(x) | is_nan(y), x + y, result);
    return select(veq(x, one) | veq(y, zero), one, checked);
}

// ---- error function ----

// Below 0.9 a polynomial in x^2, above 1 - exp(polynomial); rounds to 1 from 3.92 on.
FPGA_INLINE vec16 verf(const vec16& x) {
    const vec16 a = vclamp(vabs(x), vec16(0.0f), vec16(4.0f)), z = x * x;
    vec16 p = vec16(-6.090358947e-4f);  // erf(x) / x - 1, in x^2
    p = p * z + vec16(5.011962727e-3f);
    p = p * z + vec16(-2.677890845e-2f);
    p = p * z + vec16(1.128214076e-1f);
    p = p * z + vec16(-3.761252463e-1f);
    p = p * z + vec16(1.283791512e-1f);
    vec16 g = vec16(1.982102112e-4f);  // log(1 - erf(a))
    g = g * a + vec16(-3.065404715e-3f);
    g = g * a + vec16(2.231489867e-2f);
    g = g * a + vec16(-1.041130722e-1f);
    g = g * a + vec16(-6.369767189e-1f);
    g = g * a + vec16(-1.127796888f);
    g = g * a + vec16(-1.665275922e-4f);
    ivec16 n;
    const vec16 r = reduce_exp(g, n);
    const vec16 e = (exp_tail(r) * (r * r) + r + vec16(1.0f)) * from_bits((n + ivec16(127)) << ivec16(23));
    return select(vlt(a, vec16(0.9f)), x + x * p, with_sign_of(vec16(1.0f) - e, x));
}

// The normal distribution's upper tail, erfc(a / sqrt 2) / 2 for a >= 0; 0 beyond 5.6, where 1 minus it rounds to 1.
// A power of 2 with a fitted logarithm: the fit's error is at most 2.2e-8 up to 2.75, and relative to the tail 7e-6 above.
FPGA_INLINE vec16 vnormal_tail(const vec16& a) {
    vec16 g = vec16(1.649068366e-7f);  // log2 of the tail
    g = g * a + vec16(-4.053120847e-6f);
    g = g * a + vec16(3.950645259e-5f);
    g = g * a + vec16(-1.647588797e-4f);
    g = g * a + vec16(-2.117218100e-4f);
    g = g * a + vec16(7.173393853e-3f);
    g = g * a + vec16(-5.257378891e-2f);
    g = g * a + vec16(-4.591833353e-1f);
    g = g * a + vec16(-1.151108146f);
    g = g * a + vec16(-9.999999404e-1f);
    const vec16 shift(12583039.0f);  // 1.5 * 2^23 + 127: the sum's low 8 bits are the exponent field of a power of 2
    const vec16 t = g + shift, r = g - (t - shift);
    vec16 e = vec16(1.534581243e-4f);  // 2^r
    e = e * r + vec16(1.339993090e-3f);
    e = e * r + vec16(9.618489072e-3f);
    e = e * r + vec16(5.550328642e-2f);
    e = e * r + vec16(2.402264625e-1f);
    e = e * r + vec16(6.931471825e-1f);
    e = e * r + vec16(1.0f);
    return select(vgt(a, vec16(5.6f)), vec16(0.0f), e * from_bits(bits_of(t) << ivec16(23)));
}

// ---- sine and cosine ----

// x - q pi / 2 in [-pi / 4, pi / 4] for a finite |x| > 2^15, by Payne and Hanek's method: only the bits of 2 / pi that
// matter for x take part in an exact integer product.
inline float reduce_large_angle(float x, int32_t& quadrant) {
    static const uint32_t two_over_pi[8] = {0u,          0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                            0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};
#pragma HLS array_partition variable = two_over_pi complete
    const int32_t bits = bits_of(vec16(x))[0];
    const uint64_t significand = (bits & 0x7fffff) | 0x800000;
    const int32_t first = ((bits >> 23) & 0xff) - 150 - 2 + 32;  // first bit of the table with a weight below 4
    const int32_t word = first >> 5, shift = first & 31;
    uint64_t chunk[3];
chunks:
    for (int i = 0; i < 3; i++) {
#pragma HLS unroll
        const uint64_t pair = (uint64_t(two_over_pi[word + i]) << 32) | two_over_pi[word + i + 1];
        chunk[i] = uint32_t((pair << shift) >> 32);
    }
    // x 2 / pi mod 4, in units of 2^-62
    const uint64_t turn = ((significand * chunk[0]) << 32) + significand * chunk[1] + ((significand * chunk[2]) >> 32);
    const uint64_t q = (turn + (uint64_t(1) << 61)) >> 62;
    const int64_t rest = int64_t(turn - (q << 62));
    const float r = float(double(rest) * (1.5707963267948966 / 4611686018427387904.0));
    quadrant = bits < 0 ? -int32_t(q) : int32_t(q);
    return bits < 0 ? -r : r;
}

// a - b and what its rounding lost (Knuth's two-sum).
FPGA_INLINE vec16 subtract(const vec16& a, const vec16& b, vec16& lost) {
    const vec16 difference = a - b, minus_b = difference - a;
    lost = (a - (difference - minus_b)) - (b + minus_b);
    return difference;
}

// x - q pi / 2 with q the nearest integer. pi / 2 is cut into parts of 8 bits: each q part is exact while |q| < 2^16.
FPGA_INLINE vec16 reduce_angle(const vec16& x, ivec16& quadrant) {
    const vec16 shift(12582912.0f), t = x * vec16(0.636619772f) + shift, q = t - shift;
    quadrant = bits_of(t) & ivec16(3);
    const vec16 near = (x - q * vec16(0x1.92p+0f)) - q * vec16(0x1.fap-12f);  // exact
    vec16 lost, lost_before, lost_first;
    vec16 r = subtract(near, q * vec16(0x1.54p-20f), lost_first);
    r = subtract(r, q * vec16(0x1.10p-30f), lost_before);
    r = subtract(r, q * vec16(0x1.68p-39f), lost);
    r = r + ((lost_first + lost_before) + (lost - q * vec16(0x1.84698ap-48f)));
    const ivec16 large = vgt(vabs(x), vec16(100000.0f));
    if (any(large)) {
    each_large:
        for (int i = 0; i < VEC; i++) {
#pragma HLS pipeline
            if (large[i]) {
                int32_t lane_quadrant = 0;
                const bool finite = vabs(vec16(x[i]))[0] < FLOAT_INFINITY;
                const float lane_r = finite ? reduce_large_angle(x[i], lane_quadrant) : FLOAT_NAN;
                const ivec16 here = veq(lane_numbers(), ivec16(i));
                r = select(here, vec16(lane_r), r);
                quadrant = select(here, ivec16(lane_quadrant), quadrant);
            }
        }
    }
    return r;
}

// sin(x + quarter_turns pi / 2)
FPGA_INLINE vec16 sine_of_turned(const vec16& x, int32_t quarter_turns) {
    ivec16 quadrant;
    const vec16 r = reduce_angle(x, quadrant), z = r * r;
    quadrant += ivec16(quarter_turns);
    vec16 s = vec16(2.718046971e-6f);  // (sin(r) / r - 1) / r^2, in r^2
    s = s * z + vec16(-1.983930415e-4f);
    s = s * z + vec16(8.333329111e-3f);
    s = s * z + vec16(-1.666666716e-1f);
    vec16 c = vec16(2.443241465e-5f);  // (cos(r) - 1 + r^2 / 2) / r^4, in r^2
    c = c * z + vec16(-1.388730947e-3f);
    c = c * z + vec16(4.166664556e-2f);
    const vec16 sine = s * (z * r) + r, cosine = c * (z * z) + (vec16(1.0f) - z * vec16(0.5f));
    const vec16 y = select(veq(quadrant & ivec16(1), ivec16(1)), cosine, sine);
    return from_bits(bits_of(y) ^ ((quadrant & ivec16(2)) << ivec16(30)));
}

FPGA_INLINE vec16 vsin(const vec16& x) {
    return select(veq(x, vec16(0.0f)), x, sine_of_turned(x, 0));  // -0 stays -0
}

FPGA_INLINE vec16 vcos(const vec16& x) { return sine_of_turned(x, 1); }

}  // namespace fpga
