// Stands in for the header of Vitis HLS while loops are checked: its functions are the C library's, by their names in the
// IR; `half` is computed in the type of 16 bits.
#pragma once
#include <cmath>
#include <cstdlib>

#include "ap_fixed.h"
#include "hls_half.h"

namespace hls {

#define __HLS_ONE(NAME)                                                                       \
    inline float NAME(float x) { return __builtin_##NAME##f(x); }                             \
    inline double NAME(double x) { return __builtin_##NAME(x); }                              \
    inline half NAME(half x) { return static_cast<half>(__builtin_##NAME##f(static_cast<float>(x))); } \
    template <int W, bool S>                                                                  \
    inline ap_int_base<W, S> NAME(const ap_int_base<W, S>& x) { return ap_int_base<W, S>(static_cast<int>(__builtin_##NAME##f(static_cast<float>(x.to_double())))); } \
    template <int W, int I, bool S>                                                           \
    inline ap_fixed_base<W, I, S> NAME(const ap_fixed_base<W, I, S>& x) { return ap_fixed_base<W, I, S>(__builtin_##NAME##f(static_cast<float>(x.to_double()))); }
__HLS_ONE(sqrt)
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
#undef __HLS_ONE
inline float fabs(float x) { return __builtin_fabsf(x); }
inline double fabs(double x) { return __builtin_fabs(x); }
template <class T>
inline T abs(T x) { return x < T(0) ? T(-x) : x; }
inline float pow(float x, float y) { return __builtin_powf(x, y); }
inline double pow(double x, double y) { return __builtin_pow(x, y); }
inline float fmax(float a, float b) { return a > b ? a : b; }
inline float fmin(float a, float b) { return a < b ? a : b; }
inline float fmod(float a, float b) { return __builtin_fmodf(a, b); }
inline float atan2(float a, float b) { return __builtin_atan2f(a, b); }
template <class T>
inline T max(T a, T b) { return a > b ? a : b; }
template <class T>
inline T min(T a, T b) { return a < b ? a : b; }
inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
inline float recip(float x) { return 1.0f / x; }
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
template <class T>
inline bool isnan(T x) { return x != x; }
template <class T>
inline bool isinf(T x) { return __builtin_isinf(x); }
template <class T>
inline bool signbit(T x) { return x < T(0); }

}  // namespace hls
