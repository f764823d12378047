// Conversion between dense tensors of narrow elements, several to a word, and the arena's elements of one word each.
// Part of the core move. One step takes or makes one beat of narrow elements.
#pragma once
#include "../bounds.hpp"
#include "../command.hpp"
#include "../narrow.hpp"
#include "../vector.hpp"

namespace fpga {

// Half HALF of a beat whose lanes hold two elements of BITS bits each: one element a lane, not extended by its sign.
template <int BITS, int HALF>
FPGA_INLINE ivec16 split_lanes(const ivec16& x) {
    const ivec16 shift = (lane_numbers() & ivec16(1)) * ivec16(BITS);
    return (doubled_lanes<HALF>(x) >> shift) & ivec16((1 << BITS) - 1);
}

// The inverse: a and b hold an element of BITS bits in each lane.
template <int BITS>
FPGA_INLINE ivec16 join_lanes(const ivec16& a, const ivec16& b) {
    return even_lanes(a, b) | (odd_lanes(a, b) << ivec16(BITS));
}

template <int FORMAT>
FPGA_INLINE vec16 widened(const ivec16& pattern) {
    switch (FORMAT) {
        case FORMAT_BF16: return from_bf16(pattern);
        case FORMAT_F16: return from_f16(pattern);
        case FORMAT_I8: return from_bits((pattern << ivec16(24)) >> ivec16(24));
        default: return from_bits(pattern);  // FORMAT_U8
    }
}

template <int FORMAT>
FPGA_INLINE ivec16 narrowed(const vec16& x) {
    switch (FORMAT) {
        case FORMAT_BF16: return bf16_pattern(x);
        case FORMAT_F16: return f16_pattern(x);
        default: return bits_of(x) & ivec16(0xff);
    }
}

FPGA_INLINE bool is_byte_format(int32_t format) { return format == FORMAT_U8 || format == FORMAT_I8; }

// Elements in a beat.
FPGA_INLINE int32_t elements_per_beat(int32_t format) { return is_byte_format(format) ? 4 * VEC : 2 * VEC; }

// Stores 16 elements, if there are as many left; whole vectors, since tensors end with one.
FPGA_INLINE void store_if(bool wanted, vec16* arena, int64_t at, const vec16& x) {
    if (wanted) store_aligned(arena, at, x);
}

template <int FORMAT>
inline void widen_beats(const convert_command& c, vec16* arena, int64_t begin, int64_t end) {
beats:
    for (int64_t i = begin; i < end; i++) {
#pragma HLS pipeline II=4
#pragma HLS loop_tripcount min=1 max=1024
        const ivec16 beat = bits_of(load_aligned(arena, c.input + i * VEC));
        const ivec16 low = split_lanes<16, 0>(beat), high = split_lanes<16, 1>(beat);
        if (!is_byte_format(FORMAT)) {
            const int64_t first = 2 * i * VEC, to = c.output + first;
            store_aligned(arena, to, widened<FORMAT>(low));
            store_if(first + VEC < c.count, arena, to + VEC, widened<FORMAT>(high));
        } else {
            const int64_t first = 4 * i * VEC, to = c.output + first;
            store_aligned(arena, to, widened<FORMAT>(split_lanes<8, 0>(low)));
            store_if(first + VEC < c.count, arena, to + VEC, widened<FORMAT>(split_lanes<8, 1>(low)));
            store_if(first + 2 * VEC < c.count, arena, to + 2 * VEC, widened<FORMAT>(split_lanes<8, 0>(high)));
            store_if(first + 3 * VEC < c.count, arena, to + 3 * VEC, widened<FORMAT>(split_lanes<8, 1>(high)));
        }
    }
}

// Zeros where the tensor has ended.
FPGA_INLINE vec16 load_if(bool wanted, const vec16* arena, int64_t at) {
    return wanted ? load_aligned(arena, at) : vec16(0.0f);
}

template <int FORMAT>
inline void narrow_beats(const convert_command& c, vec16* arena, int64_t begin, int64_t end) {
beats:
    for (int64_t i = begin; i < end; i++) {
#pragma HLS pipeline II=4
#pragma HLS loop_tripcount min=1 max=1024
        const int32_t vectors = is_byte_format(FORMAT) ? 4 : 2;
        const int64_t first = vectors * i * VEC, from = c.input + first;
        const ivec16 a = narrowed<FORMAT>(load_aligned(arena, from));
        const ivec16 b = narrowed<FORMAT>(load_if(first + VEC < c.count, arena, from + VEC));
        ivec16 beat = join_lanes<16>(a, b);
        if (is_byte_format(FORMAT)) {
            const ivec16 d = narrowed<FORMAT>(load_if(first + 2 * VEC < c.count, arena, from + 2 * VEC));
            const ivec16 e = narrowed<FORMAT>(load_if(first + 3 * VEC < c.count, arena, from + 3 * VEC));
            beat = join_lanes<16>(join_lanes<8>(a, b), join_lanes<8>(d, e));
        }
        store_aligned(arena, c.output + i * VEC, from_bits(beat));
    }
}

template <int FORMAT>
inline void convert_beats(const convert_command& c, vec16* arena, int64_t begin, int64_t end) {
    if (c.narrow)
        narrow_beats<FORMAT>(c, arena, begin, end);
    else
        widen_beats<FORMAT>(c, arena, begin, end);
}

inline uint32_t convert(const convert_command& c, const vec16*, vec16* arena, const vec16*, uint32_t slice,
                        uint32_t slices) {
    const int64_t beats = ceil_div(c.count, elements_per_beat(c.format));
    const int64_t begin = slice_begin(beats, slice, slices), end = slice_begin(beats, slice + 1, slices);
    switch (c.format) {
        case FORMAT_BF16: convert_beats<FORMAT_BF16>(c, arena, begin, end); break;
        case FORMAT_F16: convert_beats<FORMAT_F16>(c, arena, begin, end); break;
        case FORMAT_U8: convert_beats<FORMAT_U8>(c, arena, begin, end); break;
        default: convert_beats<FORMAT_I8>(c, arena, begin, end);
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
inline void convert_bounds(const convert_command& c, bounds& b) {
    b.require(c.count >= 1 && c.count < (1 << 30), "has no element, or 2^30 and more");
    b.require(c.format >= FORMAT_BF16 && c.format <= FORMAT_I8, "has an unknown format");
    b.require(c.input % VEC == 0 && c.output % VEC == 0, "has an operand that does not begin with a vector");
    if (!b.ok()) return;
    const int64_t words = round_up(c.count, VEC);
    const int64_t packed = static_cast<int64_t>(ceil_div(c.count, elements_per_beat(c.format))) * VEC;
    b.read(REGION_ARENA, c.input, c.narrow ? words : packed);
    b.write(REGION_ARENA, c.output, c.narrow ? packed : words);
}
#endif

}  // namespace fpga
