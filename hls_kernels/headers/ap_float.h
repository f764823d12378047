// Stands in for the header of Vitis HLS: numbers of W bits with E bits of exponent, in IEEE 754's format. Results are rounded to
// the nearest number, to even where two are as near. As in AMD's operators, numbers below the normal ones are 0.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <type_traits>

#include "ap_fixed.h"

template <int W_, int E_>
class ap_float {
    static_assert(W_ <= 64 && E_ >= 2 && E_ <= 11 && W_ - E_ >= 2 && W_ - E_ <= 53,
                  "ap_float has at most a double's parts");
    static constexpr int FRACTION_ = W_ - E_ - 1, BIAS_ = (1 << (E_ - 1)) - 1;

public:
    static constexpr int width = W_;
    ap_float() = default;
    template <class T_, class = std::enable_if_t<std::is_arithmetic<T_>::value>>
    ap_float(T_ x) : bits_(encoded(static_cast<double>(x))) {}
    template <int A_, int B_>
    ap_float(const ap_float<A_, B_>& x) : bits_(encoded(x.to_double())) {}
    template <int A_, bool S_>
    ap_float(const ap_int_base<A_, S_>& x) : bits_(encoded(x.to_double())) {}
    template <int A_, int I_, bool S_>
    ap_float(const ap_fixed_base<A_, I_, S_>& x) : bits_(encoded(x.to_double())) {}

    double to_double() const {
        const uint64_t all = bits_.to_uint64();
        const uint64_t fraction = all & ((uint64_t{1} << FRACTION_) - 1);
        const int exponent = static_cast<int>(all >> FRACTION_) & ((1 << E_) - 1);
        const double sign = (all >> (W_ - 1)) & 1 ? -1.0 : 1.0;
        if (exponent == (1 << E_) - 1)
            return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
        if (!exponent) return sign * 0.0;
        return sign * std::ldexp(1.0 + std::ldexp(static_cast<double>(fraction), -FRACTION_), exponent - BIAS_);
    }
    float to_float() const { return static_cast<float>(to_double()); }
    explicit operator double() const { return to_double(); }
    explicit operator float() const { return to_float(); }
    template <class T_, class = std::enable_if_t<std::is_integral<T_>::value>>
    explicit operator T_() const {
        return static_cast<T_>(to_double());
    }
    template <int A_, int I_, ap_q_mode Q_, ap_o_mode O_, int N_>
    explicit operator ap_fixed<A_, I_, Q_, O_, N_>() const {
        return ap_fixed<A_, I_, Q_, O_, N_>(to_double());
    }
    ap_uint<W_> get_bits() const { return bits_; }
    void set_bits(const ap_uint<W_>& bits) { bits_ = bits; }

    ap_float operator-() const { return ap_float(-to_double()); }
#define __HLS_OPERATION(OP)                                             \
    friend ap_float operator OP(const ap_float& a, const ap_float& b) { \
        return ap_float(a.to_double() OP b.to_double());                \
    }                                                                   \
    ap_float& operator OP##=(const ap_float & o) { return *this = *this OP o; }
    __HLS_OPERATION(+)
    __HLS_OPERATION(-)
    __HLS_OPERATION(*)
    __HLS_OPERATION(/)
#undef __HLS_OPERATION
#define __HLS_COMPARISON(OP) \
    friend bool operator OP(const ap_float& a, const ap_float& b) { return a.to_double() OP b.to_double(); }
    __HLS_COMPARISON(==)
    __HLS_COMPARISON(!=)
    __HLS_COMPARISON(<)
    __HLS_COMPARISON(<=)
    __HLS_COMPARISON(>)
    __HLS_COMPARISON(>=)
#undef __HLS_COMPARISON
    friend std::ostream& operator<<(std::ostream& out, const ap_float& x) { return out << x.to_double(); }

private:
    static uint64_t encoded(double x) {
        const uint64_t sign = uint64_t{std::signbit(x)} << (W_ - 1);
        const uint64_t top = ((uint64_t{1} << E_) - 1) << FRACTION_;
        if (std::isnan(x)) return sign | top | (uint64_t{1} << (FRACTION_ - 1));
        if (std::isinf(x)) return sign | top;
        if (x == 0) return sign;
        int exponent = 0;
        double significand = std::nearbyint(std::ldexp(std::frexp(std::fabs(x), &exponent), FRACTION_ + 1));
        exponent--;
        if (significand == std::ldexp(1.0, FRACTION_ + 1)) {
            significand /= 2;
            exponent++;
        }
        if (exponent > BIAS_) return sign | top;
        if (exponent < 1 - BIAS_) return sign;
        const uint64_t fraction = static_cast<uint64_t>(significand) & ((uint64_t{1} << FRACTION_) - 1);
        return sign | (static_cast<uint64_t>(exponent + BIAS_) << FRACTION_) | fraction;
    }
    ap_uint<W_> bits_;
};

// Adds in a number with a fixed point, so that a sum needs one cycle an addend.
template <class FLOAT_, class FIXED_>
class ap_float_acc {
public:
    FLOAT_ accumulate(const FLOAT_& value, bool last) {
        sum_ += FIXED_(value.to_double());
        const FLOAT_ result = FLOAT_(sum_.to_double());
        if (last) sum_ = 0;
        return result;
    }

private:
    FIXED_ sum_ = 0;
};
