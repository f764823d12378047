// Stands in for the header of Vitis HLS: its functions are the C library's, whose last bits may differ from those of AMD's. Of
// numbers with a fixed point they are computed in double, where loops are checked in float, of `half` in float.
#pragma once
#include <cmath>
#include <cstdlib>

#include "ap_fixed.h"
#include "hls_half.h"

#ifdef __HLS_CHECK__
#define __HLS_WIDER float
#else
#define __HLS_WIDER double
#endif

namespace hls {

#define __HLS_ONE(NAME)                                                                                \
    inline float NAME(float x) { return __builtin_##NAME##f(x); }                                      \
    inline double NAME(double x) { return __builtin_##NAME(x); }                                       \
    inline half NAME(half x) { return static_cast<half>(__builtin_##NAME##f(static_cast<float>(x))); } \
    template <int W_, bool S_>                                                                         \
    inline ap_int_base<W_, S_> NAME(const ap_int_base<W_, S_>& x) {                                    \
        return ap_int_base<W_, S_>(static_cast<int>(NAME(static_cast<__HLS_WIDER>(x.to_double()))));   \
    }                                                                                                  \
    template <int W_, int I_, bool S_>                                                                 \
    inline ap_fixed_base<W_, I_, S_> NAME(const ap_fixed_base<W_, I_, S_>& x) {                        \
        return ap_fixed_base<W_, I_, S_>(NAME(static_cast<__HLS_WIDER>(x.to_double())));               \
    }
__HLS_ONE(sqrt)
// Of an integer: the largest whose square is not above it.
template <class T_>
inline std::enable_if_t<std::is_integral<T_>::value, T_> sqrt(T_ x) {
    T_ root = static_cast<T_>(__builtin_sqrt(static_cast<double>(x)));
    while (root > 0 && root > x / root) root--;  // of 64 bits, which a double rounds
    return root;
}
__HLS_ONE(exp)
__HLS_ONE(exp2)
__HLS_ONE(log)
__HLS_ONE(log2)
__HLS_ONE(log10)
__HLS_ONE(sin)
__HLS_ONE(cos)
__HLS_ONE(tan)
__HLS_ONE(asin)
__HLS_ONE(acos)
__HLS_ONE(atan)
__HLS_ONE(sinh)
__HLS_ONE(cosh)
__HLS_ONE(tanh)
__HLS_ONE(floor)
__HLS_ONE(ceil)
__HLS_ONE(round)
__HLS_ONE(trunc)
__HLS_ONE(rint)
__HLS_ONE(erf)
__HLS_ONE(erfc)
__HLS_ONE(expm1)
__HLS_ONE(exp10)
__HLS_ONE(log1p)
__HLS_ONE(logb)
__HLS_ONE(cbrt)
__HLS_ONE(asinh)
__HLS_ONE(acosh)
__HLS_ONE(atanh)
__HLS_ONE(nearbyint)
#undef __HLS_ONE
#undef __HLS_WIDER
#define __HLS_TWO(NAME)                                                                              \
    inline float NAME(float a, float b) { return __builtin_##NAME##f(a, b); }                        \
    inline double NAME(double a, double b) { return __builtin_##NAME(a, b); }                        \
    inline half NAME(half a, half b) {                                                               \
        return static_cast<half>(__builtin_##NAME##f(static_cast<float>(a), static_cast<float>(b))); \
    }
__HLS_TWO(pow)
__HLS_TWO(fmod)
__HLS_TWO(remainder)
__HLS_TWO(atan2)
__HLS_TWO(hypot)
__HLS_TWO(copysign)
__HLS_TWO(nextafter)
#undef __HLS_TWO
#define __HLS_ROUNDED(NAME, TYPE)                                \
    inline TYPE NAME(float x) { return __builtin_##NAME##f(x); } \
    inline TYPE NAME(double x) { return __builtin_##NAME(x); }
__HLS_ROUNDED(lround, long)
__HLS_ROUNDED(llround, long long)
__HLS_ROUNDED(lrint, long)
__HLS_ROUNDED(llrint, long long)
__HLS_ROUNDED(ilogb, int)
#undef __HLS_ROUNDED
template <class T_>
inline T_ fma(T_ a, T_ b, T_ c) {
    return a * b + c;
}
template <class T_>
inline T_ mad(T_ a, T_ b, T_ c) {
    return a * b + c;
}
template <class T_>
inline T_ fdim(T_ a, T_ b) {
    return a > b ? T_(a - b) : T_(0);
}
template <class T_>
inline T_ divide(T_ a, T_ b) {
    return a / b;
}
inline float ldexp(float x, int by) { return __builtin_ldexpf(x, by); }
inline double ldexp(double x, int by) { return __builtin_ldexp(x, by); }
inline void sincos(float x, float* s, float* c) { *s = sin(x), *c = cos(x); }
inline void sincos(double x, double* s, double* c) { *s = sin(x), *c = cos(x); }
inline float fabs(float x) { return __builtin_fabsf(x); }
inline double fabs(double x) { return __builtin_fabs(x); }
template <class T_>
inline T_ abs(T_ x) {
    return x < T_(0) ? T_(-x) : x;
}
template <class T_>
inline T_ fmax(T_ a, T_ b) {
    return a > b ? a : b;
}
template <class T_>
inline T_ fmin(T_ a, T_ b) {
    return a < b ? a : b;
}
template <class T_>
inline T_ max(T_ a, T_ b) {
    return a > b ? a : b;
}
template <class T_>
inline T_ min(T_ a, T_ b) {
    return a < b ? a : b;
}
inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
inline float recip(float x) { return 1.0f / x; }
inline double recip(double x) { return 1.0 / x; }
inline float sqrtf(float x) { return __builtin_sqrtf(x); }
inline float expf(float x) { return __builtin_expf(x); }
inline float logf(float x) { return __builtin_logf(x); }
inline float tanhf(float x) { return __builtin_tanhf(x); }
inline float sinf(float x) { return __builtin_sinf(x); }
inline float cosf(float x) { return __builtin_cosf(x); }
inline float powf(float x, float y) { return __builtin_powf(x, y); }
inline float fabsf(float x) { return __builtin_fabsf(x); }
inline float floorf(float x) { return __builtin_floorf(x); }
inline float ceilf(float x) { return __builtin_ceilf(x); }
template <class T_>
inline bool isnan(T_ x) {
    return x != x;
}
template <class T_>
inline bool isinf(T_ x) {
    return __builtin_isinf(x);
}
template <class T_>
inline bool isfinite(T_ x) {
    return __builtin_isfinite(x);
}
template <class T_>
inline bool isnormal(T_ x) {
    return __builtin_isnormal(x);
}
template <class T_>
inline bool signbit(T_ x) {
    return x < T_(0);
}

}  // namespace hls
