// What connects the processes: streams and double-buffered memories, with the depths that they have on the card.
#pragma once
#include "sim/dataflow.hpp"

#include "elements.hpp"
#include "plan.hpp"

namespace engine {

typedef hls::burst_maxi<line_t> port_t;

// Every process has its own stream of commands, so that one may already be at the next.
typedef hls::stream<job_t, 2> jobs_t;

constexpr int LINES_DEPTH = 2 * SEGMENT;  // between ports and what packs or unpacks lines
typedef hls::stream<line_t, LINES_DEPTH> line_stream;
typedef hls::stream<acts_t, 4> acts_stream;
typedef hls::stream<sums_t, 2> sums_stream;
typedef hls::stream<line_t, TABLE_LINES> table_stream;
typedef hls::stream_of_blocks<window_t, 2> window_blocks;
typedef hls::stream_of_blocks<weights_t, 2> weight_blocks;
typedef hls::stream_of_blocks<params_t, 2> params_blocks;

// What store tells the processes that load: all before `position` is in memory, and of this command itself the pixels
// before `pixels` of each plane.
struct done_t {
    int32_t position;
    int32_t pixels;
};
// Never full: a process that loads is at most so many windows or commands ahead of store, and reads what it was told before
// it goes on.
typedef hls::stream<done_t, 2 * WINDOWS_AHEAD + 2> done_stream;

// What a process that loads knows of what is in memory.
struct progress_t {
    done_t done;
    int32_t told;  // how often store has said something

    progress_t() : done{0, 0}, told(0) {}
    // Waits until store has said so many things; it then knows of them all.
    void at_least(done_stream& in, int32_t times) {
#pragma HLS inline
    await_times:
        while (told < times) {
            done = in.read();
            told++;
        }
    }
    // Waits until the command at `position` has stored `pixels` pixels of each plane, or all that it has.
    void until(done_stream& in, int32_t position, int32_t pixels) {
#pragma HLS inline
    await_pixels:
        while (done.position < position || (done.position == position && done.pixels < pixels)) {
            done = in.read();
            told++;
        }
    }
};

constexpr int32_t ALL_PIXELS = 0x7fffffff;

}  // namespace engine
