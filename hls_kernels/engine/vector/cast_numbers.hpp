// One number of float32 as int8 and back, for the hardware and the CPU schedule.
#pragma once
#include "plan.hpp"

namespace engine {

#if ENGINE_HAS_CASTS

// The float32 of a difference of two int8, of a sign and 8 bits.
inline float float_of(ap_int<10> x) {
#pragma HLS inline
    const bool negative = x < 0;
    const ap_uint<8> magnitude = negative ? ap_int<10>(-x) : x;
    const bool few = magnitude[7] == 0 && magnitude[6] == 0 && magnitude[5] == 0 && magnitude[4] == 0;
    const ap_uint<8> fours = few ? ap_uint<8>(magnitude << 4) : magnitude;
    const bool fewer = fours[7] == 0 && fours[6] == 0;
    const ap_uint<8> twos = fewer ? ap_uint<8>(fours << 2) : fours;
    const bool one = twos[7] == 0;
    const ap_uint<8> ones = one ? ap_uint<8>(twos << 1) : twos;
    const uint32_t zeros = static_cast<uint32_t>(few) << 2 | static_cast<uint32_t>(fewer) << 1 | one;
    const uint32_t exponent = ones[7] == 0 ? 0 : 134 - zeros;
    return float_of_bits(static_cast<uint32_t>(negative) << 31 | exponent << 23 | (ones.to_uint() & 0x7f) << 16);
}
inline float dequantized(ap_int<8> x, const vector_command& c) {
#pragma HLS inline
    return float_of(ap_int<10>(x - ap_int<9>(c.input_zero))) * c.row_scale;
}

// The nearest integer, half to even, with a zero point and within limits; 0 for NaN.
inline int8_t rounded(float y, ap_int<9> zero, ap_int<8> low, ap_int<8> high) {
#pragma HLS inline
    const uint32_t bits = bits_of(y), mantissa = (bits & 0x7fffff) | 0x800000;
    const bool negative = bits >> 31 != 0;
    // Below a half the integer is 0, and from 512 on beyond all limits. In between 10 bits of the mantissa have its halves.
    const ap_uint<8> exponent = bits >> 23 & 0xff;
    const bool small = exponent<ap_uint<8>(126), beyond = exponent> ap_uint<8>(135);
    const ap_uint<4> places = ap_uint<4>(7) - ap_uint<4>(exponent);  // 135 - exponent
    const ap_uint<10> upper = mantissa >> 14, halves = upper >> places.to_uint(), kept = halves << places.to_uint();
    const bool more = (mantissa & 0x3fff) != 0 || kept != upper;
    const uint32_t up = static_cast<uint32_t>(!small) & halves[0] & static_cast<uint32_t>(more || halves[1]);
    const ap_uint<9> whole = small ? ap_uint<9>(0) : ap_uint<9>(halves >> 1);
    // Minus a number is what its other bits and 1 make. A bit more at the end of a sum, 1 on one side, is a carry.
    const ap_int<10> one_less = negative ? ap_int<10>(~ap_int<10>(whole)) : ap_int<10>(whole);
    const ap_int<12> doubled = ap_int<12>(one_less) << 1 | ap_int<12>(up != static_cast<uint32_t>(negative));
    const ap_int<12> next = ap_int<12>(doubled + ap_int<12>(ap_int<12>(zero) << 1 | 1)) >> 1;
    const bool below = beyond ? negative : next < low, above = beyond ? !negative : next > high;
    const ap_int<8> limited = below ? low : above ? high : ap_int<8>(next);
    return bits << 1 > 0xff000000u ? int8_t(0) : static_cast<int8_t>(limited.to_int());
}
inline int8_t quantized(float x, const vector_command& c) {
#pragma HLS inline
    return rounded(x * c.row_scale, c.zero, c.low, c.high);
}

#endif

}  // namespace engine
