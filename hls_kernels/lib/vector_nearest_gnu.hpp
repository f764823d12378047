// The greater and smaller of two, and the nearest integer, in few instructions of x86; `dvec16`, 16 doubles, is for the
// epilogue (int8/epilogue.hpp).
#pragma once
#include <cstdint>

#include "vector.hpp"

namespace fpga {

#define EACH_PART UNROLL for (int p = 0; p < PARTS; p++)

typedef double native_double __attribute__((vector_size(4 * NATIVE_LANES)));
typedef int32_t half_int __attribute__((vector_size(2 * NATIVE_LANES)));

struct dvec16 {
    native_double part[2 * PARTS];
};

#define EACH_HALF UNROLL for (int p = 0; p < 2 * PARTS; p++)

FPGA_INLINE half_int half_of(const ivec16& x, int p) {
#if defined(__AVX512F__)
    return p % 2 ? __builtin_shufflevector(x.part[p / 2], x.part[p / 2], 8, 9, 10, 11, 12, 13, 14, 15)
                 : __builtin_shufflevector(x.part[p / 2], x.part[p / 2], 0, 1, 2, 3, 4, 5, 6, 7);
#elif defined(__AVX2__)
    return p % 2 ? __builtin_shufflevector(x.part[p / 2], x.part[p / 2], 4, 5, 6, 7)
                 : __builtin_shufflevector(x.part[p / 2], x.part[p / 2], 0, 1, 2, 3);
#else
    return p % 2 ? __builtin_shufflevector(x.part[p / 2], x.part[p / 2], 2, 3)
                 : __builtin_shufflevector(x.part[p / 2], x.part[p / 2], 0, 1);
#endif
}

FPGA_INLINE native_double double_of(const half_int& x) {
#if defined(__AVX512F__) && !defined(__clang__)
    return __builtin_ia32_cvtdq2pd512_mask(x, native_double{}, -1);
#else
    return __builtin_convertvector(x, native_double);
#endif
}
FPGA_INLINE dvec16 to_double(const ivec16& x) {
    dvec16 r;
    EACH_HALF r.part[p] = double_of(half_of(x, p));
    return r;
}
FPGA_INLINE dvec16 to_double(const vec16& x) {
    alignas(64) float lane[VEC];
    store(lane, 0, x);
    dvec16 r;
    EACH_HALF { UNROLL for (int i = 0; i < NATIVE_LANES / 2; i++) r.part[p][i] = lane[p * (NATIVE_LANES / 2) + i]; }
    return r;
}
FPGA_INLINE vec16 to_float(const dvec16& x) {
    alignas(64) float lane[VEC];
    EACH_HALF {
        UNROLL for (int i = 0; i < NATIVE_LANES / 2; i++)
            lane[p * (NATIVE_LANES / 2) + i] = static_cast<float>(x.part[p][i]);
    }
    return load(lane, 0);
}
FPGA_INLINE dvec16 splat_double(double x) {
    dvec16 r;
    EACH_HALF r.part[p] = x - native_double{};
    return r;
}
// a * b + c, where product and sum are exact: whether they are fused makes no difference.
FPGA_INLINE dvec16 exact_fma(const dvec16& a, const dvec16& b, const dvec16& c) {
    dvec16 r;
    EACH_HALF r.part[p] = a.part[p] * b.part[p] + c.part[p];
    return r;
}
FPGA_INLINE dvec16 exact_product(const dvec16& a, const dvec16& b) {
    dvec16 r;
    EACH_HALF r.part[p] = a.part[p] * b.part[p];
    return r;
}
FPGA_INLINE dvec16 vmin(const dvec16& a, const dvec16& b) {
    dvec16 r;
    EACH_HALF r.part[p] = a.part[p] < b.part[p] ? a.part[p] : b.part[p];
    return r;
}

// The larger of two in each lane; g++ 12 makes a comparison and a blend of the operators.
FPGA_INLINE ivec16 larger(const ivec16& a, const ivec16& b) {
#if defined(__AVX512F__) && !defined(__clang__)
    ivec16 r;
    r.part[0] = __builtin_ia32_pmaxsd512_mask(a.part[0], b.part[0], native_int{}, -1);
    return r;
#else
    return select(vgt(a, b), a, b);
#endif
}

// Of numbers that are no NaN; g++ 12 makes a comparison and a blend of the operators.
FPGA_INLINE vec16 smaller(const vec16& a, const vec16& b) {
#if defined(__AVX512F__) && !defined(__clang__)
    constexpr int CURRENT_ROUNDING = 4;
    vec16 r;
    r.part[0] = __builtin_ia32_minps512_mask(a.part[0], b.part[0], native_float{}, -1, CURRENT_ROUNDING);
    return r;
#else
    return select(vlt(a, b), a, b);
#endif
}

// The smaller of two in each half of a lane, as unsigned words.
FPGA_INLINE ivec16 smaller_halves(const ivec16& a, const ivec16& b) {
    typedef uint16_t native_halves __attribute__((vector_size(4 * NATIVE_LANES)));
    ivec16 r;
    EACH_PART {
        const native_halves x = (native_halves)a.part[p], y = (native_halves)b.part[p];
        r.part[p] = (native_int)(x < y ? x : y);
    }
    return r;
}

// Whether the lower half of some lane of x is `limit`, at most 2^16 - 1, or less.
FPGA_INLINE bool some_lower_half_within(const ivec16& x, const ivec16& limit) {
#if defined(__AVX512BW__)
    typedef int16_t native_words __attribute__((vector_size(64)));
    constexpr int AT_MOST = 2;
    constexpr uint32_t LOWER = 0x55555555;
    return __builtin_ia32_ucmpw512_mask((native_words)x.part[0], (native_words)limit.part[0], AT_MOST, LOWER) != 0;
#else
    const ivec16 beyond = (x & ivec16(0xffff)) - limit - ivec16(1);
#if defined(__AVX2__) && !defined(__AVX512F__)
    int lanes = 0;
    EACH_PART lanes |= __builtin_ia32_movmskps256((native_float)beyond.part[p]);
    return lanes != 0;
#else
    return any(beyond >> ivec16(31));
#endif
#endif
}

FPGA_INLINE half_int nearest_of(const native_double& x) {
#if defined(__AVX512F__)
    constexpr int CURRENT_ROUNDING = 4;
    return (half_int)__builtin_ia32_cvtpd2dq512_mask(x, half_int{}, -1, CURRENT_ROUNDING);
#elif defined(__AVX2__)
    return (half_int)__builtin_ia32_cvtpd2dq256(x);
#elif defined(__SSE2__)
    const native_int both = (native_int)__builtin_ia32_cvtpd2dq(x);
    return __builtin_shufflevector(both, both, 0, 1);
#elif defined(__aarch64__)
    return (half_int)vqmovn_s64(vcvtnq_s64_f64((float64x2_t)x));
#else
    half_int r;
    for (int i = 0; i < NATIVE_LANES / 2; i++) r[i] = static_cast<int32_t>(__builtin_rint(x[i]));
    return r;
#endif
}

// To the nearest integers, ties to even; below -2^31 it may be any number below -2^30.
FPGA_INLINE ivec16 to_nearest(const dvec16& x) {
    ivec16 r;
    EACH_PART {
        const half_int low = nearest_of(x.part[2 * p]), high = nearest_of(x.part[2 * p + 1]);
#if defined(__AVX512F__)
        r.part[p] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif defined(__AVX2__)
        r.part[p] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
#else
        r.part[p] = __builtin_shufflevector(low, high, 0, 1, 2, 3);
#endif
    }
    return r;
}

FPGA_INLINE ivec16 to_nearest(const vec16& x) {
    ivec16 r;
#if defined(__AVX512F__)
    constexpr int CURRENT_ROUNDING = 4;
    EACH_PART {
        r.part[p] = (native_int)__builtin_ia32_cvtps2dq512_mask(x.part[p], native_int{}, -1, CURRENT_ROUNDING);
    }
#elif defined(__AVX2__)
    EACH_PART r.part[p] = (native_int)__builtin_ia32_cvtps2dq256(x.part[p]);
#elif defined(__SSE2__)
    EACH_PART r.part[p] = (native_int)__builtin_ia32_cvtps2dq(x.part[p]);
#else
    EACH_PART {
        for (int i = 0; i < NATIVE_LANES; i++) r.part[p][i] = static_cast<int32_t>(__builtin_rintf(x.part[p][i]));
    }
#endif
    return r;
}

#undef EACH_PART
#undef EACH_HALF

}  // namespace fpga
