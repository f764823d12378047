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
    template <int W_, bool S_>                                                                \
    inline ap_int_base<W_, S_> NAME(const ap_int_base<W_, S_>& x) { return ap_int_base<W_, S_>(static_cast<int>(__builtin_##NAME##f(static_cast<float>(x.to_double())))); } \
    template <int W_, int I_, bool S_>                                                        \
    inline ap_fixed_base<W_, I_, S_> NAME(const ap_fixed_base<W_, I_, S_>& x) { return ap_fixed_base<W_, I_, S_>(__builtin_##NAME##f(static_cast<float>(x.to_double()))); }
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
template <class T_>
inline T_ abs(T_ x) { return x < T_(0) ? T_(-x) : x; }
inline float pow(float x, float y) { return __builtin_powf(x, y); }
inline double pow(double x, double y) { return __builtin_pow(x, y); }
inline float fmax(float a, float b) { return a > b ? a : b; }
inline float fmin(float a, float b) { return a < b ? a : b; }
inline float fmod(float a, float b) { return __builtin_fmodf(a, b); }
inline float atan2(float a, float b) { return __builtin_atan2f(a, b); }
template <class T_>
inline T_ max(T_ a, T_ b) { return a > b ? a : b; }
template <class T_>
inline T_ min(T_ a, T_ b) { return a < b ? a : b; }
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
template <class T_>
inline bool isnan(T_ x) { return x != x; }
template <class T_>
inline bool isinf(T_ x) { return __builtin_isinf(x); }
template <class T_>
inline bool signbit(T_ x) { return x < T_(0); }

}  // namespace hls
