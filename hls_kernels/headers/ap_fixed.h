// Stands in for the header of Vitis HLS: fixed-point numbers on integers, with AMD's modes of rounding and
// saturation. Where loops are checked (__HLS_CHECK__) numbers of C++'s floating point come in and go out as wires do.
#pragma once
#include "ap_integers.hpp"

enum ap_q_mode { AP_RND, AP_RND_ZERO, AP_RND_MIN_INF, AP_RND_INF, AP_RND_CONV, AP_TRN, AP_TRN_ZERO };
enum ap_o_mode { AP_SAT, AP_SAT_ZERO, AP_SAT_SYM, AP_WRAP, AP_WRAP_SM };

namespace ap_detail {
// The addition of a one behind a division by a power of two that rounded down. half: the first bit that is lost; more: whether
// there are others behind it.
constexpr bool rounds_up(ap_q_mode mode, bool negative, bool odd, bool half, bool more) {
    return mode == AP_RND           ? half
           : mode == AP_RND_ZERO    ? half && (more || negative)
           : mode == AP_RND_MIN_INF ? half && more
           : mode == AP_RND_INF     ? half && (more || !negative)
           : mode == AP_RND_CONV    ? half && (more || odd)
           : mode == AP_TRN_ZERO    ? negative && (half || more)
                                    : false;
}
#ifdef __HLS_CHECK__
// x times 2^by, of a normal number: the exponent is moved, without a multiplier.
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
#else
inline double moved_point(double x, int by) { return std::ldexp(x, by); }
#endif
}  // namespace ap_detail

// W bits, of which I stand in front of the point.
template <int W_, int I_, bool S_>
struct ap_fixed_base {
    typedef ap_detail::raw_t<W_, S_> value_type;
    static constexpr int width = W_, iwidth = I_, fraction = W_ - I_;
    static constexpr bool sign_flag = S_;
    value_type v;

    ap_fixed_base() = default;
#ifdef __HLS_CHECK__
    __AP_INLINE constexpr ap_fixed_base(double x) : v(static_cast<value_type>(ap_detail::moved_point(x, W_ - I_))) {}
    __AP_INLINE constexpr ap_fixed_base(float x) : v(static_cast<value_type>(ap_detail::moved_point(x, W_ - I_))) {}
#else  // AP_TRN, as for all that names no mode
    ap_fixed_base(double x) : v(std::floor(ap_detail::moved_point(x, W_ - I_))) {}
    ap_fixed_base(float x) : ap_fixed_base(static_cast<double>(x)) {}
#endif
    template <class T_, class = ap_detail::if_integer<T_>, class = void>
    __AP_INLINE constexpr ap_fixed_base(T_ x)
        : v(shifted<ap_detail::traits<T_>::width>(
              static_cast<ap_detail::raw_t<ap_detail::traits<T_>::width, ap_detail::traits<T_>::is_signed>>(x), 0)) {}
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
        typedef ap_detail::raw_t<ap_detail::larger(A_, W_) + (F_ > 0 ? F_ : -F_) + 2, true> wide;
        return F_ >= from ? static_cast<value_type>(static_cast<wide>(x) << (F_ - from))
                          : static_cast<value_type>(static_cast<wide>(x) >> (from - F_));
    }

#ifdef __HLS_CHECK__
    __AP_INLINE double to_double() const {
        return ap_detail::moved_point(static_cast<double>(static_cast<long long>(v)), I_ - W_);
    }
    __AP_INLINE float to_float() const {
        return ap_detail::moved_point(static_cast<float>(static_cast<long long>(v)), I_ - W_);
    }
    __AP_INLINE long long to_int64() const { return static_cast<long long>(v >> (W_ > I_ ? W_ - I_ : 0)); }
#else
    double to_double() const { return ap_detail::moved_point(static_cast<double>(v), I_ - W_); }
    float to_float() const { return static_cast<float>(to_double()); }
    long long to_int64() const { return static_cast<long long>(ap_int_base<64, true>(*this).v); }
#endif
    __AP_INLINE int to_int() const { return static_cast<int>(to_int64()); }
    __AP_INLINE unsigned to_uint() const { return static_cast<unsigned>(to_int64()); }
    __AP_INLINE operator float() const { return to_float(); }
    __AP_INLINE operator double() const { return to_double(); }
    // Not explicit, as AMD's: such a number may be an array's index. No template, which compilers do not try there.
    __AP_INLINE operator bool() const { return !(v == 0); }
    __AP_INLINE operator char() const { return static_cast<char>(to_int64()); }
    __AP_INLINE operator signed char() const { return static_cast<signed char>(to_int64()); }
    __AP_INLINE operator unsigned char() const { return static_cast<unsigned char>(to_int64()); }
    __AP_INLINE operator short() const { return static_cast<short>(to_int64()); }
    __AP_INLINE operator unsigned short() const { return static_cast<unsigned short>(to_int64()); }
    __AP_INLINE operator int() const { return static_cast<int>(to_int64()); }
    __AP_INLINE operator unsigned() const { return static_cast<unsigned>(to_int64()); }
    __AP_INLINE operator long() const { return static_cast<long>(to_int64()); }
    __AP_INLINE operator unsigned long() const { return static_cast<unsigned long>(to_int64()); }
    __AP_INLINE operator long long() const { return to_int64(); }
    __AP_INLINE operator unsigned long long() const { return static_cast<unsigned long long>(to_int64()); }
    // An enumeration's by a cast alone.
    template <class T_, class = typename std::enable_if<std::is_enum<T_>::value>::type>
    __AP_INLINE explicit operator T_() const {
        return static_cast<T_>(to_int64());
    }
    __AP_INLINE ap_range_ref<W_, S_> range(int high, int low) { return {v, high, low}; }
    __AP_INLINE ap_range_ref<W_, S_> range() { return range(W_ - 1, 0); }
    __AP_INLINE ap_range_ref<W_, S_> range(int high, int low) const {
        return const_cast<ap_fixed_base*>(this)->range(high, low);
    }
    __AP_INLINE ap_range_ref<W_, S_> range() const { return range(W_ - 1, 0); }
    __AP_INLINE ap_range_ref<W_, S_> operator()(int high, int low) { return range(high, low); }
    __AP_INLINE ap_range_ref<W_, S_> operator()(int high, int low) const { return range(high, low); }
    __AP_INLINE ap_range_ref<W_, S_> operator[](int at) { return range(at, at); }
    __AP_INLINE bool operator[](int at) const { return static_cast<bool>(range(at, at)); }
    __AP_INLINE static constexpr int length() { return W_; }

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

// What a value of more bits becomes where it is assigned.
template <int W_, int I_, bool S_, ap_q_mode Q_, ap_o_mode O_, int A_, int IA_, bool SA_>
__AP_INLINE ap_fixed_base<W_, I_, S_> ap_quantized(const ap_fixed_base<A_, IA_, SA_>& x) {
    constexpr int lost = (A_ - IA_) - (W_ - I_);
    constexpr bool round = Q_ != AP_TRN && lost > 0;
    constexpr int wide = ap_detail::larger(ap_detail::larger(A_, W_), lost) + (lost > 0 ? 0 : -lost) + 2;
    typedef ap_detail::raw_t<wide, true> type;
    const type one = static_cast<type>(1);
    type t = static_cast<type>(x.v);
    if constexpr (round && Q_ == AP_RND) {
        t = static_cast<type>(static_cast<type>(t + static_cast<type>(one << (lost - 1))) >> lost);
    } else if constexpr (round) {
        const type half = static_cast<type>(t >> (lost - 1)), down = static_cast<type>(t >> lost);
        const bool more = static_cast<type>(half << (lost - 1)) != t, negative = t < static_cast<type>(0);
        const bool up = ap_detail::rounds_up(Q_, negative, static_cast<bool>(down & one), static_cast<bool>(half & one),
                                             more);
        t = static_cast<type>(down + static_cast<type>(up));
    } else if constexpr (lost > 0) {
        t = static_cast<type>(t >> lost);
    } else if constexpr (lost < 0) {
        t = static_cast<type>(t << -lost);
    }
    if constexpr (O_ != AP_WRAP && O_ != AP_WRAP_SM && (IA_ > I_ || SA_ != S_ || round || O_ == AP_SAT_SYM)) {
        const type most = static_cast<type>(static_cast<type>(one << (W_ - S_)) - one);
        const type least = S_ ? static_cast<type>(-most - (O_ == AP_SAT_SYM ? static_cast<type>(0) : one))
                              : static_cast<type>(0);
        if constexpr (O_ == AP_SAT_ZERO)
            t = t > most || t < least ? static_cast<type>(0) : t;
        else
            t = t > most ? most : t < least ? least : t;
    }
    ap_fixed_base<W_, I_, S_> r;
    r.v = static_cast<decltype(r.v)>(t);
    return r;
}

namespace ap_detail {
template <class T_>
using as_fixed = ap_fixed_base<traits<T_>::width, traits<T_>::width, traits<T_>::is_signed>;

// The integer in a number with a fixed point: towards zero, as C++ converts; where loops are checked the bits in front of it.
template <int W_, bool S_, int A_, int IA_, bool SA_>
__AP_INLINE raw_t<W_, S_> integer_of(const ap_fixed_base<A_, IA_, SA_>& x) {
#ifdef __HLS_CHECK__
    return ap_fixed_base<W_, W_, S_>::template shifted<A_>(x.v, A_ - IA_);
#else
    return ap_quantized<W_, W_, S_, AP_TRN_ZERO, AP_WRAP>(x).v;
#endif
}

// What a number of C++'s floating point becomes.
template <int W_, int I_, bool S_, ap_q_mode Q_, ap_o_mode O_, class T_>
__AP_INLINE ap_fixed_base<W_, I_, S_> quantized_float(T_ x) {
#ifdef __HLS_CHECK__
    return ap_fixed_base<W_, I_, S_>(x);
#else
    ap_fixed_base<W_, I_, S_> r;
    const double exact = moved_point(x, W_ - I_), down = std::floor(exact), rest = exact - down;
    const bool odd = std::fmod(down, 2.0) != 0.0;
    double t = down + rounds_up(Q_, exact < 0, odd, rest >= 0.5, rest != 0.0 && rest != 0.5);
    const double above = std::ldexp(1.0, W_ - S_), least = !S_ ? 0.0 : O_ == AP_SAT_SYM ? 1.0 - above : -above;
    typedef raw_t<W_ + 2, true> type;
    type whole(t);
    if (O_ != AP_WRAP && O_ != AP_WRAP_SM && (t >= above || t < least)) {
        const type most = (type(1) << (W_ - S_)) - type(1), lowest = O_ == AP_SAT_SYM ? -most : -most - type(1);
        whole = O_ == AP_SAT_ZERO ? type(0) : t > 0 ? most : S_ ? lowest : type(0);
    }
    r.v = static_cast<decltype(r.v)>(whole);
    return r;
#endif
}

// The modes that are not told apart: where loops are checked they cost what their like do.
template <ap_o_mode O_, int N_>
constexpr bool is_told_apart() {
#ifdef __HLS_CHECK__
    return true;
#else
    return O_ != AP_WRAP_SM && N_ == 0;
#endif
}
}  // namespace ap_detail

template <int W_, bool S_>
template <int W2_, int I2_, bool S2_>
__AP_INLINE ap_int_base<W_, S_>::ap_int_base(const ap_fixed_base<W2_, I2_, S2_>& x)
    : v(ap_detail::integer_of<W_, S_>(x)) {}

#define __AP_ASSIGN(NAME, OP)                        \
    template <class T_>                              \
    __AP_INLINE NAME& operator OP##=(const T_ & x) { \
        return *this = NAME(*this OP x);             \
    }
#define __AP_FIXED(NAME, SIGN)                                                                                 \
    template <int W_, int I_, ap_q_mode Q_, ap_o_mode O_, int N_>                                              \
    struct NAME : ap_fixed_base<W_, I_, SIGN> {                                                                \
        static_assert(ap_detail::is_told_apart<O_, N_>(), "numbers that wrap around keep no bits apart here"); \
        typedef ap_fixed_base<W_, I_, SIGN> base;                                                              \
        NAME() = default;                                                                                      \
        __AP_INLINE NAME(double x) : base(ap_detail::quantized_float<W_, I_, SIGN, Q_, O_>(x)) {}              \
        __AP_INLINE NAME(float x) : base(ap_detail::quantized_float<W_, I_, SIGN, Q_, O_>(x)) {}               \
        template <class T_, class = ap_detail::if_integer<T_>, class = void>                                   \
        __AP_INLINE constexpr NAME(T_ x) : NAME(ap_detail::as_fixed<T_>(x)) {}                                 \
        template <int A_, bool SA_>                                                                            \
        __AP_INLINE NAME(const ap_int_base<A_, SA_>& x) : NAME(ap_fixed_base<A_, A_, SA_>(x)) {}               \
        template <int A_, bool SA_>                                                                            \
        __AP_INLINE NAME(const ap_range_ref<A_, SA_>& x) : NAME(x.get()) {}                                    \
        template <int A_, int IA_, bool SA_>                                                                   \
        __AP_INLINE constexpr NAME(const ap_fixed_base<A_, IA_, SA_>& x)                                       \
            : base(ap_quantized<W_, I_, SIGN, Q_, O_>(x)) {}                                                   \
        __AP_ASSIGN(NAME, +)                                                                                   \
        __AP_ASSIGN(NAME, -)                                                                                   \
        __AP_ASSIGN(NAME, *)                                                                                   \
        __AP_ASSIGN(NAME, /)                                                                                   \
        __AP_INLINE NAME& operator<<=(int n) { return *this = NAME(*this << n); }                              \
        __AP_INLINE NAME& operator>>=(int n) { return *this = NAME(*this >> n); }                              \
        __AP_INLINE NAME& operator++() { return *this += 1; }                                                  \
        __AP_INLINE NAME& operator--() { return *this -= 1; }                                                  \
        __AP_INLINE NAME operator++(int) {                                                                     \
            const NAME old = *this;                                                                            \
            ++*this;                                                                                           \
            return old;                                                                                        \
        }                                                                                                      \
        __AP_INLINE NAME operator--(int) {                                                                     \
            const NAME old = *this;                                                                            \
            --*this;                                                                                           \
            return old;                                                                                        \
        }                                                                                                      \
    };
__AP_FIXED(ap_fixed, true)
__AP_FIXED(ap_ufixed, false)
#undef __AP_FIXED
#undef __AP_ASSIGN

namespace ap_detail {
// In which two numbers are added and compared; a difference has a sign whatever they have.
template <int A_, int IA_, bool SA_, int B_, int IB_, bool SB_, bool DIFFERENCE_ = false>
struct sum {
    static constexpr bool sign = SA_ || SB_;
    static constexpr int integer = larger(IA_ + (sign && !SA_), IB_ + (sign && !SB_)) + 1;
    static constexpr int fraction = larger(A_ - IA_, B_ - IB_);
    typedef ap_fixed_base<integer + fraction, integer, sign || DIFFERENCE_> type;
};
}  // namespace ap_detail

#define __AP_MIXED(OP)                                                                                  \
    template <int A_, int IA_, bool SA_, class T_, class = ap_detail::if_integer<T_>>                   \
    __AP_INLINE auto operator OP(const ap_fixed_base<A_, IA_, SA_>& a, T_ b) {                          \
        return a OP ap_detail::as_fixed<T_>(b);                                                         \
    }                                                                                                   \
    template <int A_, int IA_, bool SA_, class T_, class = ap_detail::if_integer<T_>>                   \
    __AP_INLINE auto operator OP(T_ b, const ap_fixed_base<A_, IA_, SA_>& a) {                          \
        return ap_detail::as_fixed<T_>(b) OP a;                                                         \
    }                                                                                                   \
    template <int A_, int IA_, bool SA_, int B_, bool SB_>                                              \
    __AP_INLINE auto operator OP(const ap_fixed_base<A_, IA_, SA_>& a, const ap_int_base<B_, SB_>& b) { \
        return a OP ap_fixed_base<B_, B_, SB_>(b);                                                      \
    }                                                                                                   \
    template <int A_, int IA_, bool SA_, int B_, bool SB_>                                              \
    __AP_INLINE auto operator OP(const ap_int_base<B_, SB_>& b, const ap_fixed_base<A_, IA_, SA_>& a) { \
        return ap_fixed_base<B_, B_, SB_>(b) OP a;                                                      \
    }
// As numbers of the same type with a fixed point. Comparisons are exact; where loops are checked those are of that type, too.
#define __AP_FLOAT(OP, FLOAT)                                                     \
    template <int A_, int IA_, bool SA_>                                          \
    __AP_INLINE auto operator OP(const ap_fixed_base<A_, IA_, SA_>& a, FLOAT b) { \
        return a OP ap_fixed_base<A_, IA_, SA_>(b);                               \
    }                                                                             \
    template <int A_, int IA_, bool SA_>                                          \
    __AP_INLINE auto operator OP(FLOAT b, const ap_fixed_base<A_, IA_, SA_>& a) { \
        return ap_fixed_base<A_, IA_, SA_>(b) OP a;                               \
    }
#ifdef __HLS_CHECK__
#define __AP_FLOAT_COMPARED __AP_FLOAT
#else
#define __AP_FLOAT_COMPARED(OP, FLOAT)                                \
    template <int A_, int IA_, bool SA_>                              \
    bool operator OP(const ap_fixed_base<A_, IA_, SA_>& a, FLOAT b) { \
        return a.to_double() OP static_cast<double>(b);               \
    }                                                                 \
    template <int A_, int IA_, bool SA_>                              \
    bool operator OP(FLOAT b, const ap_fixed_base<A_, IA_, SA_>& a) { \
        return static_cast<double>(b) OP a.to_double();               \
    }
#endif
#define __AP_SUM(OP, DIFFERENCE)                                                                               \
    template <int A_, int IA_, bool SA_, int B_, int IB_, bool SB_>                                            \
    __AP_INLINE auto operator OP(const ap_fixed_base<A_, IA_, SA_>& a, const ap_fixed_base<B_, IB_, SB_>& b) { \
        typedef typename ap_detail::sum<A_, IA_, SA_, B_, IB_, SB_, DIFFERENCE>::type type;                    \
        type r;                                                                                                \
        r.v = static_cast<decltype(r.v)>(type(a).v OP type(b).v);                                              \
        return r;                                                                                              \
    }                                                                                                          \
    __AP_MIXED(OP)                                                                                             \
    __AP_FLOAT(OP, double)                                                                                     \
    __AP_FLOAT(OP, float)
__AP_SUM(+, false)
__AP_SUM(-, true)
#undef __AP_SUM
template <int A_, int IA_, bool SA_, int B_, int IB_, bool SB_>
__AP_INLINE auto operator*(const ap_fixed_base<A_, IA_, SA_>& a, const ap_fixed_base<B_, IB_, SB_>& b) {
    ap_fixed_base<A_ + B_, IA_ + IB_, SA_ || SB_> r;
    typedef decltype(r.v) type;
    r.v = static_cast<type>(static_cast<type>(a.v) * static_cast<type>(b.v));
    return r;
}
__AP_MIXED(*)
__AP_FLOAT(*, double)
__AP_FLOAT(*, float)
template <int A_, int IA_, bool SA_, int B_, int IB_, bool SB_>
__AP_INLINE auto operator/(const ap_fixed_base<A_, IA_, SA_>& a, const ap_fixed_base<B_, IB_, SB_>& b) {
    constexpr int fraction = ap_detail::larger(B_ - IB_, 0);
    constexpr int width = A_ + SB_ + fraction;  // as AMD's without __SC_COMPATIBLE__
    ap_fixed_base<width, IA_ + SB_ + B_ - IB_, SA_ || SB_> r;
    typedef ap_detail::raw_t<ap_detail::larger(width, B_ + 1), SA_ || SB_> type;
    r.v = static_cast<decltype(r.v)>(static_cast<type>(static_cast<type>(a.v) << fraction) / static_cast<type>(b.v));
    return r;
}
__AP_MIXED(/)
__AP_FLOAT(/, double)
__AP_FLOAT(/, float)
#define __AP_COMPARE(OP)                                                                                       \
    template <int A_, int IA_, bool SA_, int B_, int IB_, bool SB_>                                            \
    __AP_INLINE bool operator OP(const ap_fixed_base<A_, IA_, SA_>& a, const ap_fixed_base<B_, IB_, SB_>& b) { \
        typedef typename ap_detail::sum<A_, IA_, SA_, B_, IB_, SB_>::type type;                                \
        return type(a).v OP type(b).v;                                                                         \
    }                                                                                                          \
    __AP_MIXED(OP)                                                                                             \
    __AP_FLOAT_COMPARED(OP, double)                                                                            \
    __AP_FLOAT_COMPARED(OP, float)
__AP_COMPARE(==)
__AP_COMPARE(!=)
__AP_COMPARE(<)
__AP_COMPARE(>)
__AP_COMPARE(<=)
__AP_COMPARE(>=)
#undef __AP_COMPARE
#undef __AP_MIXED
#undef __AP_FLOAT
#undef __AP_FLOAT_COMPARED

template <int W_, int I_, bool S_>
std::ostream& operator<<(std::ostream& out, const ap_fixed_base<W_, I_, S_>& x) {
#ifdef __HLS_CHECK__
    return out;
#else
    const std::ios_base::fmtflags before = out.flags();
    out.unsetf(std::ios_base::floatfield);  // AMD's writes no zeros behind the last digit, and no exponent
    out << x.to_double();
    out.flags(before);
    return out;
#endif
}
