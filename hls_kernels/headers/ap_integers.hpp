// Integers of any width, the base of ap_int.h and ap_fixed.h. They are exact by _BitInt where clang checks loops
// (__HLS_CHECK__), and by ap_words.hpp on the emulator. Template parameters end in _ in all of these headers, because a source
// may define N or T in front of its includes.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iosfwd>
#include <type_traits>

#ifndef __HLS_CHECK__
#include "ap_text.hpp"
#include "ap_words.hpp"
#endif

#define __AP_INLINE inline __attribute__((always_inline))

template <int W_, bool S_>
struct ap_int_base;
template <int W_>
struct ap_int;
template <int W_>
struct ap_uint;
template <int W_, int I_, bool S_>
struct ap_fixed_base;

namespace ap_detail {

#ifdef __HLS_CHECK__
template <int W_, bool S_>
struct raw {
    typedef _BitInt(W_) type;
};
template <int W_>
struct raw<W_, false> {
    typedef unsigned _BitInt(W_) type;
};
template <>
struct raw<1, true> {
    typedef _BitInt(2) type;
};
#else
template <int W_, bool S_>
struct raw {
    typedef std::conditional_t<(W_ <= 64), one_word<(W_ <= 64 ? W_ : 64), S_>, wide_words<W_, S_>> type;
};
#endif
template <int W_, bool S_>
using raw_t = typename raw<W_, S_>::type;

constexpr int larger(int a, int b) { return a > b ? a : b; }
constexpr int smaller(int a, int b) { return a < b ? a : b; }

// The width and sign that an operand of a built-in type has.
template <class T_>
struct traits {
    static constexpr int width = sizeof(T_) * 8;
    static constexpr bool is_signed = std::is_signed<T_>::value;
};
template <>
struct traits<bool> {
    static constexpr int width = 1;
    static constexpr bool is_signed = false;
};
template <class T_>
using if_integer = typename std::enable_if<std::is_integral<T_>::value || std::is_enum<T_>::value>::type;
template <class T_>
using if_arithmetic = typename std::enable_if<std::is_arithmetic<T_>::value || std::is_enum<T_>::value>::type;

// In which an operator of two integers is computed. Quotients may be narrower than an operand; dividers are so as well, where
// loops are checked.
#ifdef __HLS_CHECK__
template <class Result_, int A_, bool SA_, int B_, bool SB_>
using operand_t = typename Result_::value_type;
#else
template <class Result_, int A_, bool SA_, int B_, bool SB_>
using operand_t =
    raw_t<larger(Result_::width, larger(A_ + (SB_ && !SA_), B_ + (SA_ && !SB_))), Result_::sign_flag || SA_ || SB_>;
#endif

}  // namespace ap_detail

// Bits high..low of an integer: read as unsigned, assigned to in place.
template <int W_, bool S_>
struct ap_range_ref {
    ap_detail::raw_t<W_, S_>& of;
    int high, low;

    // From a low place to a high one the bits are in the opposite order, as AMD's. Loops are checked without that: a
    // branch for each range would change them.
    __AP_INLINE bool is_reversed() const {
#ifdef __HLS_CHECK__
        return false;
#else
        return high < low;
#endif
    }
    __AP_INLINE ap_int_base<W_, false> get() const;
    __AP_INLINE operator ap_int_base<W_, false>() const { return get(); }
    __AP_INLINE operator unsigned long long() const;
    __AP_INLINE unsigned to_uint() const { return static_cast<unsigned>(static_cast<unsigned long long>(*this)); }
    __AP_INLINE int to_int() const { return static_cast<int>(static_cast<unsigned long long>(*this)); }
    __AP_INLINE unsigned long long to_uint64() const { return *this; }
    __AP_INLINE long long to_int64() const { return static_cast<long long>(static_cast<unsigned long long>(*this)); }
    __AP_INLINE int length() const { return high - low + 1; }
    __AP_INLINE bool or_reduce() const { return static_cast<unsigned long long>(*this) != 0; }
    template <class T_>
    __AP_INLINE ap_range_ref& operator=(const T_& x);
    __AP_INLINE ap_range_ref& operator=(const ap_range_ref& x) { return *this = x.get(); }
    template <class T_>
    __AP_INLINE ap_range_ref& operator|=(const T_& x) {
        return *this = static_cast<unsigned long long>(*this) | x;
    }
};

template <int W_, bool S_>
struct ap_int_base {
    typedef ap_detail::raw_t<W_, S_> value_type;
    typedef ap_detail::raw_t<W_, false> bits_type;
    typedef std::conditional_t<(W_ <= 32), std::conditional_t<S_, int, unsigned>,
                               std::conditional_t<S_, long long, unsigned long long>>
        native;
    static constexpr int width = W_;
    static constexpr bool sign_flag = S_;
    value_type v;

    ap_int_base() = default;
    template <class T_, class = ap_detail::if_arithmetic<T_>>
    __AP_INLINE constexpr ap_int_base(T_ x) : v(static_cast<value_type>(x)) {}
#ifdef __FLT16_MAX__
    __AP_INLINE ap_int_base(_Float16 x) : v(static_cast<value_type>(static_cast<float>(x))) {}
#endif
    template <int W2_, bool S2_>
    __AP_INLINE constexpr ap_int_base(const ap_int_base<W2_, S2_>& x) : v(static_cast<value_type>(x.v)) {}
    template <int W2_, bool S2_>
    __AP_INLINE ap_int_base(const ap_range_ref<W2_, S2_>& x) : v(static_cast<value_type>(x.get().v)) {}
    template <int W2_, int I2_, bool S2_>
    __AP_INLINE ap_int_base(const ap_fixed_base<W2_, I2_, S2_>& x);
#ifdef __HLS_CHECK__
    ap_int_base(const char*, int = 10) : v(0) {}
#else
    ap_int_base(const char* digits, int radix = 10) : v(ap_detail::parsed<value_type>(digits, radix)) {}
#endif

    __AP_INLINE constexpr operator native() const { return static_cast<native>(v); }
    __AP_INLINE int to_int() const { return static_cast<int>(v); }
    __AP_INLINE unsigned to_uint() const { return static_cast<unsigned>(v); }
    __AP_INLINE long to_long() const { return static_cast<long>(v); }
    __AP_INLINE unsigned long to_ulong() const { return static_cast<unsigned long>(v); }
    __AP_INLINE long long to_int64() const { return static_cast<long long>(v); }
    __AP_INLINE unsigned long long to_uint64() const { return static_cast<unsigned long long>(v); }
    __AP_INLINE bool to_bool() const { return v != 0; }
#ifdef __HLS_CHECK__
    __AP_INLINE double to_double() const { return static_cast<double>(static_cast<long long>(v)); }
    __AP_INLINE float to_float() const { return static_cast<float>(static_cast<long long>(v)); }
#else
    double to_double() const { return static_cast<double>(v); }
    float to_float() const { return static_cast<float>(v); }
#endif
    __AP_INLINE static constexpr int length() { return W_; }

    __AP_INLINE ap_range_ref<W_, S_> range(int high, int low) { return {v, high, low}; }
    __AP_INLINE ap_range_ref<W_, S_> range() { return {v, W_ - 1, 0}; }
    __AP_INLINE ap_range_ref<W_, S_> operator()(int high, int low) { return {v, high, low}; }
    __AP_INLINE ap_range_ref<W_, S_> range(int high, int low) const { return {const_cast<value_type&>(v), high, low}; }
    __AP_INLINE ap_range_ref<W_, S_> operator()(int high, int low) const { return range(high, low); }
    __AP_INLINE ap_range_ref<W_, S_> operator[](int at) { return {v, at, at}; }
    __AP_INLINE bool operator[](int at) const { return test(at); }
    __AP_INLINE ap_range_ref<W_, S_> bit(int at) { return {v, at, at}; }
    __AP_INLINE bool test(int at) const {
        return static_cast<bool>((static_cast<bits_type>(v) >> at) & static_cast<bits_type>(1));
    }
    __AP_INLINE bool get_bit(int at) const { return test(at); }
    __AP_INLINE void set_bit(int at, bool x) {
        const bits_type one = static_cast<bits_type>(1) << at;
        v = static_cast<value_type>((static_cast<bits_type>(v) & ~one) | (static_cast<bits_type>(x) << at));
    }
    __AP_INLINE void set(int at) { set_bit(at, true); }
    __AP_INLINE void clear(int at) { set_bit(at, false); }
    __AP_INLINE bool or_reduce() const { return v != 0; }
    __AP_INLINE bool and_reduce() const { return static_cast<bits_type>(~static_cast<bits_type>(v)) == 0; }
    __AP_INLINE bool xor_reduce() const {
        bool r = false;
        for (int i = 0; i < W_; i++) {
#pragma HLS unroll
            r ^= test(i);
        }
        return r;
    }
#ifdef __HLS_CHECK__
    __AP_INLINE void reverse() {}  // wires
#else
    void reverse() {
        const ap_int_base old = *this;
        for (int i = 0; i < W_; i++) set_bit(i, old.test(W_ - 1 - i));
    }
#endif
    __AP_INLINE void lrotate(int n) {
        v = static_cast<value_type>((static_cast<bits_type>(v) << n) | (static_cast<bits_type>(v) >> (W_ - n)));
    }
    __AP_INLINE void rrotate(int n) { lrotate(W_ - n); }
    __AP_INLINE int countLeadingZeros() const {
        int n = 0;
        for (int i = 0; i < W_; i++) {
#pragma HLS unroll
            n = test(i) ? W_ - 1 - i : n;
        }
        return v != 0 ? n : W_;
    }

#define __AP_ASSIGN(OP)                                     \
    template <class T_>                                     \
    __AP_INLINE ap_int_base& operator OP##=(const T_ & x) { \
        return *this = ap_int_base(*this OP x);             \
    }
    __AP_ASSIGN(+)
    __AP_ASSIGN(-)
    __AP_ASSIGN(*)
    __AP_ASSIGN(/)
    __AP_ASSIGN(%)
    __AP_ASSIGN(&)
    __AP_ASSIGN(|)
    __AP_ASSIGN(^)
#undef __AP_ASSIGN
    __AP_INLINE ap_int_base& operator<<=(int n) { return *this = *this << n; }
    __AP_INLINE ap_int_base& operator>>=(int n) { return *this = *this >> n; }
    __AP_INLINE ap_int_base& operator++() {
        v = static_cast<value_type>(v + static_cast<value_type>(1));
        return *this;
    }
    __AP_INLINE ap_int_base operator++(int) {
        const ap_int_base old = *this;
        ++*this;
        return old;
    }
    __AP_INLINE ap_int_base& operator--() {
        v = static_cast<value_type>(v - static_cast<value_type>(1));
        return *this;
    }
    __AP_INLINE ap_int_base operator--(int) {
        const ap_int_base old = *this;
        --*this;
        return old;
    }
    __AP_INLINE ap_int_base operator+() const { return *this; }
    __AP_INLINE ap_int_base<W_ + 1, true> operator-() const { return ap_int_base<W_ + 1, true>(0) - *this; }
    __AP_INLINE ap_int_base operator~() const {
        ap_int_base r;
        r.v = static_cast<value_type>(~v);
        return r;
    }
    __AP_INLINE bool operator!() const { return v == 0; }
    template <class T_, class = ap_detail::if_integer<T_>>
    __AP_INLINE ap_int_base operator<<(T_ n) const {
        ap_int_base r;
        r.v = static_cast<value_type>(v << n);
        return r;
    }
    template <class T_, class = ap_detail::if_integer<T_>>
    __AP_INLINE ap_int_base operator>>(T_ n) const {
        ap_int_base r;
        r.v = static_cast<value_type>(v >> n);
        return r;
    }
    template <int A_, bool SA_>
    __AP_INLINE ap_int_base operator<<(const ap_int_base<A_, SA_>& n) const {
        return *this << static_cast<int>(n.v);
    }
    template <int A_, bool SA_>
    __AP_INLINE ap_int_base operator>>(const ap_int_base<A_, SA_>& n) const {
        return *this >> static_cast<int>(n.v);
    }
    template <int A_, bool SA_>
    __AP_INLINE ap_int_base<W_ + A_, false> concat(const ap_int_base<A_, SA_>& low) const;
};

// Masks are no constants: clang 19 crashes on one of more than 128 bits.
namespace ap_detail {
// The lowest n bits in the opposite order.
template <class Bits_>
Bits_ reversed(const Bits_& x, int n) {
    Bits_ r(0);
    for (int i = 0; i < n; i++)
        if (static_cast<bool>((x >> i) & Bits_(1)))
            r = static_cast<Bits_>(r | static_cast<Bits_>(Bits_(1) << (n - 1 - i)));
    return r;
}
}  // namespace ap_detail

template <int W_, bool S_>
__AP_INLINE ap_int_base<W_, false> ap_range_ref<W_, S_>::get() const {
    typedef ap_detail::raw_t<W_, false> bits;
    const int first = is_reversed() ? high : low, n = (is_reversed() ? low - high : high - low) + 1;
    bits mask = n >= W_ ? static_cast<bits>(~static_cast<bits>(0))
                        : static_cast<bits>((static_cast<bits>(1) << (n % W_)) - static_cast<bits>(1));
    ap_int_base<W_, false> r;
    r.v = static_cast<bits>((static_cast<bits>(of) >> first) & mask);
    if (is_reversed()) r.v = ap_detail::reversed(r.v, n);
    return r;
}
template <int W_, bool S_>
__AP_INLINE ap_range_ref<W_, S_>::operator unsigned long long() const {
    return static_cast<unsigned long long>(get().v);
}
template <int W_, bool S_>
template <class T_>
__AP_INLINE ap_range_ref<W_, S_>& ap_range_ref<W_, S_>::operator=(const T_& x) {
    typedef ap_detail::raw_t<W_, false> bits;
    const int first = is_reversed() ? high : low, n = (is_reversed() ? low - high : high - low) + 1;
    bits mask = n >= W_ ? static_cast<bits>(~static_cast<bits>(0))
                        : static_cast<bits>((static_cast<bits>(1) << (n % W_)) - static_cast<bits>(1));
    bits wide = static_cast<bits>(ap_int_base<W_, false>(x).v);
    if (is_reversed()) wide = ap_detail::reversed(wide, n);
    of = static_cast<ap_detail::raw_t<W_, S_>>((static_cast<bits>(of) & ~static_cast<bits>(mask << first)) |
                                               static_cast<bits>((wide & mask) << first));
    return *this;
}
template <int W_, bool S_>
template <int A_, bool SA_>
__AP_INLINE ap_int_base<W_ + A_, false> ap_int_base<W_, S_>::concat(const ap_int_base<A_, SA_>& low) const {
    typedef ap_detail::raw_t<W_ + A_, false> bits;
    ap_int_base<W_ + A_, false> r;
    r.v = static_cast<bits>((static_cast<bits>(static_cast<bits_type>(v)) << A_) |
                            static_cast<bits>(static_cast<ap_detail::raw_t<A_, false>>(low.v)));
    return r;
}
template <int A_, bool SA_, int B_, bool SB_>
__AP_INLINE auto operator,(const ap_int_base<A_, SA_>& a, const ap_int_base<B_, SB_>& b) {
    return a.concat(b);
}
// Of a range as many bits as it has, not as the integer that it is of.
template <int A_, bool SA_, int B_, bool SB_>
__AP_INLINE auto operator,(const ap_int_base<A_, SA_>& a, const ap_range_ref<B_, SB_>& b) {
    return ap_int_base<A_ + B_, false>((ap_int_base<A_ + B_, false>(ap_int_base<A_, false>(a)) << b.length()) |
                                       b.get());
}
template <int A_, bool SA_, int B_, bool SB_>
__AP_INLINE auto operator,(const ap_range_ref<A_, SA_>& a, const ap_int_base<B_, SB_>& b) {
    return a.get().concat(b);
}
template <int A_, bool SA_, int B_, bool SB_>
__AP_INLINE auto operator,(const ap_range_ref<A_, SA_>& a, const ap_range_ref<B_, SB_>& b) {
    return a.get(), b;
}

#include "ap_operators.hpp"

template <int W_>
struct ap_int : ap_int_base<W_, true> {
    typedef ap_int_base<W_, true> base;
    ap_int() = default;
    using base::base;
    template <int A_, bool S_>
    __AP_INLINE constexpr ap_int(const ap_int_base<A_, S_>& x) : base(x) {}
};
template <int W_>
struct ap_uint : ap_int_base<W_, false> {
    typedef ap_int_base<W_, false> base;
    ap_uint() = default;
    using base::base;
    template <int A_, bool S_>
    __AP_INLINE constexpr ap_uint(const ap_int_base<A_, S_>& x) : base(x) {}
};

#ifdef __HLS_CHECK__
template <int W_, bool S_>
std::ostream& operator<<(std::ostream& out, const ap_int_base<W_, S_>&) {
    return out;
}
#else
template <int W_, bool S_>
std::ostream& operator<<(std::ostream& out, const ap_int_base<W_, S_>& x) {
    return out << ap_detail::decimal(ap_detail::raw_t<W_ + 4, true>(x.v));
}
template <int W_, bool S_>
std::ostream& operator<<(std::ostream& out, const ap_range_ref<W_, S_>& x) {
    return out << x.get();
}
#endif
