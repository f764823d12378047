// What the processes that write to memory have in common.
#pragma once
#include "../streams.hpp"

namespace engine {

constexpr int WRITES_AHEAD = 14;  // bursts whose answer has not come yet; the port allows 16

// Bytes of words from `skip` on, and before `rest` if that is not 0.
inline ap_int<LINE_BYTES> strobe_of(int32_t skip, int32_t rest) {
#pragma HLS inline
    constexpr int WORD_BYTES = CHANNELS * ELEMENT_BYTES;
    ap_int<LINE_BYTES> strobe = 0;
    for (int b = 0; b < LINE_BYTES; b++) {
#pragma HLS unroll
        strobe[b] = b >= skip * WORD_BYTES && (rest == 0 || b < rest * WORD_BYTES);
    }
    return strobe;
}

// Bursts whose answers have not come yet, and what is to be told when they have. Of a window is told when some bursts of the
// next one have gone, so that its answers have had time to come.
constexpr int TOLD_AFTER = 2;
typedef number<bits_for(WRITES_AHEAD + 2)> answers_count_t;
struct answers_t {
    answers_count_t waiting;  // bursts in all
    answers_count_t current;  // of these, of the window that is being stored
    bool told;                // nothing is to be told of the window before
    done_t before;
};

inline void take_answers(port_t& maps, answers_t& answers, answers_count_t left) {
#pragma HLS inline
store_responses:
    for (; answers.waiting > left; answers.waiting--) {
#pragma HLS loop_tripcount min = 0 max = WRITES_AHEAD
        maps.write_response();
    }
    answers.current = answers.current < answers.waiting ? answers.current : answers.waiting;
}

// Of the window before, if anything is to be told of it.
inline void tell(port_t& maps, answers_t& answers, done_stream& to_input) {
#pragma HLS inline
    if (answers.told) return;
    take_answers(maps, answers, answers.current);
    to_input.write(answers.before);
    answers.told = true;
}

}  // namespace engine
