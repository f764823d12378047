// Reads the input, window after window: of each block of channels the rows that a band needs, in one burst each; in a single
// one where these are whole planes.
#pragma once
#include "../vector/move.hpp"

namespace engine {

// Lines of a block that hold rows first..last of the input.
struct input_lines_t {
    int32_t first, count;
};
inline input_lines_t input_lines_of(const job_t& job, const band_t& b) {
#pragma HLS inline
    input_lines_t l;
    const bool none = b.last < b.first;
    l.first = none ? 0 : b.first * job.p.row_elements / LINE_ELEMENTS;
    l.count = none ? 0 : divide_up((b.last + 1) * job.p.row_elements, LINE_ELEMENTS) - l.first;
    return l;
}

// Of the map that was made last, the pixels that a band reads; a batch waits for all of it.
inline int32_t pixels_needed(const job_t& job, const band_t& b) {
#pragma HLS inline
    const bool one_image = job.c.images == 1 && job.p.heads == 1;
    return one_image && b.last < job.c.in_height - 1 ? (b.last + 1) * job.c.in_width : ALL_PIXELS;
}

inline void load_input(jobs_t& jobs, uint32_t count, port_t maps, done_stream& done, line_stream& out,
                       vector_side& vector) {
    progress_t progress;
    int32_t started = 0;  // windows since the list began
input_commands:
    for (uint32_t i = 0; i < count; i++) {
        const job_t job = jobs.read();
        sim::command(i);
        if (job.vector) load_vector_input(vector, maps, done, progress, started);
        if (!job.runs) continue;
        const mac_command& c = job.c;
        uint32_t outer_base = c.input;
        for (int32_t h0 = 0; h0 < c.heads[0]; h0++, outer_base += c.input_head[0]) {
            uint32_t head_base = outer_base;
            for (int32_t h1 = 0; h1 < c.heads[1]; h1++, head_base += c.input_head[1]) {
                uint32_t base = head_base;
                int32_t band = 0, image = 0;
            input_windows:
                for (int32_t w = 0; w < job.p.window_loads; w++) {
                    const band_t b = band_of(job, band);
                    const input_lines_t lines = input_lines_of(job, b);
                    const bool whole = lines.count == job.p.in_plane;
                    const int32_t bursts = whole ? 1 : lines.count ? c.in_blocks : 0;
                    const int32_t length = whole ? lines.count * c.in_blocks : lines.count;
                    CYCLES(input_window);
                    progress.at_least(done, started - WINDOWS_AHEAD);
                    if (c.input_after) progress.until(done, i - c.input_after, pixels_needed(job, b));
                    started++;
                    uint32_t ask = base + lines.first;
                input_bursts:
                    for (int32_t k = 0; k < bursts + AHEAD - 1; k++) {
                        if (k < bursts) maps.read_request(ask, length);
                        ask += job.p.in_plane;
                        if (k < AHEAD - 1) continue;
                        PIPELINED(input_lines) for (int32_t n = 0; n < length; n++) {
#pragma HLS pipeline II = 1
                            ITERATION(input_lines);
                            out.write(maps.read());
                        }
                    }
                    if (++band == job.p.bands) {
                        band = 0;
                        base += c.input_image;
                        if (++image == c.images) {
                            image = 0;
                            base = head_base;
                        }
                    }
                }
            }
        }
    }
}

}  // namespace engine
