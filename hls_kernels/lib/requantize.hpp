// From int32 sums to 8 bits: the arithmetic of every INT8 engine and core, defined to the bit.
//
// In units of the output's scale (steps of 8 bits, "LSB") the result of a channel is
//     `y      = (sum + offset) * mantissa * 2^-(22 + 4 * shift)  +  bias * 2^-22  +  (residual - zero) * factor * 2^-22`,
//     `result = clamp(zero + nearest(y), low, high)`.
// Here y is exact until `nearest` rounds it once, ties to the even integer. A command may have a middle. Then y without the
// residual is first rounded to 8 bits of another scale, and its table is applied:
//     `middle = clamp(middle_zero + nearest((sum + offset) * mantissa * ... + bias * 2^-22), -128, 127)`,
//     `y      = (middle - middle_zero) * middle_factor * 2^-22  +  (residual - zero) * factor * 2^-22`.
//
// In hardware, a DSP48E2 multiplies 27 x 18 bits, so the sum needs two of them, residual and middle one each. The product is
// shifted by whole nibbles onto a grid of 2^-22 before anything is added, with a flag for bits that are cut off. So all later
// numbers have 38 bits, and the last rounding is at a fixed place.
// On a CPU every term and every sum of terms is exact in a double, because make_channel keeps
//     `|sum + offset| * |mantissa| + (|bias| + |residual|) * 2^(4 * shift)  <  2^53`.
// So doubles, eight or four at a time, give the same bits.
//
// fpga_dynamo/codegen/requantize.py is make_channel and make_factor in Python.
#pragma once
#include <cstdint>
#ifndef __VITIS_HLS__
#include <cmath>
#include <stdexcept>
#endif

namespace fpga {

constexpr int REQUANTIZE_FRACTION = 22;  // bits behind the point of bias, factors and the shifted product
constexpr int REQUANTIZE_NIBBLE = 4;     // what one step of `shift` moves a product by
constexpr int REQUANTIZE_SHIFTS = 8;
constexpr int REQUANTIZE_MANTISSA = 27;   // bits of mantissas and factors, sign included
constexpr int REQUANTIZE_PRODUCT = 54;    // bits of a channel's sum * mantissa, sign included: make_channel sees to it
constexpr int REQUANTIZE_SATURATED = 35;  // a shifted product stays within 2^35 units: 2^13 LSB

constexpr int32_t REQUANTIZE_MOST = ((1 << 26) - 1) << 5;  // the greatest scale: all but 16

// Of an output channel. `scale` is mantissa << 5 | shift.
struct requantize_channel {
    int32_t offset;
    int32_t scale;
    int32_t bias;
};

// Of all channels. Factors are 0 where there is no residual or middle.
struct requantize_tensor {
    int32_t zero, low, high;
    int32_t residual_factor, residual_zero;
    int32_t middle_factor, middle_zero;
    bool middle;
};

// A number in units of 2^-22; `cut`: it is that and something less than one unit more.
struct requantize_fixed {
    int64_t units;
    bool cut;
};

// x, of which all that counts lies in BITS bits, sign included: multipliers and adders become no wider.
// \tparam BITS Bits that the result is cut to.
template <int BITS>
int32_t requantize_narrow(int32_t x) {
#pragma HLS inline
    return static_cast<int32_t>(static_cast<uint32_t>(x) << (32 - BITS)) >> (32 - BITS);
}
// \tparam BITS Bits that the result is cut to.
template <int BITS>
int64_t requantize_narrow(int64_t x) {
#pragma HLS inline
    return static_cast<int64_t>(static_cast<uint64_t>(x) << (64 - BITS)) >> (64 - BITS);
}

// Of 10 bits, sign included, or more: a sum of a zero point and a rounded number.
inline int32_t requantize_clamp(int32_t x, int32_t low, int32_t high) {
#pragma HLS inline
    const int32_t least = requantize_narrow<10>(low), most = requantize_narrow<10>(high);
    const bool below = x < least;
    const bool above = x > most;
    return below ? least : above ? most : requantize_narrow<10>(x);
}

// The same to the limits of int8, which what is above their bits tells.
inline int32_t requantize_clamp_int8(int32_t x) {
#pragma HLS inline
    const int32_t above = x >> 7;
    return above == 0 || above == -1 ? requantize_narrow<8>(x) : x < 0 ? -128 : 127;
}

// sum * scale. Beyond 2^13 LSB it is that bound: nothing that is added to it can bring the result back within 8 bits.
// BITS: of the product, sign included.
// \tparam BITS Bits that the result is cut to.
template <int BITS = REQUANTIZE_PRODUCT>
requantize_fixed requantize_product(int32_t sum, int32_t scale) {
#pragma HLS inline
    const int32_t mantissa = scale >> 5, shift = scale & (REQUANTIZE_SHIFTS - 1);
    // By 17 bits and the rest, as DSPs take it: one hands what is above its 17 lowest bits to the next.
    const int64_t low = int64_t{sum & 0x1ffff} * mantissa;
    const int64_t high = requantize_narrow<BITS - 17>(int64_t{sum >> 17} * mantissa + (low >> 17));
    const int64_t product = high * (1 << 17) | (low & 0x1ffff);
    // Place by place, and what is cut off on the way: a shift and a mask of as many bits take more, in every lane.
    const int64_t by_four = shift & 4 ? product >> 4 * REQUANTIZE_NIBBLE : product;
    const int64_t by_two = shift & 2 ? by_four >> 2 * REQUANTIZE_NIBBLE : by_four;
    const int64_t units = shift & 1 ? by_two >> REQUANTIZE_NIBBLE : by_two;
    const bool cut = ((shift & 4) && (product & 0xffff) != 0) || ((shift & 2) && (by_four & 0xff) != 0) ||
                     ((shift & 1) && (by_two & 0xf) != 0);
    const int32_t beyond = static_cast<int32_t>(units >> REQUANTIZE_SATURATED);
    const int64_t most = int64_t{1} << REQUANTIZE_SATURATED;
    const int64_t bound = product < 0 ? -most : most - 1;
    const bool within = beyond == 0 || beyond == -1;
    return {within ? requantize_narrow<REQUANTIZE_SATURATED + 1>(units) : bound, cut};
}

// zero + the nearest integer, ties to the even one; of less than 2^15 in size. Rounding up is the addition's carry: a bit more
// at its end, which is 1 on the other side.
inline int32_t requantize_nearest(const requantize_fixed& y, int32_t zero) {
#pragma HLS inline
    const int32_t whole = static_cast<int32_t>(y.units >> REQUANTIZE_FRACTION);
    const bool half = (y.units >> (REQUANTIZE_FRACTION - 1) & 1) != 0;
    const bool more = y.cut || (y.units & ((1 << (REQUANTIZE_FRACTION - 1)) - 1)) != 0;
    const uint32_t carry = static_cast<uint32_t>(half) & static_cast<uint32_t>(more || (whole & 1) != 0);
    // Cut to its width with the carry, or compilers add that apart.
    const int32_t doubled = requantize_narrow<17>(static_cast<int32_t>(static_cast<uint32_t>(whole) << 1 | carry));
    return (doubled + (requantize_narrow<10>(zero) * 2 | 1)) >> 1;
}

// (x - zero) * factor, of 8-bit x with or without a sign.
inline int64_t requantize_added(int32_t x, int32_t zero, int32_t factor) {
#pragma HLS inline
    return int64_t{requantize_narrow<10>(x) - requantize_narrow<10>(zero)} *
           requantize_narrow<REQUANTIZE_MANTISSA>(factor);
}

// The result before the last table. `middle_of` gives a middle's entry of a table: of an integer from -128 to 127.
// \tparam LOOKUP Function from an index to a table entry.
template <class LOOKUP>
int32_t requantize_with(int32_t sum, const requantize_channel& channel, int32_t residual, const requantize_tensor& t,
                        const LOOKUP& middle_of) {
#pragma HLS inline
    const int32_t corrected = static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(channel.offset));
    requantize_fixed y = requantize_product(corrected, channel.scale);
    y.units += channel.bias;
    if (t.middle) {
        const int32_t middle = middle_of(requantize_clamp_int8(requantize_nearest(y, t.middle_zero)));
        y.units = requantize_added(middle, t.middle_zero, t.middle_factor);
        y.cut = false;
    }
    y.units += requantize_added(residual, t.residual_zero, t.residual_factor);
    return requantize_clamp(requantize_nearest(y, t.zero), t.low, t.high);
}

// The same; `middle_table`: 256 entries for -128 ... 127, or null.
// \tparam ELEMENT Element of the table, of 8 bits.
template <class ELEMENT>
int32_t requantize(int32_t sum, const requantize_channel& channel, int32_t residual, const requantize_tensor& t,
                   const ELEMENT* middle_table) {
#pragma HLS inline
    return requantize_with(sum, channel, residual, t, [middle_table](int32_t middle) {
        return middle_table ? static_cast<int32_t>(middle_table[middle + 128]) : middle;
    });
}

#ifndef __VITIS_HLS__
// A scale, bias or range of sums that this arithmetic does not have.
class requantize_error : public std::domain_error {
public:
    using std::domain_error::domain_error;
};

namespace requantize_detail {
constexpr double LARGEST_MANTISSA = 67108863.0;        // 2^26 - 1
constexpr double LARGEST_BIAS = 2147483647.0;          // 2^31 - 1 units
constexpr double EXACT = 9007199254740992.0 * 0.9375;  // of 2^53, less what rounding in here may take
}  // namespace requantize_detail

// `scale` as the factor of a residual or middle: to the nearest multiple of 2^-22. Throws from 16 on.
inline int32_t make_factor(double scale) {
    const double units = std::nearbyint(std::ldexp(scale, REQUANTIZE_FRACTION));
    if (!(std::fabs(units) <= requantize_detail::LARGEST_MANTISSA))
        throw requantize_error("a residual's or intermediate result's scale is 16 or more times that of the output");
    return static_cast<int32_t>(units);
}

// The channel whose y is (sum + offset) * scale + bias + a residual, in LSB of the output (of the middle, where there is one).
//
// greatest: of |sum + offset|, less than 2^31. residual: the greatest |(residual - zero) * scale| in LSB. Power-of-two
// scales and biases that are multiples of 2^-22 or of the scale are exact. Throws requantize_error for scales from 16 on, and
// for sums and biases too large for exact terms.
inline requantize_channel make_channel(double scale, double bias, double greatest, int32_t offset = 0,
                                       double residual = 0) {
    using namespace requantize_detail;
    if (!std::isfinite(scale) || !std::isfinite(bias)) throw requantize_error("a scale or bias is not finite");
    if (!(std::fabs(scale) < 16))
        throw requantize_error("the scale of the sums is 16 or more times that of the output");
    if (!(greatest >= 0 && greatest < 2147483648.0)) throw requantize_error("sums overflow int32");
    // A bias that the sum's own grid has, or that is too large for its field, becomes part of the offset.
    double moved = scale == 0 ? 0 : std::nearbyint(bias / scale);
    if (!(std::fabs(moved) + greatest < 2147483648.0) || (std::fabs(bias) < 511 && moved * scale != bias)) moved = 0;
    greatest += std::fabs(moved);
    double mantissa = 0, rest = 0;
    int shift = REQUANTIZE_SHIFTS;
    bool fits = false;
    while (!fits && shift > 0) {
        shift--;
        const int places = REQUANTIZE_FRACTION + REQUANTIZE_NIBBLE * shift;
        mantissa = std::nearbyint(std::ldexp(scale, places));
        rest = bias - std::ldexp(moved * mantissa, -places);
        const double added = std::fmin(std::fabs(rest), 512) + residual;
        fits = std::fabs(mantissa) <= LARGEST_MANTISSA &&
               greatest * std::fabs(mantissa) + std::ldexp(added, places) <= EXACT;
    }
    if (!fits) throw requantize_error("requantization needs more than 53 bits: the sums are too large for their scale");
    double units = std::nearbyint(std::ldexp(rest, REQUANTIZE_FRACTION));
    if (std::fabs(units) > LARGEST_BIAS) {
        // Far outside 8 bits whatever the sum is; else there is nothing to be done.
        if (greatest * std::fabs(scale) + residual > 200)
            throw requantize_error("a bias exceeds 512 LSB of the output");
        units = std::copysign(LARGEST_BIAS, units);
    }
    const uint32_t all = static_cast<uint32_t>(offset) + static_cast<uint32_t>(static_cast<int64_t>(moved));
    return {static_cast<int32_t>(all),
            static_cast<int32_t>(static_cast<uint32_t>(static_cast<int32_t>(mantissa)) << 5 | shift),
            static_cast<int32_t>(units)};
}
#endif

}  // namespace fpga
