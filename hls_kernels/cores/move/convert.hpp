// Conversion between dense tensors of narrow elements, several to a word, and the arena's elements of one word each.
// Part of the core move. One step takes or makes one beat of narrow elements.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/narrow.hpp"
#include "lib/vector.hpp"

namespace fpga {

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

// How many vectors of 16 words the elements of a beat become.
constexpr int vectors_of_beat(int32_t format) { return format == FORMAT_U8 || format == FORMAT_I8 ? 4 : 2; }

// The narrow operand's place in words, which is a beat's.
FPGA_INLINE int64_t beat_words(int32_t format, int64_t offset) { return offset / (vectors_of_beat(format)); }

// Beats begin .. end - 1 of the narrow tensor. The last one may hold more vectors than there are words.
template <int FORMAT>
inline void widen_beats(const convert_command& c, vec16* arena, int64_t begin, int64_t end) {
    constexpr int VECTORS = vectors_of_beat(FORMAT);
    const int64_t input = beat_words(FORMAT, c.input) / VEC, output = c.output / VEC;
beats:
    for (int64_t i = begin; i < end; i++) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 1 max = 1024
#pragma HLS dependence variable = arena type = inter false
        ivec16 part[VECTORS];
        split_beat(bits_of(arena[input + i]), part);
    vectors:
        UNROLL for (int v = 0; v < VECTORS; v++) {
#pragma HLS unroll
            const int64_t vector = i * VECTORS + v;
            if (vector * VEC < c.count) arena[output + vector] = widened<FORMAT>(part[v]);
        }
    }
}

template <int FORMAT>
inline void narrow_beats(const convert_command& c, vec16* arena, int64_t begin, int64_t end) {
    constexpr int VECTORS = vectors_of_beat(FORMAT);
    const int64_t input = c.input / VEC, output = beat_words(FORMAT, c.output) / VEC;
beats:
    for (int64_t i = begin; i < end; i++) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 1 max = 1024
#pragma HLS dependence variable = arena type = inter false
        ivec16 part[VECTORS];
    vectors:
        UNROLL for (int v = 0; v < VECTORS; v++) {
#pragma HLS unroll
            const int64_t vector = i * VECTORS + v;
            part[v] = narrowed<FORMAT>(vector * VEC < c.count ? arena[input + vector] : vec16(0.0f));
        }
        arena[output + i] = from_bits(join_beat(part));
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
    const int64_t beats = ceil_div(c.count, vectors_of_beat(c.format) * VEC);
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
template <>
struct redirection<convert_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(convert_command& c, const windows& elsewhere) {
        const int32_t bytes = bytes_of(c.format);
        elsewhere.redirect_elements(c.narrow ? 4 : bytes, c.input);
        elsewhere.redirect_elements(c.narrow ? bytes : 4, c.output);
    }
};

inline void convert_bounds(const convert_command& c, bounds& b) {
    b.require(c.count >= 1 && c.count < (1 << 30), "has no element, or 2^30 and more");
    b.require(c.format >= FORMAT_BF16 && c.format <= FORMAT_I8, "has an unknown format");
    if (!b.ok()) return;
    const int32_t bytes = bytes_of(c.format), of_beat = vectors_of_beat(c.format) * VEC;
    const place_t words_at = c.narrow ? c.input : c.output, packed_at = c.narrow ? c.output : c.input;
    b.require(words_at % VEC == 0 && packed_at % of_beat == 0, "has an operand that does not begin with a beat");
    if (!b.ok()) return;
    const int64_t words = round_up(c.count, VEC), packed = static_cast<int64_t>(ceil_div(c.count, of_beat)) * of_beat;
    b.read(REGION_ARENA, c.input, c.narrow ? words : packed, c.narrow ? 4 : bytes);
    b.write(REGION_ARENA, c.output, c.narrow ? packed : words, c.narrow ? bytes : 4);
}
#endif

}  // namespace fpga
