// A residual's words, where the epilogue meets them: out of the lines of the residual's planes, one behind the other, to the
// places of an iteration that are pixels. What is carried is the last line of each block, and how far it is used.
#pragma once
#include "out_walk.hpp"
#include "tile_walk.hpp"

namespace engine {

typedef ap_uint<bits_for(BEAT)> word_place;              // of a line
typedef ap_uint<bits_for(BEAT + WORDS + 1)> word_count;  // of words, up to those of a line and an iteration

// Registers of a tile's blocks: element `block`, and another one in its place.
// \tparam T Type of the value.
template <class T>
T of_block(const T (&all)[BLOCKS], int block) {
#pragma HLS inline
    return BLOCKS == 1 || block == 0 ? all[0] : all[BLOCKS - 1];
}
// \tparam T Type of the value.
template <class T>
void set_block(T (&all)[BLOCKS], int block, const T& x) {
#pragma HLS inline
    if (BLOCKS == 1 || block == 0)
        all[0] = x;
    else
        all[BLOCKS - 1] = x;
}

class unpacker {
public:
    // `skip`: words of a block's first line that belong to the band before.
    explicit unpacker(int32_t skip) : skip_(skip), start_(WORDS == 1 ? skip : skip == 0 ? BEAT - 1 : skip - 1) {
#pragma HLS inline
#pragma HLS array_partition variable = held_ complete dim = 0
#pragma HLS array_partition variable = used_ complete dim = 0
#pragma HLS array_partition variable = empty_ complete dim = 0
        for (int k = 0; k < BLOCKS; k++) {
#pragma HLS unroll
            used_[k] = start_;
            empty_[k] = true;
        }
    }
    void next(line_stream in[BLOCKS], const place_t& place, word_t words[WORDS]) {
#pragma HLS inline
        if (WORDS == 1)
            next_word(in, place, words[0]);
        else
            next_words(in, place, words);
    }

private:
    // A line is read with the first word that needs it.
    void next_word(line_stream in[BLOCKS], const place_t& place, word_t& word) {
#pragma HLS inline
        const bool valid = place.valid[0], empty = of_block(empty_, place.block);
        const word_place at = of_block(used_, place.block), behind = BEAT == 1 ? 0 : static_cast<unsigned>(at) + 1;
        const bool last = at == word_place(BEAT - 1);
        set_block(used_, place.block, word_count(place.ends ? skip_ : word_count(valid ? behind : at)));
        set_block(empty_, place.block, place.ends || (valid ? last : empty));
        line_t line = of_block(held_, place.block);
        if (valid && empty) line = read_block(in, place.block);
        set_block(held_, place.block, line);
        word = word_of(line, static_cast<int>(at));
    }
    // The first line is read ahead of the first words, so that an iteration needs one more at most.
    void next_words(line_stream in[BLOCKS], const place_t& place, word_t words[WORDS]) {
#pragma HLS inline
        word_count wanted = 0;
        for (int e = 0; e < WORDS; e++) {
#pragma HLS unroll
            wanted += place.valid[e];
        }
        // The word that was used last: it wraps around where a line is read. A line that begins with the band is not read
        // ahead.
        const word_count last = of_block(used_, place.block), sum = last + wanted;
        const bool more = sum >= word_count(BEAT);
        set_block(used_, place.block, word_count(place.ends ? start_ : word_count(sum & (BEAT - 1))));
        const line_t held = of_block(held_, place.block);
        line_t line = held;
        if ((place.before && skip_ != 0) || more) line = read_block(in, place.block);
        set_block(held_, place.block, line);
        word_count at = last + 1;
        for (int e = 0; e < WORDS; e++) {
#pragma HLS unroll
            const int j = static_cast<int>(at % BEAT);
            const word_t first = word_of(held, j), second = word_of(line, j);
            words[e] = at < word_count(BEAT) ? first : second;
            at += place.valid[e];
        }
    }

    const word_count skip_, start_;
    line_t held_[BLOCKS];
    word_count used_[BLOCKS];
    bool empty_[BLOCKS];
};

}  // namespace engine
