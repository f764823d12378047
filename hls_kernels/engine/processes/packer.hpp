// Words of the epilogue to lines of the output's planes: leaves out what is no pixel. What is carried is a block's line that is
// not full yet, and how many words it has.
#pragma once
#include "unpacker.hpp"

namespace engine {

class packer {
public:
    // `skip`: words of a block's first line that belong to the band before.
    explicit packer(int32_t skip) : skip_(skip) {
#pragma HLS inline
#pragma HLS array_partition variable = held_ complete dim = 0
#pragma HLS array_partition variable = have_ complete dim = 0
        for (int k = 0; k < BLOCKS; k++) {
#pragma HLS unroll
            have_[k] = skip_;
        }
    }
    // True with a line that is to be stored.
    bool next(const place_t& place, const word_t words[WORDS], line_t& line) {
#pragma HLS inline
        return WORDS == 1 ? next_word(place, words[0], line) : next_words(place, words, line);
    }

private:
    bool next_word(const place_t& place, const word_t& word, line_t& line) {
#pragma HLS inline
        const bool valid = place.valid[0];
        const word_place at = of_block(have_, place.block), behind = BEAT == 1 ? 0 : static_cast<unsigned>(at) + 1;
        const bool full = valid && at == word_place(BEAT - 1);
        const word_place have = valid ? behind : at;
        set_block(have_, place.block, word_count(place.ends ? skip_ : word_count(have)));
        line = of_block(held_, place.block);
        for (int j = 0; j < BEAT; j++) {
#pragma HLS unroll
            if (valid && at == word_place(j)) set_word(line, j, word);
        }
        set_block(held_, place.block, line);
        return full || (place.ends && have != 0);
    }
    // The last line of a block that is not full leaves in an iteration of its own.
    bool next_words(const place_t& place, const word_t words[WORDS], line_t& line) {
#pragma HLS inline
        word_count places[WORDS], count = 0;  // of each word behind those that are there
        for (int e = 0; e < WORDS; e++) {
#pragma HLS unroll
            places[e] = count;
            count += place.valid[e];
        }
        const word_count at = of_block(have_, place.block), all = at + count;
        const bool full = all >= word_count(BEAT);
        set_block(have_, place.block, word_count(place.ends ? skip_ : word_count(all & (BEAT - 1))));
        line_t behind = {};  // what is left when the line has gone
        line = of_block(held_, place.block);
        for (int e = 0; e < WORDS; e++) {
#pragma HLS unroll
            const word_count to = at + places[e];
            for (int j = 0; j < BEAT + WORDS - 1; j++) {
#pragma HLS unroll
                if (!place.valid[e] || to != word_count(j)) continue;
                if (j < BEAT)
                    set_word(line, j, words[e]);
                else
                    set_word(behind, j - BEAT, words[e]);
            }
        }
        set_block(held_, place.block, full ? behind : line);
        return full || (place.behind && at != 0);
    }

    const word_count skip_;
    line_t held_[BLOCKS];
    word_count have_[BLOCKS];
};

}  // namespace engine
