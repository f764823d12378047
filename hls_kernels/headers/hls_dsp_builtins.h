// Stands in for the header of Vitis HLS: what a DSP slice computes, with the widths of its ports. Registers of a slice by
// itself change no values. In a chain of slices (`cascade`), a second register of an operand delays it by a sample.
#pragma once
#include <complex>
#include <cstdint>

#include "ap_int.h"

namespace hls {
namespace dsp_detail {

enum flag : int64_t {
    REG_A1 = 1 << 0,
    REG_A2 = 1 << 1,
    REG_B1 = 1 << 2,
    REG_B2 = 1 << 3,
    REG_C = 1 << 4,
    REG_D = 1 << 5,
    REG_AD = 1 << 6,
    REG_M = 1 << 7,
    REG_P = 1 << 8,
    NO_PIPELINE = 0,
    BALANCED_PIPELINE = 1 << 9,
    FULL_PIPELINE = 1 << 10,
};

// Whether an operand with these two registers comes a sample later than with one.
constexpr bool delays(int64_t flags, int64_t first, int64_t second) {
    return (flags & FULL_PIPELINE) || ((flags & first) && (flags & second));
}

template <class T_, bool DELAYED_>
class operand {
public:
    T_ next(const T_& x) {
        if (!DELAYED_) return x;
        const T_ before = last_;
        last_ = x;
        return before;
    }

private:
    T_ last_ = T_(0);
};

// What the next slice of a chain gets.
template <class P_>
struct result {
    typename P_::A_t acout;
    typename P_::B_t bcout;
    typename P_::C_t pcout;
};

// P_: the types of the ports, and `product`.
template <class P_, int64_t FLAGS_>
class cascade {
    typedef typename P_::A_t A_t;
    typedef typename P_::B_t B_t;
    typedef typename P_::C_t C_t;

public:
    typedef dsp_detail::result<P_> R_t;
    R_t mul_add(A_t a, B_t b, C_t c) {
        const A_t x = a_.next(a);
        const B_t y = b_.next(b);
        return {x, y, C_t(P_::product(x, y) + c)};
    }
    R_t mul_sub(A_t a, B_t b, C_t c) {
        const A_t x = a_.next(a);
        const B_t y = b_.next(b);
        return {x, y, C_t(P_::product(x, y) - c)};
    }

private:
    operand<A_t, delays(FLAGS_, REG_A1, REG_A2)> a_;
    operand<B_t, delays(FLAGS_, REG_B1, REG_B2)> b_;
};

template <int A_BITS_, int B_BITS_, int P_BITS_>
struct real_ports {
    typedef ap_int<A_BITS_> A_t;
    typedef ap_int<B_BITS_> B_t;
    typedef ap_int<P_BITS_> C_t;
    static C_t product(A_t a, B_t b) { return a * b; }
};

struct complex_ports {
    typedef std::complex<ap_int<18>> A_t;
    typedef std::complex<ap_int<18>> B_t;
    typedef std::complex<ap_int<58>> C_t;
    static C_t product(const A_t& a, const B_t& b) {
        return C_t(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
    }
};

template <class P_, int64_t FLAGS_>
class acc {
    typedef typename P_::C_t C_t;

public:
    C_t mul_acc(typename P_::A_t a, typename P_::B_t b, bool init) {
        return sum_ = C_t(P_::product(a, b) + (init ? C_t(0) : sum_));
    }
    C_t add_mul_acc(typename P_::A_t a, typename P_::A_t d, typename P_::B_t b, bool init) {
        return mul_acc(a + d, b, init);
    }
    C_t sub_mul_acc(typename P_::A_t a, typename P_::A_t d, typename P_::B_t b, bool init) {
        return mul_acc(a - d, b, init);
    }

private:
    C_t sum_ = C_t(0);
};

}  // namespace dsp_detail

#define __HLS_DSP_COMMON(PORTS)                                              \
    typedef PORTS ports;                                                     \
    typedef ports::A_t A_t;                                                  \
    typedef ports::B_t B_t;                                                  \
    typedef ports::C_t C_t;                                                  \
    typedef ports::A_t D_t;                                                  \
    typedef ports::C_t P_t;                                                  \
    typedef dsp_detail::result<ports> R_t;                                   \
    template <int64_t FLAGS_ = 0>                                            \
    using cascade = dsp_detail::cascade<ports, FLAGS_>;                      \
    template <int64_t FLAGS_ = 0>                                            \
    using acc = dsp_detail::acc<ports, FLAGS_>;                              \
    using dsp_detail::REG_A1;                                                \
    using dsp_detail::REG_A2;                                                \
    using dsp_detail::REG_AD;                                                \
    using dsp_detail::REG_B1;                                                \
    using dsp_detail::REG_B2;                                                \
    using dsp_detail::REG_C;                                                 \
    using dsp_detail::REG_D;                                                 \
    using dsp_detail::REG_M;                                                 \
    using dsp_detail::REG_P;                                                 \
    using dsp_detail::NO_PIPELINE;                                           \
    using dsp_detail::BALANCED_PIPELINE;                                     \
    using dsp_detail::FULL_PIPELINE;                                         \
    __HLS_DSP_CALL(mul_add, (A_t a, B_t b, C_t c), ports::product(a, b) + c) \
    __HLS_DSP_CALL(mul_sub, (A_t a, B_t b, C_t c), ports::product(a, b) - c) \
    __HLS_DSP_CALL(mul_rev_sub, (A_t a, B_t b, C_t c), c - ports::product(a, b))
#define __HLS_DSP_CALL(NAME, PARAMETERS, VALUE) \
    template <int64_t FLAGS_ = 0>               \
    inline P_t NAME PARAMETERS {                \
        return P_t(VALUE);                      \
    }
#define __HLS_DSP_REAL(NAME, A_BITS, B_BITS, P_BITS)                                                   \
    namespace NAME {                                                                                   \
    typedef dsp_detail::real_ports<A_BITS, B_BITS, P_BITS> real;                                       \
    __HLS_DSP_COMMON(real)                                                                             \
    __HLS_DSP_CALL(add_mul_add, (A_t a, D_t d, B_t b, C_t c), ports::product(a + d, b) + c)            \
    __HLS_DSP_CALL(add_mul_sub, (A_t a, D_t d, B_t b, C_t c), ports::product(a + d, b) - c)            \
    __HLS_DSP_CALL(sub_mul_add, (A_t a, D_t d, B_t b, C_t c), ports::product(a - d, b) + c)            \
    __HLS_DSP_CALL(sub_mul_sub, (A_t a, D_t d, B_t b, C_t c), ports::product(a - d, b) - c)            \
    inline P_t mul_add(A_t a, B_t b, C_t c, int64_t) { return mul_add<0>(a, b, c); }                   \
    inline P_t mul_sub(A_t a, B_t b, C_t c, int64_t) { return mul_sub<0>(a, b, c); }                   \
    inline P_t add_mul_add(A_t a, D_t d, B_t b, C_t c, int64_t) { return add_mul_add<0>(a, d, b, c); } \
    inline P_t sub_mul_add(A_t a, D_t d, B_t b, C_t c, int64_t) { return sub_mul_add<0>(a, d, b, c); } \
    }
__HLS_DSP_REAL(dsp48e1, 25, 18, 48)
__HLS_DSP_REAL(dsp48e2, 27, 18, 48)
__HLS_DSP_REAL(dsp58, 27, 24, 58)
namespace dspcplx {
__HLS_DSP_COMMON(dsp_detail::complex_ports)
}
#undef __HLS_DSP_REAL
#undef __HLS_DSP_CALL
#undef __HLS_DSP_COMMON

}  // namespace hls
