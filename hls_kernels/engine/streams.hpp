// What connects the processes: streams and double-buffered memories, with the depths that they have on the card.
#pragma once
#include "elements.hpp"
#include "jobs.hpp"
#include "paged_port.hpp"

namespace engine {

#if ENGINE_CUS > 1
typedef paged_port<line_t> port_t;
typedef paged_port<beat_t> input_port_t;
// What a process is given of its port to maps, and how it uses it: of several banks it keeps in mind what it has asked for.
typedef bank_ports<line_t, BANKS> port_argument_t;
typedef bank_ports<beat_t, BANKS> input_argument_t;
typedef port_t port_use_t;
typedef input_port_t input_use_t;
#else
typedef hls::burst_maxi<line_t> port_t;        // of maps: residual and output
typedef hls::burst_maxi<beat_t> input_port_t;  // and the input
typedef port_t port_argument_t;
typedef input_port_t input_argument_t;
typedef port_t& port_use_t;
typedef input_port_t& input_use_t;
#endif
typedef hls::burst_maxi<beat_t> weight_port_t;
typedef hls::burst_maxi<uint32_t> command_port_t;

constexpr int LINES_DEPTH = 2 * SEGMENT;  // between ports and what packs or unpacks lines
typedef hls::stream<line_t, LINES_DEPTH> line_stream;
// Where lines are not needed far ahead: two blocks of a tile take turns by a segment, one alone does not.
constexpr int SHORT_DEPTH = BLOCKS == 1 ? 16 : LINES_DEPTH;
typedef hls::stream<line_t, SHORT_DEPTH> short_stream;
typedef hls::stream<beat_t, LINES_DEPTH * LINE_BEATS> beat_stream;
typedef hls::stream<acts_t, 4> acts_stream;
// A group has at least as many cycles as it takes to pass on. Of floats those that the array works on in turn end one behind the
// other, and wait here, so that it goes on.
typedef hls::stream<sums_t, INTERLEAVE> sums_stream;
typedef hls::stream<line_t, TABLE_LINES> table_stream;
typedef hls::stream_of_blocks<window_t, 2> window_blocks;
typedef hls::stream_of_blocks<weights_t, 2> weight_blocks;
typedef hls::stream_of_blocks<params_t, 2> params_blocks;

// What store tells the processes that load: all before `position` is in memory, and of this command itself the pixels
// before `pixels` of each plane.
typedef ap_uint<PIXEL_BITS + 1> done_pixels_t;
struct done_t {
    command_index_t position;
    done_pixels_t pixels;
};
constexpr int32_t ALL_PIXELS = 1 << PIXEL_BITS;
// Never full: a process that loads is at most so many windows or commands ahead of store, and reads what store has sent before
// it goes on.
typedef hls::stream<done_t, 2 * WINDOWS_AHEAD + 2> done_stream;

// What a process that loads knows about results in memory. It is a few windows or commands ahead, so its counter may wrap.
typedef ap_uint<8> turns_t;
struct progress_t {
    done_t done;
    turns_t received;  // messages of store

    progress_t() : done{0, 0}, received(0) {}
    // Waits until store has said something of all but `ahead` of `started` things; it then knows of them.
    void at_most_ahead(done_stream& in, turns_t started, int ahead) {
#pragma HLS inline
    await_times:
        while (turns_t(started - received) > turns_t(ahead)) {
#pragma HLS loop_tripcount min = 0 max = ((1 << 8) - 1)
            done = in.read();
            received = received + 1;
        }
    }
    // Waits until the command at `position` has stored `pixels` pixels of each plane, or all that it has.
    void until(done_stream& in, command_index_t position, done_pixels_t pixels) {
#pragma HLS inline
    await_pixels:
        while (done.position < position || (done.position == position && done.pixels < pixels)) {
#pragma HLS loop_tripcount min = 0 max = MOST_LOADS
            done = in.read();
            received = received + 1;
        }
    }
};

}  // namespace engine
