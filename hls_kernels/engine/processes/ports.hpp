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

// Bursts that memory has not acknowledged yet, and what store reports to load_input when memory has. A window is reported
// when some bursts of the next one have gone, so that its acknowledgements have had time to come.
constexpr int REPORT_AFTER = 2;
typedef number<bits_for(WRITES_AHEAD + 2)> write_count_t;
struct pending_writes_t {
    write_count_t waiting;  // bursts in all
    write_count_t current;  // of these, of the window that is being stored
    bool reported;          // the window before, or no window was before
    done_t before;
};

inline void await_responses(port_t& maps, pending_writes_t& pending, write_count_t left) {
#pragma HLS inline
store_responses:
    for (; pending.waiting > left; pending.waiting--) {
#pragma HLS loop_tripcount min = 0 max = WRITES_AHEAD
        maps.write_response();
    }
    pending.current = pending.current < pending.waiting ? pending.current : pending.waiting;
}

// Reports the window before, unless that is done.
inline void report_stored(port_t& maps, pending_writes_t& pending, done_stream& to_input) {
#pragma HLS inline
    if (pending.reported) return;
    await_responses(maps, pending, pending.current);
    to_input.write(pending.before);
    pending.reported = true;
}

}  // namespace engine
