// Elements of fewer than 32 bits in memory, and numbers among them: bfloat16 and binary16 ("f16"), as 16-bit patterns in the lanes of an ivec16 and as
// floats that have been rounded to them. Rounding is to the nearest, ties to even; what is too large becomes an
// infinity, and NaN stays NaN. All is integer arithmetic but for subnormal f16, so that units that take subnormal floats
// for zero give the same.
#pragma once
#include "command.hpp"
#include "vector.hpp"

namespace fpga {

constexpr int32_t F16_SMALLEST_NORMAL = 0x38800000;  // 2^-14 as the bits of a float
constexpr int32_t F16_OVERFLOW = 0x477ff000;         // 65520, from where on rounding gives infinity
constexpr int32_t FLOAT_INFINITY_BITS = 0x7f800000;

FPGA_INLINE ivec16 magnitude_bits(const vec16& x) { return bits_of(x) & ivec16(INT32_MAX); }
FPGA_INLINE ivec16 sign_bit(const vec16& x) { return bits_of(x) & ivec16(INT32_MIN); }

// Bits of a magnitude after rounding away the `DROPPED` lowest ones, which are left as they come out.
// \tparam DROPPED Number of low bits that are rounded away.
template <int DROPPED>
FPGA_INLINE ivec16 rounded_up(const ivec16& magnitude) {
    return magnitude + ivec16((1 << (DROPPED - 1)) - 1) + ((magnitude >> ivec16(DROPPED)) & ivec16(1));
}

FPGA_INLINE vec16 round_to_bf16(const vec16& x) {
    const ivec16 a = magnitude_bits(x), rounded = rounded_up<16>(a) & ivec16(~0xffff);
    return from_bits(select(vgt(a, ivec16(FLOAT_INFINITY_BITS)), a | ivec16(0x400000), rounded) | sign_bit(x));
}

// |x| below 2^-14 as a multiple of 2^-24: the sum with 0.5 rounds to that.
FPGA_INLINE vec16 half_plus(const ivec16& magnitude) { return from_bits(magnitude) + vec16(0.5f); }

FPGA_INLINE vec16 round_to_f16(const vec16& x) {
    const ivec16 a = magnitude_bits(x);
    ivec16 y = rounded_up<13>(a) & ivec16(~0x1fff);
    y = select(vlt(a, ivec16(F16_SMALLEST_NORMAL)), bits_of(half_plus(a) - vec16(0.5f)), y);
    y = select(vlt(a, ivec16(F16_OVERFLOW)), y, ivec16(FLOAT_INFINITY_BITS));
    return from_bits(select(vgt(a, ivec16(FLOAT_INFINITY_BITS)), a, y) | sign_bit(x));
}

FPGA_INLINE ivec16 bf16_pattern(const vec16& x) { return (bits_of(round_to_bf16(x)) >> ivec16(16)) & ivec16(0xffff); }
FPGA_INLINE vec16 from_bf16(const ivec16& pattern) { return from_bits(pattern << ivec16(16)); }

FPGA_INLINE ivec16 f16_pattern(const vec16& x) {
    const ivec16 a = magnitude_bits(x);
    ivec16 y = (rounded_up<13>(a) - ivec16(112 << 23)) >> ivec16(13);  // the exponent's bias: 127 - 15
    y = select(vlt(a, ivec16(F16_SMALLEST_NORMAL)), bits_of(half_plus(a)) - bits_of(vec16(0.5f)), y);
    y = select(vlt(a, ivec16(F16_OVERFLOW)), y, ivec16(0x7c00));
    y = select(vgt(a, ivec16(FLOAT_INFINITY_BITS)), ivec16(0x7e00), y);
    return y | ((sign_bit(x) >> ivec16(16)) & ivec16(0x8000));
}

FPGA_INLINE vec16 from_f16(const ivec16& pattern) {
    const ivec16 a = pattern & ivec16(0x7fff), exponent = a >> ivec16(10);
    const ivec16 normal = (a << ivec16(13)) + ivec16(112 << 23);
    ivec16 y = select(veq(exponent, ivec16(0)), bits_of(to_float(a) * vec16(0x1p-24f)), normal);
    y = select(veq(exponent, ivec16(31)), (a << ivec16(13)) | ivec16(FLOAT_INFINITY_BITS), y);
    return from_bits(y | ((pattern & ivec16(0x8000)) << ivec16(16)));
}

// Half HALF of a beat whose lanes hold two elements of BITS bits each: one element a lane, not extended by its sign.
// \tparam BITS Bits of the number.
// \tparam HALF Which half, 0 or 1.
template <int BITS, int HALF>
FPGA_INLINE ivec16 split_lanes(const ivec16& x) {
    const ivec16 shift = (lane_numbers() & ivec16(1)) * ivec16(BITS);
    return (doubled_lanes<HALF>(x) >> shift) & ivec16((1 << BITS) - 1);
}

// The inverse: a and b hold an element of BITS bits in each lane.
// \tparam BITS Bits of the number.
template <int BITS>
FPGA_INLINE ivec16 join_lanes(const ivec16& a, const ivec16& b) {
    return even_lanes(a, b) | (odd_lanes(a, b) << ivec16(BITS));
}

// The elements of a beat, one a lane.
FPGA_INLINE void split_beat(const ivec16& beat, ivec16 (&part)[2]) {
    part[0] = split_lanes<16, 0>(beat);
    part[1] = split_lanes<16, 1>(beat);
}

FPGA_INLINE void split_beat(const ivec16& beat, ivec16 (&part)[4]) {
    ivec16 half[2];
    split_beat(beat, half);
    part[0] = split_lanes<8, 0>(half[0]);
    part[1] = split_lanes<8, 1>(half[0]);
    part[2] = split_lanes<8, 0>(half[1]);
    part[3] = split_lanes<8, 1>(half[1]);
}

FPGA_INLINE ivec16 join_beat(const ivec16 (&part)[2]) { return join_lanes<16>(part[0], part[1]); }

FPGA_INLINE ivec16 join_beat(const ivec16 (&part)[4]) {
    const ivec16 half[2] = {join_lanes<8>(part[0], part[1]), join_lanes<8>(part[2], part[3])};
    return join_beat(half);
}

// Bytes of an element of a format; 0 for one that there is not.
FPGA_INLINE int32_t bytes_of(int32_t format) {
    switch (format) {
        case FORMAT_F32: return 4;
        case FORMAT_BF16:
        case FORMAT_F16: return 2;
        case FORMAT_U8:
        case FORMAT_I8: return 1;
        default: return 0;
    }
}

// Element `at` of a region whose elements have BYTES (1 or 2) bytes, not extended by its sign.
// \tparam BYTES Bytes of an element.
template <int BYTES>
FPGA_INLINE int32_t narrow_at(const vec16* region, int64_t at) {
#ifdef __SYNTHESIS__
    constexpr int64_t IN_WORD = 4 / BYTES;
    const uint32_t word = static_cast<uint32_t>(int_at(region, at / IN_WORD));
    return static_cast<int32_t>((word >> (8 * BYTES * (at % IN_WORD))) & ((1u << 8 * BYTES) - 1));
#else
    uint16_t x = 0;
    std::memcpy(&x, reinterpret_cast<const char*>(region) + at * BYTES, BYTES);
    return x;
#endif
}

// Stores the low bits of x there.
// \tparam BYTES Bytes of an element.
template <int BYTES>
FPGA_INLINE void store_narrow(vec16* region, int64_t at, int32_t x) {
#ifdef __SYNTHESIS__
    constexpr int64_t IN_WORD = 4 / BYTES;
    const int shift = 8 * BYTES * (at % IN_WORD);
    const uint32_t mask = ((1u << 8 * BYTES) - 1) << shift;
    const uint32_t word = static_cast<uint32_t>(int_at(region, at / IN_WORD)) & ~mask;
    const uint32_t whole = word | ((static_cast<uint32_t>(x) << shift) & mask);
    store_scalar(region, at / IN_WORD, from_bits(ivec16(static_cast<int32_t>(whole)))[0]);
#else
    const uint16_t low = static_cast<uint16_t>(x);
    std::memcpy(reinterpret_cast<char*>(region) + at * BYTES, &low, BYTES);
#endif
}

}  // namespace fpga
