// Elements of maps and weights, what they are summed in, and the structs that pass between processes.
#pragma once
#include <cmath>
#include <cstdint>

#ifdef __VITIS_HLS__
#include <ap_int.h>
#else
#include "headers/ap_int.h"
#endif

#include "config.hpp"

namespace engine {

// The bits of a float and back; a union, because HLS has no memcpy of scalars that is free.
inline uint32_t bits_of(float x) {
    union {
        float f;
        uint32_t u;
    } both;
    both.f = x;
    return both.u;
}
inline float float_of_bits(uint32_t bits) {
    union {
        float f;
        uint32_t u;
    } both;
    both.u = bits;
    return both.f;
}

// What is common to the element types: the type in memory, that of products' sums, and the ways between.
// \tparam KIND Element of the feature maps, an element_kind.
template <int KIND>
struct element_traits;

template <>
struct element_traits<ELEMENT_INT8> {
    typedef int8_t element_t;
    typedef int32_t sum_t;
    static sum_t widen(element_t x) { return x; }
    static element_t one() { return 1; }
    static element_t least() { return -128; }  // of all
};

template <>
struct element_traits<ELEMENT_BFLOAT16> {
    typedef uint16_t element_t;  // the high half of a float32
    typedef float sum_t;
    static sum_t widen(element_t x) { return float_of_bits(static_cast<uint32_t>(x) << 16); }
    static element_t one() { return 0x3f80; }
    static element_t least() { return 0xff80; }
    // To the nearest, ties to even; NaN stays NaN.
    static element_t narrow(sum_t x) {
        const uint32_t bits = bits_of(x);
        if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<element_t>(bits >> 16 | 0x40);
        return rounded(bits);
    }
    // The bits of a float that is not NaN, rounded.
    static element_t rounded(uint32_t bits) {
        return static_cast<element_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
    }
};

template <>
struct element_traits<ELEMENT_FLOAT32> {
    typedef float element_t;
    typedef float sum_t;
    static sum_t widen(element_t x) { return x; }
    static element_t one() { return 1; }
    static element_t least() { return -INFINITY; }
    static element_t narrow(sum_t x) { return x; }
};

typedef element_traits<ELEMENT> elements;
typedef elements::element_t element_t;
typedef elements::sum_t sum_t;

// One pixel's 16 channels of a block: what a bank of the window holds at an address.
struct word_t {
    element_t lane[CHANNELS];
};
// The unit of memory: BEAT words, or 16 sums.
struct line_t {
    uint8_t byte[LINE_BYTES];
};
// What the ports of the input and of the weights move in a cycle.
#if ENGINE_PORT_BYTES == 64
typedef line_t beat_t;
#else
struct beat_t {
    uint8_t byte[PORT_BYTES];
};
#endif

// Element `i` of a line, and 32 bits of it; bytes lie little-endian.
// \tparam LINE Line or beat of bytes.
template <class LINE>
element_t element_of(const LINE& line, int i) {
#pragma HLS inline
#if ENGINE_ELEMENT == 0
    return static_cast<element_t>(line.byte[i]);
#elif ENGINE_ELEMENT == 1
    return static_cast<element_t>(line.byte[2 * i] | line.byte[2 * i + 1] << 8);
#else
    return float_of_bits(line.byte[4 * i] | line.byte[4 * i + 1] << 8 | line.byte[4 * i + 2] << 16 |
                         static_cast<uint32_t>(line.byte[4 * i + 3]) << 24);
#endif
}
// \tparam LINE Line or beat of bytes.
template <class LINE>
uint32_t bits32_of(const LINE& line, int i) {
#pragma HLS inline
    return line.byte[4 * i] | line.byte[4 * i + 1] << 8 | line.byte[4 * i + 2] << 16 |
           static_cast<uint32_t>(line.byte[4 * i + 3]) << 24;
}
// \tparam LINE Line or beat of bytes.
template <class LINE>
void set_bits32(LINE& line, int i, uint32_t bits) {
#pragma HLS inline
    for (int b = 0; b < 4; b++) {
#pragma HLS unroll
        line.byte[4 * i + b] = static_cast<uint8_t>(bits >> 8 * b);
    }
}
// \tparam LINE Line or beat of bytes.
template <class LINE>
void set_element(LINE& line, int i, element_t x) {
#pragma HLS inline
#if ENGINE_ELEMENT == 0
    line.byte[i] = static_cast<uint8_t>(x);
#elif ENGINE_ELEMENT == 1
    line.byte[2 * i] = static_cast<uint8_t>(x);
    line.byte[2 * i + 1] = static_cast<uint8_t>(x >> 8);
#else
    set_bits32(line, i, bits_of(x));
#endif
}
// \tparam LINE Line or beat of bytes.
template <class LINE>
word_t word_of(const LINE& line, int j) {
#pragma HLS inline
    word_t w;
    for (int i = 0; i < CHANNELS; i++) {
#pragma HLS unroll
        w.lane[i] = element_of(line, j * CHANNELS + i);
    }
    return w;
}
inline void set_word(line_t& line, int j, const word_t& w) {
#pragma HLS inline
    for (int i = 0; i < CHANNELS; i++) {
#pragma HLS unroll
        set_element(line, j * CHANNELS + i, w.lane[i]);
    }
}
// A word more of a line, the others of which move towards its begin.
inline void add_word(line_t& line, const word_t& w) {
#pragma HLS inline
    constexpr int BYTES = CHANNELS * ELEMENT_BYTES;
    for (int b = 0; b < LINE_BYTES - BYTES; b++) {
#pragma HLS unroll
        line.byte[b] = line.byte[b + BYTES];
    }
    set_word(line, BEAT - 1, w);
}
// A beat more of a line, which comes as several of them.
// \tparam BEAT_TYPE Beat of a port, of at most LINE_BYTES bytes.
template <class BEAT_TYPE>
void add_beat(line_t& line, const BEAT_TYPE& beat) {
#pragma HLS inline
    constexpr int BYTES = sizeof(BEAT_TYPE);
    for (int b = 0; b < LINE_BYTES - BYTES; b++) {
#pragma HLS unroll
        line.byte[b] = line.byte[b + BYTES];
    }
    for (int b = 0; b < BYTES; b++) {
#pragma HLS unroll
        line.byte[LINE_BYTES - BYTES + b] = beat.byte[b];
    }
}
// A sum's 32 bits and back, for partial sums in memory.
#if ENGINE_ELEMENT == 0
inline uint32_t bits_of_sum(sum_t x) { return static_cast<uint32_t>(x); }
inline sum_t sum_of_bits(uint32_t bits) { return static_cast<sum_t>(bits); }
// int32 sums wrap around as adders do; in C++ only unsigned ones may.
inline sum_t add_sums(sum_t a, sum_t b) {
    return static_cast<sum_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
#else
inline uint32_t bits_of_sum(sum_t x) { return bits_of(x); }
inline sum_t sum_of_bits(uint32_t bits) { return float_of_bits(bits); }
inline sum_t add_sums(sum_t a, sum_t b) { return a + b; }
#endif

// A sum within the array. Of int8 each step adds at most 2^18, and no tile has more steps than the memory of weights.
#if ENGINE_ELEMENT == 0
typedef ap_int<bits_for(WEIGHT_STEPS) + 20> array_sum_t;
#else
typedef sum_t array_sum_t;
#endif

// What the array reads of activations in a cycle: of each of its pixels IC channels.
struct acts_t {
    element_t a[P][IC];
};
// What it gives after the steps of a tile; `row` is the sum of each pixel's activations, for a second operand that has a zero
// point.
struct sums_t {
    array_sum_t v[P][OC];
#if ENGINE_ROW_SUMS
    sum_t row[P];
#endif
};
// What a sum is scaled with, and what is added (record.hpp): lib/requantize.hpp's integers, or floats.
#if ENGINE_ELEMENT == 0
typedef int32_t factor_t;
inline factor_t factor_of_bits(uint32_t bits) { return static_cast<int32_t>(bits); }
#else
typedef float factor_t;
inline factor_t factor_of_bits(uint32_t bits) { return float_of_bits(bits); }
#endif

// Numbers of 16 output channels; a word of a memory.
struct offsets_t {
    sum_t of[CHANNELS];
};
struct factors_t {
    factor_t of[CHANNELS];
};

// The memories between processes; two of each. Every bank is a memory of its own: which bank, is known when the hardware is
// built.
struct window_t {
    word_t bank[P][WINDOW_ROWS];
};
// Weights of a step for 16 output channels lie there as in memory (layout.hpp), a beat in each bank: BEAT_CHANNELS output
// channels, of each of them LINE_INPUTS input channels.
constexpr int STEP_LINES = IC * ELEMENT_BYTES / 4;
constexpr int STEP_BEATS = STEP_LINES * LINE_BEATS;
constexpr int LINE_INPUTS = 4 / ELEMENT_BYTES;
constexpr int BEAT_CHANNELS = CHANNELS / LINE_BEATS;
#if ENGINE_ELEMENT == 0
// Two output channels share a DSP (processes/mac_array.hpp): weights (w1 << 18) + w0. What is above the lower 18 bits is w1 less
// the sign that w0 borrows, 9 bits; it is worked out once, where a beat comes from memory.
typedef ap_int<9> upper_weight_t;
struct weight_beat_t {
    element_t low[BEAT_CHANNELS / 2][LINE_INPUTS];
    upper_weight_t high[BEAT_CHANNELS / 2][LINE_INPUTS];
};
inline weight_beat_t weight_beat(const beat_t& beat) {
#pragma HLS inline
    weight_beat_t packed;
    for (int pair = 0; pair < BEAT_CHANNELS / 2; pair++) {
#pragma HLS unroll
        for (int r = 0; r < LINE_INPUTS; r++) {
#pragma HLS unroll
            const element_t low = element_of(beat, 2 * pair * LINE_INPUTS + r);
            packed.low[pair][r] = low;
            packed.high[pair][r] = element_of(beat, (2 * pair + 1) * LINE_INPUTS + r) - (low < 0 ? 1 : 0);
        }
    }
    return packed;
}
// What the array reads of 16 of its output channels, pair by pair.
struct weight_t {
    element_t low[CHANNELS / 2][IC];
    upper_weight_t high[CHANNELS / 2][IC];
};
#else
typedef beat_t weight_beat_t;
inline weight_beat_t weight_beat(const beat_t& beat) { return beat; }
struct weight_t {
    element_t w[CHANNELS][IC];
};
#endif
struct weights_t {
    weight_beat_t part[BLOCKS][STEP_BEATS][WEIGHT_STEPS];
};
inline weight_t step_weights(const weights_t& weights, int block, int step) {
#pragma HLS inline
    weight_t weight;
    for (int n = 0; n < STEP_BEATS; n++) {
#pragma HLS unroll
        const weight_beat_t beat = weights.part[block][n][step];
        for (int e = 0; e < BEAT_CHANNELS * LINE_INPUTS; e++) {
#pragma HLS unroll
            const int o = n % LINE_BEATS * BEAT_CHANNELS + e / LINE_INPUTS;
            const int i = n / LINE_BEATS * LINE_INPUTS + e % LINE_INPUTS;
#if ENGINE_ELEMENT == 0
            if (o % 2) continue;
            weight.low[o / 2][i] = beat.low[e / LINE_INPUTS / 2][e % LINE_INPUTS];
            weight.high[o / 2][i] = beat.high[e / LINE_INPUTS / 2][e % LINE_INPUTS];
#else
            weight.w[o][i] = element_of(beat, e);
#endif
        }
    }
    return weight;
}

// Offset, scale and bias of 16 channels are a line each.
constexpr int PARAMS_LINES = 3;
// What the epilogue has for the blocks of a set, one behind the other.
constexpr int SET_BLOCKS = SET_TILES * BLOCKS;
struct params_t {
    offsets_t offset[SET_BLOCKS];
    factors_t scale[SET_BLOCKS];
    factors_t bias[SET_BLOCKS];
};

}  // namespace engine
