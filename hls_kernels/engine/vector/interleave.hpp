// Words of one map, or of two in turn: as fast as they come, past the lanes and memories of the other operations.
#pragma once
#include "cast.hpp"
#include "gather.hpp"
#include "transpose.hpp"

namespace engine {

// A block in lines. Of one map turns and rows are 0 and do not end.
inline void move_block(line_stream& in, short_stream& other, const vector_job_t& job, short_stream& out) {
    typedef number<GATHER_BITS + 2> words_t;
    typedef ap_uint<bits_for(BEAT)> turn_t;  // word of a line
    const bool transposed = transposes(job.c);
    const words_t words = job.p.plane << LINE_SHIFT, pixels = job.c.pixels;
    const words_t row = job.c.row, first = job.c.turns[0], second = job.c.turns[1];
    const words_t all = transposed ? words_t(words + TILE_LATENCY) : words;
    words_t of_turn = first, of_row = row;  // words that are left
    bool from_other = false, comes = !transposed;
    turn_t place = 0, input_place = 0, other_place = 0;
    line_t line = {}, input_line = {}, other_line = {};
    tile_transpose tile;
    PIPELINED(move_words) for (words_t n = 0; n < all; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = BEAT max = (1 << PIXEL_BITS)
        ITERATION(move_words);
        const bool real = n < pixels;  // behind the last one the line is filled
        if (real && !from_other && input_place == 0) input_line = in.read();
        if (real && from_other && other_place == 0) other_line = other.read();
        const word_t x = word_of(input_line, static_cast<int>(input_place));
        const word_t r = word_of(other_line, static_cast<int>(other_place));
        const int in_tile = static_cast<int>(n) & (CHANNELS - 1);
        const word_t of_tile = tile.next(x, in_tile);
        add_word(line, transposed ? of_tile : from_other ? r : x);
        if (in_tile == TILE_LATENCY) comes = true;
        if (comes) {
            if (place == BEAT - 1) out.write(line);
            place = (static_cast<int>(place) + 1) & (BEAT - 1);
        }
        if (from_other)
            other_place = (static_cast<int>(other_place) + 1) & (BEAT - 1);
        else
            input_place = (static_cast<int>(input_place) + 1) & (BEAT - 1);
        const bool row_ends = of_row == words_t(1), turn_ends = of_turn == words_t(1);
        const words_t next = from_other ? first : second, fewer = of_turn - 1, rest = of_row - 1;
        of_row = row_ends ? row : rest;
        of_turn = row_ends ? first : turn_ends ? next : fewer;
        from_other = !row_ends && from_other != turn_ends;
    }
}

// The blocks of a command that moves words.
inline void move_blocks(line_stream& in, short_stream& other, const vector_job_t& job, short_stream& out) {
#pragma HLS inline
#if ENGINE_HAS_CASTS
    if (casts(job.c)) return cast_blocks(in, job, out);
#endif
moved_blocks:
    for (number<SMALL_BITS> head = 0; head < job.p.heads; head++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        CYCLES(vector_group);
        move_block(in, other, job, out);
    }
}

}  // namespace engine
