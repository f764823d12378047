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
template <int W_, int I_, bool S_>
struct ap_fixed_base {
    typedef ap_detail::raw_t<W_, S_> value_type;
    static constexpr int width = W_, iwidth = I_, fraction = W_ - I_;
    static constexpr bool sign_flag = S_;
    value_type v;

    ap_fixed_base() = default;
    __AP_INLINE constexpr ap_fixed_base(double x) : v(static_cast<value_type>(ap_detail::moved_point(x, W_ - I_))) {}
    __AP_INLINE constexpr ap_fixed_base(float x) : v(static_cast<value_type>(ap_detail::moved_point(x, W_ - I_))) {}
    template <class T_, class = ap_detail::if_integer<T_>, class = void>
    __AP_INLINE constexpr ap_fixed_base(T_ x) : v(shifted<ap_detail::traits<T_>::width>(static_cast<
        ap_detail::raw_t<ap_detail::traits<T_>::width, ap_detail::traits<T_>::is_signed>>(x), 0)) {}
    template <int A_, bool SA_>
    __AP_INLINE ap_fixed_base(const ap_int_base<A_, SA_>& x) : v(shifted<A_>(x.v, 0)) {}
    template <int A_, bool SA_>
    __AP_INLINE ap_fixed_base(const ap_range_ref<A_, SA_>& x) : v(shifted<A_>(x.get().v, 0)) {}
    template <int A_, int IA_, bool SA_>
    __AP_INLINE ap_fixed_base(const ap_fixed_base<A_, IA_, SA_>& x) : v(shifted<A_>(x.v, A_ - IA_)) {}

    // x has `from` fraction bits.
    template <int A_, class T_>
    __AP_INLINE static constexpr value_type shifted(T_ x, int from) {
        constexpr int F_ = W_ - I_;
        typedef _BitInt(ap_detail::larger(A_, W_) + (F_ > 0 ? F_ : -F_) + 2) wide;
        return F_ >= from ? static_cast<value_type>(static_cast<wide>(x) << (F_ - from))
                         : static_cast<value_type>(static_cast<wide>(x) >> (from - F_));
    }

    __AP_INLINE double to_double() const { return ap_detail::moved_point(static_cast<double>(static_cast<long long>(v)), I_ - W_); }
    __AP_INLINE float to_float() const {
        return ap_detail::moved_point(static_cast<float>(static_cast<long long>(v)), I_ - W_);
    }
    __AP_INLINE long long to_int64() const { return static_cast<long long>(v >> (W_ > I_ ? W_ - I_ : 0)); }
    __AP_INLINE int to_int() const { return static_cast<int>(to_int64()); }
    __AP_INLINE unsigned to_uint() const { return static_cast<unsigned>(to_int64()); }
    __AP_INLINE operator float() const { return to_float(); }
    __AP_INLINE explicit operator double() const { return to_double(); }
    template <class T_, class = ap_detail::if_integer<T_>>
    __AP_INLINE explicit operator T_() const { return static_cast<T_>(to_int64()); }
    __AP_INLINE ap_range_ref<W_, S_> range(int high, int low) { return {reinterpret_cast<ap_int_base<W_, S_>&>(v), high, low}; }
    __AP_INLINE ap_range_ref<W_, S_> range() { return range(W_ - 1, 0); }
    __AP_INLINE ap_range_ref<W_, S_> range(int high, int low) const {
        return const_cast<ap_fixed_base*>(this)->range(high, low);
    }
    __AP_INLINE ap_range_ref<W_, S_> range() const { return range(W_ - 1, 0); }
    __AP_INLINE ap_range_ref<W_, S_> operator()(int high, int low) { return range(high, low); }
    __AP_INLINE ap_range_ref<W_, S_> operator[](int at) { return range(at, at); }
    __AP_INLINE static constexpr int length() { return W_; }

#define __AP_ASSIGN(OP)                                          \
    template <class T_>                                          \
    __AP_INLINE ap_fixed_base& operator OP##=(const T_ & x) {    \
        return *this = ap_fixed_base(*this OP x);                \
    }
    __AP_ASSIGN(+)
    __AP_ASSIGN(-)
    __AP_ASSIGN(*)
    __AP_ASSIGN(/)
#undef __AP_ASSIGN
    template <int A_, bool SA_>
    __AP_INLINE ap_fixed_base operator<<(const ap_int_base<A_, SA_>& n) const {
        return *this << static_cast<int>(n.v);
    }
    template <class T_, class = ap_detail::if_integer<T_>>
    __AP_INLINE ap_fixed_base operator<<(T_ n) const {
        ap_fixed_base r;
        r.v = static_cast<value_type>(v << n);
        return r;
    }
    template <int A_, bool SA_>
    __AP_INLINE ap_fixed_base operator>>(const ap_int_base<A_, SA_>& n) const {
        return *this >> static_cast<int>(n.v);
    }
    template <class T_, class = ap_detail::if_integer<T_>>
    __AP_INLINE ap_fixed_base operator>>(T_ n) const {
        ap_fixed_base r;
        r.v = static_cast<value_type>(v >> n);
        return r;
    }
    __AP_INLINE ap_fixed_base& operator<<=(int n) { return *this = *this << n; }
    __AP_INLINE ap_fixed_base& operator>>=(int n) { return *this = *this >> n; }
    __AP_INLINE ap_fixed_base<W_ + 1, I_ + 1, true> operator-() const {
        ap_fixed_base<W_ + 1, I_ + 1, true> r;
        r.v = static_cast<decltype(r.v)>(-static_cast<decltype(r.v)>(v));
        return r;
    }
    __AP_INLINE bool operator!() const { return v == 0; }
    __AP_INLINE bool is_neg() const { return v < 0; }
};

template <int W_, int I_, ap_q_mode Q_ = AP_TRN, ap_o_mode O_ = AP_WRAP, int N_ = 0>
struct ap_fixed;
template <int W_, int I_, ap_q_mode Q_ = AP_TRN, ap_o_mode O_ = AP_WRAP, int N_ = 0>
struct ap_ufixed;

template <int W_, bool S_>
template <int W2_, int I2_, bool S2_>
__AP_INLINE ap_int_base<W_, S_>::ap_int_base(const ap_fixed_base<W2_, I2_, S2_>& x)
    : v(ap_fixed_base<W_, W_, S_>::template shifted<W2_>(x.v, W2_ - I2_)) {}

// What a value of more bits becomes where it is assigned.
template <int W_, int I_, bool S_, ap_q_mode Q_, ap_o_mode O_, int A_, int IA_, bool SA_>
__AP_INLINE ap_fixed_base<W_, I_, S_> ap_quantized(const ap_fixed_base<A_, IA_, SA_>& x) {
    constexpr int lost = (A_ - IA_) - (W_ - I_);
    constexpr bool round = Q_ != AP_TRN && Q_ != AP_TRN_ZERO && lost > 0;
    constexpr int wide = ap_detail::larger(A_, W_) + (lost > 0 ? 0 : -lost) + 2;
    typedef _BitInt(wide) type;
    type t = static_cast<type>(x.v);
    if constexpr (round) t = static_cast<type>(t + (static_cast<type>(1) << (lost - 1)));
    if constexpr (lost > 0)
        t = static_cast<type>(t >> lost);
    else if constexpr (lost < 0)
        t = static_cast<type>(t << -lost);
    if constexpr (O_ != AP_WRAP && O_ != AP_WRAP_SM && (IA_ > I_ || SA_ != S_ || round)) {
        const type most = static_cast<type>((static_cast<type>(1) << (W_ - S_)) - 1);
        const type least = S_ ? static_cast<type>(-most - 1) : static_cast<type>(0);
        t = t > most ? most : t < least ? least : t;
    }
    ap_fixed_base<W_, I_, S_> r;
    r.v = static_cast<decltype(r.v)>(t);
    return r;
}

#define __AP_FIXED(NAME, SIGN)                                                                     \
    template <int W_, int I_, ap_q_mode Q_, ap_o_mode O_, int N_>                                  \
    struct NAME : ap_fixed_base<W_, I_, SIGN> {                                                    \
        typedef ap_fixed_base<W_, I_, SIGN> base;                                                  \
        NAME() = default;                                                                          \
        using base::base;                                                                          \
        template <int A_, int IA_, bool SA_>                                                       \
        __AP_INLINE NAME(const ap_fixed_base<A_, IA_, SA_>& x) : base(ap_quantized<W_, I_, SIGN, Q_, O_>(x)) {} \
    };
__AP_FIXED(ap_fixed, true)
__AP_FIXED(ap_ufixed, false)
#undef __AP_FIXED

namespace ap_detail {
template <int A_, int IA_, bool SA_, int B_, int IB_, bool SB_>
struct sum {
    static constexpr bool sign = SA_ || SB_;
    static constexpr int integer = larger(IA_ + (sign && !SA_), IB_ + (sign && !SB_)) + 1;
    static constexpr int fraction = larger(A_ - IA_, B_ - IB_);
    typedef ap_fixed_base<integer + fraction, integer, sign> type;
};
template <class T_>
using as_fixed = ap_fixed_base<traits<T_>::width, traits<T_>::width, traits<T_>::is_signed>;
}  // namespace ap_detail

#define __AP_MIXED(OP)                                                                                     \
    template <int A_, int IA_, bool SA_, class T_, class = ap_detail::if_integer<T_>>                      \
    __AP_INLINE auto operator OP(const ap_fixed_base<A_, IA_, SA_>& a, T_ b) {                             \
        return a OP ap_detail::as_fixed<T_>(b);                                                            \
    }                                                                                                      \
    template <int A_, int IA_, bool SA_, class T_, class = ap_detail::if_integer<T_>>                      \
    __AP_INLINE auto operator OP(T_ b, const ap_fixed_base<A_, IA_, SA_>& a) {                             \
        return ap_detail::as_fixed<T_>(b) OP a;                                                            \
    }                                                                                                      \
    template <int A_, int IA_, bool SA_, int B_, bool SB_>                                                 \
    __AP_INLINE auto operator OP(const ap_fixed_base<A_, IA_, SA_>& a, const ap_int_base<B_, SB_>& b) {    \
        return a OP ap_fixed_base<B_, B_, SB_>(b);                                                         \
    }                                                                                                      \
    template <int A_, int IA_, bool SA_, int B_, bool SB_>                                                 \
    __AP_INLINE auto operator OP(const ap_int_base<B_, SB_>& b, const ap_fixed_base<A_, IA_, SA_>& a) {    \
        return ap_fixed_base<B_, B_, SB_>(b) OP a;                                                         \
    }                                                                                                      \
    template <int A_, int IA_, bool SA_>                                                                   \
    __AP_INLINE auto operator OP(const ap_fixed_base<A_, IA_, SA_>& a, double b) {                         \
        return a OP ap_fixed_base<A_, IA_, SA_>(b);                                                        \
    }                                                                                                      \
    template <int A_, int IA_, bool SA_>                                                                   \
    __AP_INLINE auto operator OP(const ap_fixed_base<A_, IA_, SA_>& a, float b) {                          \
        return a OP ap_fixed_base<A_, IA_, SA_>(b);                                                        \
    }                                                                                                      \
    template <int A_, int IA_, bool SA_>                                                                   \
    __AP_INLINE auto operator OP(double b, const ap_fixed_base<A_, IA_, SA_>& a) {                         \
        return ap_fixed_base<A_, IA_, SA_>(b) OP a;                                                        \
    }                                                                                                      \
    template <int A_, int IA_, bool SA_>                                                                   \
    __AP_INLINE auto operator OP(float b, const ap_fixed_base<A_, IA_, SA_>& a) {                          \
        return ap_fixed_base<A_, IA_, SA_>(b) OP a;                                                        \
    }
#define __AP_SUM(OP)                                                                                             \
    template <int A_, int IA_, bool SA_, int B_, int IB_, bool SB_>                                              \
    __AP_INLINE auto operator OP(const ap_fixed_base<A_, IA_, SA_>& a, const ap_fixed_base<B_, IB_, SB_>& b) {   \
        typedef typename ap_detail::sum<A_, IA_, SA_, B_, IB_, SB_>::type type;                                  \
        type r;                                                                                                  \
        r.v = static_cast<decltype(r.v)>(type(a).v OP type(b).v);                                                \
        return r;                                                                                                \
    }                                                                                                            \
    __AP_MIXED(OP)
__AP_SUM(+)
__AP_SUM(-)
#undef __AP_SUM
template <int A_, int IA_, bool SA_, int B_, int IB_, bool SB_>
__AP_INLINE auto operator*(const ap_fixed_base<A_, IA_, SA_>& a, const ap_fixed_base<B_, IB_, SB_>& b) {
    ap_fixed_base<A_ + B_, IA_ + IB_, SA_ || SB_> r;
    typedef decltype(r.v) type;
    r.v = static_cast<type>(static_cast<type>(a.v) * static_cast<type>(b.v));
    return r;
}
__AP_MIXED(*)
template <int A_, int IA_, bool SA_, int B_, int IB_, bool SB_>
__AP_INLINE auto operator/(const ap_fixed_base<A_, IA_, SA_>& a, const ap_fixed_base<B_, IB_, SB_>& b) {
    constexpr int fraction = ap_detail::larger(B_ - IB_, 0);
    constexpr int width = A_ + SB_ + fraction + ap_detail::larger(IB_, 0);
    ap_fixed_base<width, IA_ + SB_ + fraction, SA_ || SB_> r;
    typedef decltype(r.v) type;
    r.v = static_cast<type>(static_cast<type>(static_cast<type>(a.v) << (width - A_ - SB_)) / static_cast<type>(b.v));
    return r;
}
__AP_MIXED(/)
#define __AP_COMPARE(OP)                                                                                  \
    template <int A_, int IA_, bool SA_, int B_, int IB_, bool SB_>                                       \
    __AP_INLINE bool operator OP(const ap_fixed_base<A_, IA_, SA_>& a, const ap_fixed_base<B_, IB_, SB_>& b) { \
        typedef typename ap_detail::sum<A_, IA_, SA_, B_, IB_, SB_>::type type;                           \
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

template <int W_, int I_, bool S_>
std::ostream& operator<<(std::ostream& out, const ap_fixed_base<W_, I_, S_>&) {
    return out;
}
