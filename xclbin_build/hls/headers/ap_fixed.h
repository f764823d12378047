// Stands in for the header of Vitis HLS while loops are checked: fixed-point numbers on _BitInt. Rounding costs an addition
// and saturation a comparison, as in hardware; the modes are not told apart any further.
#pragma once
#include "ap_int.h"

enum ap_q_mode { AP_RND, AP_RND_ZERO, AP_RND_MIN_INF, AP_RND_INF, AP_RND_CONV, AP_TRN, AP_TRN_ZERO };
enum ap_o_mode { AP_SAT, AP_SAT_ZERO, AP_SAT_SYM, AP_WRAP, AP_WRAP_SM };

namespace ap_detail {
// x times 2^by, of a normal number: the exponent is moved, which takes no multiplier.
__AP_INLINE constexpr float moved_point(float x, int by) {
    const unsigned bits = __builtin_bit_cast(unsigned, x);
    return (bits & 0x7f800000u) == 0 ? 0.0f : __builtin_bit_cast(float, bits + (static_cast<unsigned>(by) << 23));
}
__AP_INLINE constexpr double moved_point(double x, int by) {
    const unsigned long long bits = __builtin_bit_cast(unsigned long long, x);
    return (bits & 0x7ff0000000000000ull) == 0
               ? 0.0
               : __builtin_bit_cast(double, bits + (static_cast<unsigned long long>(by) << 52));
}
}  // namespace ap_detail

// W bits, of which I stand in front of the point.
template <int W, int I, bool S>
struct ap_fixed_base {
    typedef ap_detail::raw_t<W, S> value_type;
    static constexpr int width = W, iwidth = I, fraction = W - I;
    static constexpr bool sign_flag = S;
    value_type v;

    ap_fixed_base() = default;
    __AP_INLINE constexpr ap_fixed_base(double x) : v(static_cast<value_type>(ap_detail::moved_point(x, W - I))) {}
    __AP_INLINE constexpr ap_fixed_base(float x) : v(static_cast<value_type>(ap_detail::moved_point(x, W - I))) {}
    template <class T, class = ap_detail::if_integer<T>, class = void>
    __AP_INLINE constexpr ap_fixed_base(T x) : v(shifted<ap_detail::traits<T>::width>(static_cast<
        ap_detail::raw_t<ap_detail::traits<T>::width, ap_detail::traits<T>::is_signed>>(x), 0)) {}
    template <int A, bool SA>
    __AP_INLINE ap_fixed_base(const ap_int_base<A, SA>& x) : v(shifted<A>(x.v, 0)) {}
    template <int A, bool SA>
    __AP_INLINE ap_fixed_base(const ap_range_ref<A, SA>& x) : v(shifted<A>(x.get().v, 0)) {}
    template <int A, int IA, bool SA>
    __AP_INLINE ap_fixed_base(const ap_fixed_base<A, IA, SA>& x) : v(shifted<A>(x.v, A - IA)) {}

    // x has `from` fraction bits.
    template <int A, class T>
    __AP_INLINE static constexpr value_type shifted(T x, int from) {
        constexpr int F = W - I;
        typedef _BitInt(ap_detail::larger(A, W) + (F > 0 ? F : -F) + 2) wide;
        return F >= from ? static_cast<value_type>(static_cast<wide>(x) << (F - from))
                         : static_cast<value_type>(static_cast<wide>(x) >> (from - F));
    }

    __AP_INLINE double to_double() const { return ap_detail::moved_point(static_cast<double>(static_cast<long long>(v)), I - W); }
    __AP_INLINE float to_float() const {
        return ap_detail::moved_point(static_cast<float>(static_cast<long long>(v)), I - W);
    }
    __AP_INLINE long long to_int64() const { return static_cast<long long>(v >> (W > I ? W - I : 0)); }
    __AP_INLINE int to_int() const { return static_cast<int>(to_int64()); }
    __AP_INLINE unsigned to_uint() const { return static_cast<unsigned>(to_int64()); }
    __AP_INLINE operator float() const { return to_float(); }
    __AP_INLINE explicit operator double() const { return to_double(); }
    template <class T, class = ap_detail::if_integer<T>>
    __AP_INLINE explicit operator T() const { return static_cast<T>(to_int64()); }
    __AP_INLINE ap_range_ref<W, S> range(int high, int low) { return {reinterpret_cast<ap_int_base<W, S>&>(v), high, low}; }
    __AP_INLINE ap_range_ref<W, S> range() { return range(W - 1, 0); }
    __AP_INLINE ap_range_ref<W, S> range(int high, int low) const {
        return const_cast<ap_fixed_base*>(this)->range(high, low);
    }
    __AP_INLINE ap_range_ref<W, S> range() const { return range(W - 1, 0); }
    __AP_INLINE ap_range_ref<W, S> operator()(int high, int low) { return range(high, low); }
    __AP_INLINE ap_range_ref<W, S> operator[](int at) { return range(at, at); }
    __AP_INLINE static constexpr int length() { return W; }

#define __AP_ASSIGN(OP)                                          \
    template <class T>                                           \
    __AP_INLINE ap_fixed_base& operator OP##=(const T & x) {     \
        return *this = ap_fixed_base(*this OP x);                \
    }
    __AP_ASSIGN(+)
    __AP_ASSIGN(-)
    __AP_ASSIGN(*)
    __AP_ASSIGN(/)
#undef __AP_ASSIGN
    template <int A, bool SA>
    __AP_INLINE ap_fixed_base operator<<(const ap_int_base<A, SA>& n) const {
        return *this << static_cast<int>(n.v);
    }
    template <class T, class = ap_detail::if_integer<T>>
    __AP_INLINE ap_fixed_base operator<<(T n) const {
        ap_fixed_base r;
        r.v = static_cast<value_type>(v << n);
        return r;
    }
    template <int A, bool SA>
    __AP_INLINE ap_fixed_base operator>>(const ap_int_base<A, SA>& n) const {
        return *this >> static_cast<int>(n.v);
    }
    template <class T, class = ap_detail::if_integer<T>>
    __AP_INLINE ap_fixed_base operator>>(T n) const {
        ap_fixed_base r;
        r.v = static_cast<value_type>(v >> n);
        return r;
    }
    __AP_INLINE ap_fixed_base& operator<<=(int n) { return *this = *this << n; }
    __AP_INLINE ap_fixed_base& operator>>=(int n) { return *this = *this >> n; }
    __AP_INLINE ap_fixed_base<W + 1, I + 1, true> operator-() const {
        ap_fixed_base<W + 1, I + 1, true> r;
        r.v = static_cast<decltype(r.v)>(-static_cast<decltype(r.v)>(v));
        return r;
    }
    __AP_INLINE bool operator!() const { return v == 0; }
    __AP_INLINE bool is_neg() const { return v < 0; }
};

template <int W, int I, ap_q_mode Q = AP_TRN, ap_o_mode O = AP_WRAP, int N = 0>
struct ap_fixed;
template <int W, int I, ap_q_mode Q = AP_TRN, ap_o_mode O = AP_WRAP, int N = 0>
struct ap_ufixed;

template <int W, bool S>
template <int W2, int I2, bool S2>
__AP_INLINE ap_int_base<W, S>::ap_int_base(const ap_fixed_base<W2, I2, S2>& x)
    : v(ap_fixed_base<W, W, S>::template shifted<W2>(x.v, W2 - I2)) {}

// What a value of more bits becomes where it is assigned.
template <int W, int I, bool S, ap_q_mode Q, ap_o_mode O, int A, int IA, bool SA>
__AP_INLINE ap_fixed_base<W, I, S> ap_quantized(const ap_fixed_base<A, IA, SA>& x) {
    constexpr int lost = (A - IA) - (W - I);
    constexpr bool round = Q != AP_TRN && Q != AP_TRN_ZERO && lost > 0;
    constexpr int wide = ap_detail::larger(A, W) + (lost > 0 ? 0 : -lost) + 2;
    typedef _BitInt(wide) type;
    type t = static_cast<type>(x.v);
    if constexpr (round) t = static_cast<type>(t + (static_cast<type>(1) << (lost - 1)));
    if constexpr (lost > 0)
        t = static_cast<type>(t >> lost);
    else if constexpr (lost < 0)
        t = static_cast<type>(t << -lost);
    if constexpr (O != AP_WRAP && O != AP_WRAP_SM && (IA > I || SA != S || round)) {
        const type most = static_cast<type>((static_cast<type>(1) << (W - S)) - 1);
        const type least = S ? static_cast<type>(-most - 1) : static_cast<type>(0);
        t = t > most ? most : t < least ? least : t;
    }
    ap_fixed_base<W, I, S> r;
    r.v = static_cast<decltype(r.v)>(t);
    return r;
}

#define __AP_FIXED(NAME, SIGN)                                                                     \
    template <int W, int I, ap_q_mode Q, ap_o_mode O, int N>                                       \
    struct NAME : ap_fixed_base<W, I, SIGN> {                                                      \
        typedef ap_fixed_base<W, I, SIGN> base;                                                    \
        NAME() = default;                                                                          \
        using base::base;                                                                          \
        template <int A, int IA, bool SA>                                                          \
        __AP_INLINE NAME(const ap_fixed_base<A, IA, SA>& x) : base(ap_quantized<W, I, SIGN, Q, O>(x)) {} \
    };
__AP_FIXED(ap_fixed, true)
__AP_FIXED(ap_ufixed, false)
#undef __AP_FIXED

namespace ap_detail {
template <int A, int IA, bool SA, int B, int IB, bool SB>
struct sum {
    static constexpr bool sign = SA || SB;
    static constexpr int integer = larger(IA + (sign && !SA), IB + (sign && !SB)) + 1;
    static constexpr int fraction = larger(A - IA, B - IB);
    typedef ap_fixed_base<integer + fraction, integer, sign> type;
};
template <class T>
using as_fixed = ap_fixed_base<traits<T>::width, traits<T>::width, traits<T>::is_signed>;
}  // namespace ap_detail

#define __AP_MIXED(OP)                                                                                     \
    template <int A, int IA, bool SA, class T, class = ap_detail::if_integer<T>>                           \
    __AP_INLINE auto operator OP(const ap_fixed_base<A, IA, SA>& a, T b) {                                 \
        return a OP ap_detail::as_fixed<T>(b);                                                             \
    }                                                                                                      \
    template <int A, int IA, bool SA, class T, class = ap_detail::if_integer<T>>                           \
    __AP_INLINE auto operator OP(T b, const ap_fixed_base<A, IA, SA>& a) {                                 \
        return ap_detail::as_fixed<T>(b) OP a;                                                             \
    }                                                                                                      \
    template <int A, int IA, bool SA, int B, bool SB>                                                      \
    __AP_INLINE auto operator OP(const ap_fixed_base<A, IA, SA>& a, const ap_int_base<B, SB>& b) {         \
        return a OP ap_fixed_base<B, B, SB>(b);                                                            \
    }                                                                                                      \
    template <int A, int IA, bool SA, int B, bool SB>                                                      \
    __AP_INLINE auto operator OP(const ap_int_base<B, SB>& b, const ap_fixed_base<A, IA, SA>& a) {         \
        return ap_fixed_base<B, B, SB>(b) OP a;                                                            \
    }                                                                                                      \
    template <int A, int IA, bool SA>                                                                      \
    __AP_INLINE auto operator OP(const ap_fixed_base<A, IA, SA>& a, double b) {                            \
        return a OP ap_fixed_base<A, IA, SA>(b);                                                           \
    }                                                                                                      \
    template <int A, int IA, bool SA>                                                                      \
    __AP_INLINE auto operator OP(const ap_fixed_base<A, IA, SA>& a, float b) {                             \
        return a OP ap_fixed_base<A, IA, SA>(b);                                                           \
    }                                                                                                      \
    template <int A, int IA, bool SA>                                                                      \
    __AP_INLINE auto operator OP(double b, const ap_fixed_base<A, IA, SA>& a) {                            \
        return ap_fixed_base<A, IA, SA>(b) OP a;                                                           \
    }                                                                                                      \
    template <int A, int IA, bool SA>                                                                      \
    __AP_INLINE auto operator OP(float b, const ap_fixed_base<A, IA, SA>& a) {                             \
        return ap_fixed_base<A, IA, SA>(b) OP a;                                                           \
    }
#define __AP_SUM(OP)                                                                                             \
    template <int A, int IA, bool SA, int B, int IB, bool SB>                                                    \
    __AP_INLINE auto operator OP(const ap_fixed_base<A, IA, SA>& a, const ap_fixed_base<B, IB, SB>& b) {         \
        typedef typename ap_detail::sum<A, IA, SA, B, IB, SB>::type type;                                        \
        type r;                                                                                                  \
        r.v = static_cast<decltype(r.v)>(type(a).v OP type(b).v);                                                \
        return r;                                                                                                \
    }                                                                                                            \
    __AP_MIXED(OP)
__AP_SUM(+)
__AP_SUM(-)
#undef __AP_SUM
template <int A, int IA, bool SA, int B, int IB, bool SB>
__AP_INLINE auto operator*(const ap_fixed_base<A, IA, SA>& a, const ap_fixed_base<B, IB, SB>& b) {
    ap_fixed_base<A + B, IA + IB, SA || SB> r;
    typedef decltype(r.v) type;
    r.v = static_cast<type>(static_cast<type>(a.v) * static_cast<type>(b.v));
    return r;
}
__AP_MIXED(*)
template <int A, int IA, bool SA, int B, int IB, bool SB>
__AP_INLINE auto operator/(const ap_fixed_base<A, IA, SA>& a, const ap_fixed_base<B, IB, SB>& b) {
    constexpr int fraction = ap_detail::larger(B - IB, 0);
    constexpr int width = A + SB + fraction + ap_detail::larger(IB, 0);
    ap_fixed_base<width, IA + SB + fraction, SA || SB> r;
    typedef decltype(r.v) type;
    r.v = static_cast<type>(static_cast<type>(static_cast<type>(a.v) << (width - A - SB)) / static_cast<type>(b.v));
    return r;
}
__AP_MIXED(/)
#define __AP_COMPARE(OP)                                                                                  \
    template <int A, int IA, bool SA, int B, int IB, bool SB>                                             \
    __AP_INLINE bool operator OP(const ap_fixed_base<A, IA, SA>& a, const ap_fixed_base<B, IB, SB>& b) {  \
        typedef typename ap_detail::sum<A, IA, SA, B, IB, SB>::type type;                                 \
        return type(a).v OP type(b).v;                                                                    \
    }                                                                                                     \
    __AP_MIXED(OP)
__AP_COMPARE(==)
__AP_COMPARE(!=)
__AP_COMPARE(<)
__AP_COMPARE(>)
__AP_COMPARE(<=)
__AP_COMPARE(>=)
#undef __AP_COMPARE
#undef __AP_MIXED

template <int W, int I, bool S>
std::ostream& operator<<(std::ostream& out, const ap_fixed_base<W, I, S>&) {
    return out;
}
