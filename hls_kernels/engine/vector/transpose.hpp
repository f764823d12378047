// Tiles of 16 words whose words become channels, a word a cycle.
#pragma once
#include "plan.hpp"

namespace engine {

// A transposition exchanges the number of a word with that of a channel, bit by bit. This exchanges one bit: of two words
// `STEP` apart, the upper channels of the first and the lower ones of the second.
// \tparam STEP Weight of the bit.
template <int STEP>
class channel_exchange {
public:
    channel_exchange() {
#pragma HLS inline
#pragma HLS array_partition variable = late_ complete
    }
    // The word `STEP` calls later. second: whether the bit of the number of `w` is set.
    word_t next(const word_t& w, bool second) {
#pragma HLS inline
        const word_t late = late_[STEP - 1];
        word_t out, kept;
        for (int l = 0; l < CHANNELS; l++) {
#pragma HLS unroll
            if (l & STEP) {  // upper channels wait before the exchange, lower ones behind it
                const element_t lower = w.lane[l - STEP], upper = late.lane[l];
                out.lane[l - STEP] = late.lane[l - STEP];
                out.lane[l] = second ? lower : upper;
                kept.lane[l - STEP] = second ? upper : lower;
                kept.lane[l] = w.lane[l];
            }
        }
        for (int k = STEP - 1; k > 0; k--) {
#pragma HLS unroll
            late_[k] = late_[k - 1];
        }
        late_[0] = kept;
        return out;
    }

private:
    word_t late_[STEP] = {};
};

constexpr int TILE_LATENCY = CHANNELS - 1;  // words from a tile's first one to the first one of its transpose

class tile_transpose {
public:
    // n: number of the word in its tile.
    word_t next(const word_t& w, ap_uint<bits_for(CHANNELS)> n) {
#pragma HLS inline
        const word_t a = eights_.next(w, n[3]), b = fours_.next(a, n[2]), c = twos_.next(b, n[1]);
        return ones_.next(c, n[0]);
    }

private:
    channel_exchange<8> eights_;
    channel_exchange<4> fours_;
    channel_exchange<2> twos_;
    channel_exchange<1> ones_;
};

}  // namespace engine
