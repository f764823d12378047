// Stands in for the header of Vitis HLS: the least and the largest value of a type.
#pragma once
#include <limits>

#include "../ap_fixed.h"

namespace hls {

template <class T_>
struct numeric_limits : std::numeric_limits<T_> {};

// Of W bits as they lie there: a one in front and zeros behind it, or the other way round.
#define __HLS_LIMITS(TYPE, SIGN)                                                                         \
    struct numeric_limits<TYPE> {                                                                        \
        typedef TYPE type;                                                                               \
        typedef typename type::value_type bits;                                                          \
        static type of(bits x) {                                                                         \
            type r;                                                                                      \
            r.v = x;                                                                                     \
            return r;                                                                                    \
        }                                                                                                \
        static type min() { return of(SIGN ? static_cast<bits>(static_cast<bits>(1) << (W_ - 1)) : 0); } \
        static type lowest() { return min(); }                                                           \
        static type max() { return of(static_cast<bits>(~min().v)); }                                    \
        static type epsilon() { return of(1); }                                                          \
    };
#define __HLS_COMMA ,
template <int W_>
__HLS_LIMITS(ap_int<W_>, true)
template <int W_>
__HLS_LIMITS(ap_uint<W_>, false)
template <int W_, int I_, ap_q_mode Q_, ap_o_mode O_, int N_>
__HLS_LIMITS(ap_fixed<W_ __HLS_COMMA I_ __HLS_COMMA Q_ __HLS_COMMA O_ __HLS_COMMA N_>, true)
template <int W_, int I_, ap_q_mode Q_, ap_o_mode O_, int N_>
__HLS_LIMITS(ap_ufixed<W_ __HLS_COMMA I_ __HLS_COMMA Q_ __HLS_COMMA O_ __HLS_COMMA N_>, false)
#undef __HLS_COMMA
#undef __HLS_LIMITS

}  // namespace hls
