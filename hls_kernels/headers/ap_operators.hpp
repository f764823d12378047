// Operators of integers of any width, of ranges of them, and of C++'s own numbers: a part of ap_integers.hpp.
#pragma once

// An operator of two integers: the result is as wide as Vitis makes it, so that nothing is lost. A built-in operand counts
// with the width of its type; a range with that of the whole integer.
#define __AP_MIXED(OP)                                                                              \
    template <int A_, bool SA_, class T_, class = ap_detail::if_integer<T_>>                        \
    __AP_INLINE auto operator OP(const ap_int_base<A_, SA_>& a, T_ b) {                             \
        return a OP ap_int_base<ap_detail::traits<T_>::width, ap_detail::traits<T_>::is_signed>(b); \
    }                                                                                               \
    template <int A_, bool SA_, class T_, class = ap_detail::if_integer<T_>>                        \
    __AP_INLINE auto operator OP(T_ b, const ap_int_base<A_, SA_>& a) {                             \
        return ap_int_base<ap_detail::traits<T_>::width, ap_detail::traits<T_>::is_signed>(b) OP a; \
    }                                                                                               \
    template <int A_, bool SA_, int B_, bool SB_>                                                   \
    __AP_INLINE auto operator OP(const ap_int_base<A_, SA_>& a, const ap_range_ref<B_, SB_>& b) {   \
        return a OP b.get();                                                                        \
    }                                                                                               \
    template <int A_, bool SA_, int B_, bool SB_>                                                   \
    __AP_INLINE auto operator OP(const ap_range_ref<A_, SA_>& a, const ap_int_base<B_, SB_>& b) {   \
        return a.get() OP b;                                                                        \
    }                                                                                               \
    template <int A_, bool SA_, int B_, bool SB_>                                                   \
    __AP_INLINE auto operator OP(const ap_range_ref<A_, SA_>& a, const ap_range_ref<B_, SB_>& b) {  \
        return a.get() OP b.get();                                                                  \
    }                                                                                               \
    template <int A_, bool SA_, class T_, class = ap_detail::if_integer<T_>>                        \
    __AP_INLINE auto operator OP(const ap_range_ref<A_, SA_>& a, T_ b) {                            \
        return a.get() OP b;                                                                        \
    }                                                                                               \
    template <int A_, bool SA_, class T_, class = ap_detail::if_integer<T_>>                        \
    __AP_INLINE auto operator OP(T_ b, const ap_range_ref<A_, SA_>& a) {                            \
        return b OP a.get();                                                                        \
    }                                                                                               \
    template <int A_, bool SA_>                                                                     \
    __AP_INLINE double operator OP(const ap_int_base<A_, SA_>& a, double b) {                       \
        return a.to_double() OP b;                                                                  \
    }                                                                                               \
    template <int A_, bool SA_>                                                                     \
    __AP_INLINE float operator OP(const ap_int_base<A_, SA_>& a, float b) {                         \
        return a.to_float() OP b;                                                                   \
    }                                                                                               \
    template <int A_, bool SA_>                                                                     \
    __AP_INLINE double operator OP(double b, const ap_int_base<A_, SA_>& a) {                       \
        return b OP a.to_double();                                                                  \
    }                                                                                               \
    template <int A_, bool SA_>                                                                     \
    __AP_INLINE float operator OP(float b, const ap_int_base<A_, SA_>& a) {                         \
        return b OP a.to_float();                                                                   \
    }
#define __AP_ARITHMETIC(OP, WIDTH, SIGNED)                                                                \
    template <int A_, bool SA_, int B_, bool SB_>                                                         \
    __AP_INLINE auto operator OP(const ap_int_base<A_, SA_>& a, const ap_int_base<B_, SB_>& b) {          \
        typedef ap_int_base<(WIDTH), SIGNED> result;                                                      \
        typedef ap_detail::operand_t<result, A_, SA_, B_, SB_> type;                                      \
        result r;                                                                                         \
        r.v = static_cast<typename result::value_type>(static_cast<type>(a.v) OP static_cast<type>(b.v)); \
        return r;                                                                                         \
    }                                                                                                     \
    __AP_MIXED(OP)
__AP_ARITHMETIC(+, ap_detail::larger(A_ + (SB_ && !SA_), B_ + (SA_ && !SB_)) + 1, SA_ || SB_)
__AP_ARITHMETIC(-, ap_detail::larger(A_ + (SB_ && !SA_), B_ + (SA_ && !SB_)) + 1, true)
__AP_ARITHMETIC(*, A_ + B_, SA_ || SB_)
__AP_ARITHMETIC(/, A_ + SB_, SA_ || SB_)
__AP_ARITHMETIC(%, ap_detail::smaller(A_, B_ + (!SB_ && SA_)), SA_)
__AP_ARITHMETIC(&, ap_detail::larger(A_ + (SB_ && !SA_), B_ + (SA_ && !SB_)), SA_ || SB_)
__AP_ARITHMETIC(|, ap_detail::larger(A_ + (SB_ && !SA_), B_ + (SA_ && !SB_)), SA_ || SB_)
__AP_ARITHMETIC(^, ap_detail::larger(A_ + (SB_ && !SA_), B_ + (SA_ && !SB_)), SA_ || SB_)
#undef __AP_ARITHMETIC
// AMD's headers compare integers of different signs as C compares int and unsigned: as signed ones below 32 bits, and
// from there on as unsigned ones where the unsigned operand has as many bits as the signed one.
namespace ap_detail {
template <int A_, bool SA_, int B_, bool SB_, bool equal_>
struct compared {
    static constexpr bool as_unsigned = SA_ != SB_ && (A_ >= 32 || B_ >= 32) && (SA_ ? B_ >= A_ : A_ >= B_);
    static constexpr bool sign = (SA_ || SB_) && !as_unsigned;
    static constexpr int more = as_unsigned && !equal_;  // a negative operand is above all of the other type
    typedef ap_int_base<larger(A_ + (sign && !SA_), B_ + (sign && !SB_)) + more, sign> type;
};
}  // namespace ap_detail
#define __AP_COMPARE(OP, EQUAL)                                                                  \
    template <int A_, bool SA_, int B_, bool SB_>                                                \
    __AP_INLINE bool operator OP(const ap_int_base<A_, SA_>& a, const ap_int_base<B_, SB_>& b) { \
        typedef typename ap_detail::compared<A_, SA_, B_, SB_, EQUAL>::type type;                \
        return type(a).v OP type(b).v;                                                           \
    }                                                                                            \
    __AP_MIXED(OP)
__AP_COMPARE(==, true)
__AP_COMPARE(!=, true)
__AP_COMPARE(<, false)
__AP_COMPARE(>, false)
__AP_COMPARE(<=, false)
__AP_COMPARE(>=, false)
#undef __AP_COMPARE
#undef __AP_MIXED
