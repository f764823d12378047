// What the vector side can run: the end of a sentence that says why not ("has ..."), or nullptr.
#pragma once
#ifndef __VITIS_HLS__
#include "jobs.hpp"

namespace engine {

inline const char* refusal(const vector_command& c) {
    if (!ENGINE_HAS_VECTOR) return "needs the vector side, which this engine does not have";
    if (c.opcode != ENGINE_VECTOR) return "has an opcode that is none of the vector side's";
    if (c.operation < VECTOR_SOFTMAX || c.operation > VECTOR_DEQUANTIZE) return "has an unknown operation";
    if (c.operation >= VECTOR_GATHER && !gathers(c) && !is_constant(c) && !casts(c))
        return "gathers words, copies constants or casts, which this engine cannot do";
    for (const int32_t x : {c.channels, c.pixels, c.heads[0], c.heads[1], c.group_lines})
        if (x < 1) return "has a size that is not positive";
    if (c.low < -128 || c.high > 127 || c.low > c.high) return "has limits that are none of int8";
    constexpr int32_t FLAGS = VECTOR_FLOATS ? VECTOR_WIDE | VECTOR_CAUSAL
                                            : VECTOR_TABLE | VECTOR_SHARED | VECTOR_UNCENTERED;
    if (VECTOR_FLOATS && (!reduces(c) || (c.flags & ~FLAGS) || c.other != NO_OPERAND))
        return "is none of those that engines of floats have: softmax and layer norm of a map";
    if (c.flags & ~FLAGS) return "has flags that are those of floats";
    if ((c.flags & VECTOR_WIDE) && !WIDE) return "reads float32, which is none of this engine's maps";
    if ((is_wide(c) || is_causal(c)) && c.operation != VECTOR_SOFTMAX) return "has flags that are those of a softmax";
    if (is_uncentered(c) && c.operation != VECTOR_NORM) return "has a flag that is that of a norm";
    if ((is_wide(c) || is_causal(c)) && c.plane) return "has a part of the rows of float32 or of a causal softmax";
    const bool has_two = c.operation == VECTOR_MULTIPLY || interleaves(c) || is_shared(c);
    if (has_two && !has_other(c)) return "has no second operand";
    const vector_plan_t p = plan_of(c);
    if (c.plane && c.plane < p.plane) return "has blocks that lie nearer to each other than their pixels take";
    if (interleaves(c)) {
        if (c.flags || c.channels > CHANNELS) return "interleaves more than words of one block";
        for (const int32_t x : {c.turns[0], c.turns[1], c.row, c.taken[0], c.taken[1]})
            if (x < 1) return "has a size that is not positive";
        if ((c.pixels | c.turns[1]) >> (GATHER_BITS + 2)) return "interleaves more words than are counted";
        if (c.turns[0] >= c.row) return "has turns that are longer than its rows";
        if (c.pixels % c.row) return "has rows that are no whole part of the output";
        const int64_t rows = c.pixels / c.row, of_input = input_of_row(c);
        if (rows * of_input != c.taken[0] || rows * (c.row - of_input) != c.taken[1])
            return "takes other words than its maps have";
    }
    if (moves_words(c) && !interleaves(c) && (c.turns[0] || c.turns[1] || c.row)) return "has turns, but one map";
    if (gathers(c)) {
        if (c.flags || c.channels > CHANNELS) return "gathers more than words of one block";
        if (c.runs < 1 || c.taken[0] < 1) return "has a size that is not positive";
        if ((c.runs | c.taken[0] | c.pixels) >> GATHER_BITS) return "gathers from more words than are counted";
        if (has_other(c)) return "has a second operand beside the map that it gathers from";
        if (transposes(c) && c.pixels % CHANNELS) return "transposes tiles of fewer than 16 words";
    }
    if (is_constant(c) && c.pixels >> GATHER_BITS) return "copies more words than are counted";
    if (is_constant(c) && (c.flags || c.channels > CHANNELS || has_other(c)))
        return "copies more than words of one block";
    if (casts(c)) {
        if (c.flags || c.channels > CHANNELS || has_other(c)) return "casts more than words of one map";
        if ((c.pixels | c.taken[0]) >> (GATHER_BITS + 1)) return "casts more words than are counted";
        if (quantizes(c) ? c.taken[0] != WORD_CASTS * c.pixels : c.pixels != WORD_CASTS * c.taken[0])
            return "casts other words than its maps have";
        if ((c.pixels | c.taken[0]) & (BEAT - 1)) return "casts a part of a line";
    }
    const int32_t lines = smaller(c.group_lines, p.plane);
    if (lines * BEAT > VECTOR_ROWS) return "has groups of more rows than the memory of their sums";
    if (int64_t{lines} * p.blocks * BEAT > VECTOR_DEPTH)
        return "has groups that are more than the memories between sweeps";
    if (c.operation == VECTOR_SOFTMAX && c.channels > 1 << 20) return "has rows of too many keys for exact sums";
    const vector_job_t job = {c, p, 0};
    if (c.operation == VECTOR_NORM && p.blocks > VECTOR_BLOCKS)
        return "has more channels than the memory of gamma and beta";
    if (!narrow(job)) return "has sizes beyond what the engine counts";
    if (c.operation != VECTOR_NORM) return nullptr;
    if (!VECTOR_FLOATS && c.channels > 4095) return "has rows whose normalised numbers exceed 7 bits";
    if (has_other(c)) return "has a second operand beside what is normalised";
    if (!(c.epsilon > 0)) return "has an epsilon that is not greater than 0";
    return nullptr;
}

}  // namespace engine
#endif
