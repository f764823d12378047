// The command of the vector side: what works on the rows of maps, or element by element, beside the MAC array.
//
// A row is one pixel's channels: the keys of a query, the features of a token. Units as in ../record.hpp; of `heads` maps
// each has planes and pixels of its own. Elements are int8, or floats (below).
#pragma once
#include <cstdint>

#include "../record.hpp"

namespace engine {

enum vector_operation : int32_t {
    VECTOR_SOFTMAX = 0,
    VECTOR_NORM = 1,
    VECTOR_ADD = 2,  // without other: one map, rescaled
    VECTOR_MULTIPLY = 3,
    VECTOR_INTERLEAVE = 4,
    VECTOR_GATHER = 5,
    VECTOR_CONSTANT = 6,
    VECTOR_TRANSPOSE = 7,
    VECTOR_QUANTIZE = 8,
    VECTOR_DEQUANTIZE = 9,
};

// Where a run of gather begins.
enum gather_source : uint32_t { GATHER_INPUT = 0, GATHER_FILL = 1 };

enum vector_flags : int32_t {
    VECTOR_TABLE = 1,   // the 256-entry table behind the params is applied last
    VECTOR_SHARED = 2,  // other is a map of one pixel, the same for all rows of a head
    VECTOR_WIDE = 4,    // of a softmax of bfloat16: the input is float32, as MAC_WIDE leaves it
    VECTOR_CAUSAL = 8,  // of a softmax of floats: to the keys of row n of a head that are behind its n-th -inf is added
    VECTOR_UNCENTERED = 16,  // of a norm of int8
};

// Result of a row's channel: x of the input, r of `other` (0 without it). Scales, factors and rounding are those of
// lib/requantize.hpp: `a . s` is a * s rounded down to a multiple of 2^-22. A flag tells the last rounding whether bits were
// cut off.
//
// Softmax: a key whose r is not 0 is masked.
//   `e = exponentials[max of the row's keys without the masked ones - x]`, 0 for a masked key.
//   `y = e . (row_scale / float(sum of the row's e))`, 0 if that sum is 0.
// Norm:
//   `D = channels * (sum of x^2) - (sum of x)^2`, exact. With VECTOR_UNCENTERED 0 is in the place of the sum of x, so that
//   gamma makes of a row its quotient by its root mean square, or by its vector norm.
//   `y = ((channels * x - sum of x) . (1 / sqrt(float(D) + epsilon))) . gamma + beta`.
// Add and multiply:
//   `y = (x - input_zero) . input_scale + (r - other_zero) * other_factor`.
//   `y = ((x - input_zero) * (r - other_zero)) . input_scale`.
// All of them:
//   `result = clamp(zero + round(y), low, high)`, then `table[result]` with VECTOR_TABLE.
//
// Interleave copies words, and a head is one block of an image. A row begins with turns[0] words of the input, then come
// turns[1] words of other, and so on in turn until the row ends. So phases of a transposed convolution become an image, and
// feature maps are concatenated.
//
// Gather copies words in any order, and a head is one block of an image. Its input and input_head count words. Its params are
// a table of runs, the same for all heads: `runs` times four uint32, of which the last is not read. Bits 30 and 31 of the
// first number are a gather_source, the others the run's first word from the begin of the head's input. The second number
// counts its words, at least one. So pixels are permuted, repeated and padded. A run of GATHER_FILL has the four channels of
// the third number, again and again. The others lie within the `taken[0]` words of the input, and lengths add up to the words
// of the output's lines; neither is checked on a card.
//
// Transpose gathers words in the same way, and transposes each 16 of them: channel k of word l of 16 becomes channel l of word
// k. So pixels become channels. A block has a multiple of 16 words.
//
// Constant copies its params, which are the lines of all heads' blocks, to the output.
//
// Quantize and dequantize are between float32 and int8, element by element as they lie, whatever the map's layout: a word of
// int8 is four of float32. `pixels` and taken[0] count words of the output and of the input; a head is any run of lines.
//   `result = clamp(zero + round(x * row_scale), low, high)`, half to even, the product rounded to float32; 0 for NaN.
//   `result = (x - input_zero) * row_scale` in float32.
//
// A row's scale is computed in float32 with a rounding after each operation, and becomes a scale of 23 bits
// (scale_of_float). Sums are of integers and so the same in any order. Channels that fill the last block get y = 0. The scale
// of the output is divided out beforehand: in row_scale, input_scale and other_factor, or gamma and beta.
//
// Params of softmax are 256 exponentials 2^24 * exp(-i * scale), uint32, in 16 lines. Params of norm are
// [block][gamma, beta][16], int32 in units of 2^-17 and 2^-22. The table follows in 4 lines.
//
// Engines of floats support softmax and norm alone, without other, table, zero points and limits. With VECTOR_WIDE or
// VECTOR_CAUSAL `plane` is not supported either. All is float32 with a rounding after each operation, and a bfloat16 result
// is rounded once more:
//   `y = e * (1 / sum of the row's e)` for softmax, with e = exp(x - max of the row) of floats/exponential.hpp.
//   `v = x - mean` for norm. The mean is (sum of x) / channels, in float32 a + (sum of x - a) / channels by the first element a.
//   `y = (v * (1 / sqrt((sum of v^2) * row_scale + epsilon))) * gamma + beta` for norm.
// Sums are of VECTOR_LANES channels at a time, pair by pair, then from one block to the next. Last, a block's parts are added
// pair by pair. Channels that fill the last block get 0. Params of softmax are 256 exponentials 2^27 * exp(-i / 256), uint32.
// Params of norm are [block][gamma, beta][16], float32.
struct vector_command {
    int32_t opcode;
    int32_t slices;
    int32_t operation;
    int32_t flags;
    uint32_t input;
    uint32_t other;  // second operand or mask, or NO_OPERAND
    uint32_t params;
    uint32_t output;      // may be the input or other
    int32_t input_after;  // as in ../record.hpp
    int32_t other_after;
    int32_t channels;
    int32_t pixels;
    int32_t heads[2];
    int32_t input_head[2];
    int32_t other_head[2];
    int32_t output_head[2];
    int32_t group_lines;  // lines of each plane, BEAT rows each, that are in the vector side's memories at a time
    float epsilon;        // layer norm's, of int8 times channels^2 / (scale of x)^2; greater than 0
    float row_scale;      // of norm in floats 1 / channels; of quantize 1 / scale, of dequantize the scale
    int32_t input_scale;
    int32_t other_factor;
    int32_t input_zero;
    int32_t other_zero;
    int32_t zero;
    int32_t low;
    int32_t high;
    int32_t peers;     // peer_operands
    int32_t plane;     // lines from a block of all maps to the next; 0: as many as the pixels take
    int32_t turns[2];  // of interleave, as the rest, else 0: words of the input, then of other
    int32_t row;       // words of the output until it begins with the input again
    int32_t taken[2];  // words of the input and of other that the output's pixels take, or runs may name
    int32_t runs;      // of gather: in the table
};

static_assert(sizeof(vector_command) <= 64 * 4, "a command has 64 words");

// Of floats there are neither second operands nor words in turn (check.hpp).
constexpr bool VECTOR_FLOATS = ELEMENT != ELEMENT_INT8;
inline bool has_other(const vector_command& c) { return !VECTOR_FLOATS && c.other != NO_OPERAND; }
inline bool is_shared(const vector_command& c) { return (c.flags & VECTOR_SHARED) != 0; }
inline bool is_wide(const vector_command& c) { return WIDE && (c.flags & VECTOR_WIDE) != 0; }
inline bool is_uncentered(const vector_command& c) { return !VECTOR_FLOATS && (c.flags & VECTOR_UNCENTERED) != 0; }
inline bool is_causal(const vector_command& c) { return VECTOR_FLOATS && (c.flags & VECTOR_CAUSAL) != 0; }
inline bool interleaves(const vector_command& c) { return !VECTOR_FLOATS && c.operation == VECTOR_INTERLEAVE; }
inline bool transposes(const vector_command& c) { return ENGINE_HAS_GATHER && c.operation == VECTOR_TRANSPOSE; }
inline bool gathers(const vector_command& c) {
    return ENGINE_HAS_GATHER && (c.operation == VECTOR_GATHER || c.operation == VECTOR_TRANSPOSE);
}
inline bool is_constant(const vector_command& c) { return ENGINE_HAS_GATHER && c.operation == VECTOR_CONSTANT; }
inline bool quantizes(const vector_command& c) { return ENGINE_HAS_CASTS && c.operation == VECTOR_QUANTIZE; }
inline bool casts(const vector_command& c) {
    return ENGINE_HAS_CASTS && (c.operation == VECTOR_QUANTIZE || c.operation == VECTOR_DEQUANTIZE);
}
// A head of the input is one run of taken[0] words.
inline bool reads_runs(const vector_command& c) { return interleaves(c) || casts(c); }
// Words pass by the lanes, and a head is one block.
inline bool moves_words(const vector_command& c) { return reads_runs(c) || gathers(c) || is_constant(c); }
// Needs sums over a row before its first result.
inline bool reduces(const vector_command& c) { return c.operation == VECTOR_SOFTMAX || c.operation == VECTOR_NORM; }

}  // namespace engine
