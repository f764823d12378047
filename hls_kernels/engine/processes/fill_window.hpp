// Writes the lines of the input to the banks of the window (plan.hpp says where what lies).
//
// Words of a line that belong to one row go to as many banks in a cycle; a folded input is cut into words of several
// neighbouring pixels, one a cycle.
#pragma once
#include "load_input.hpp"

namespace engine {

// Up to FILL words of a row at once: without a stride to consecutive positions, with a stride of 2 in turn to two phase planes,
// which lie two banks apart (plan.hpp). Other strides, and arrays of fewer banks, take a word a cycle.
inline void fill_words(line_stream& in, window_t& window, const job_t& job, const band_t& b) {
    const mac_command& c = job.c;
    const plan_t& p = job.p;
    // Where rows follow each other in the window as in memory, they are one.
    const bool straight = c.stride[0] == 1 && c.stride[1] == 1 && p.pitch == c.in_width;
    const int32_t rows = straight ? 1 : b.last - b.first + 1;
    const int32_t width = straight ? (b.last - b.first + 1) * c.in_width : c.in_width;
    const int32_t stride = c.stride[1];
    const int32_t at_once = stride == 1 || (stride == 2 && FILL == 4) ? FILL : 1;
    const int32_t skip = b.first * c.in_width % BEAT;
    const int32_t phase_begin = b.top < 0 ? p.pad_rest : 0;
    const int32_t row_begin = (straight ? b.first - b.top : b.top < 0 ? p.pad_quotient - b.y0 : 0) * p.pitch;
    int32_t block = 0, block_position = 0, j = skip, x = 0, y = 0, phase_x = 0, column = 0;
    int32_t phase_y = phase_begin, row_position = row_begin;
    line_t line;
    bool fresh = true;
    PIPELINED(fill_words) while (block < c.in_blocks) {
#pragma HLS pipeline II = 1
        ITERATION(fill_words);
        if (fresh) line = in.read();
        const int32_t n = smaller(smaller(at_once, BEAT - j), width - x);
        const bool row_kept = p.planes[0] > 1 || phase_y == 0;
        const int32_t row_plane = p.planes[0] > 1 ? phase_y * p.planes[1] : 0;
        int32_t row[FILL], bank[FILL];
        for (int i = 0; i < FILL; i++) {
#pragma HLS unroll
            const int32_t phase = stride == 2 ? (phase_x + i) % 2 : phase_x;
            const int32_t further = stride == 2 ? (phase_x + i) / 2 : i;
            const bool kept = i < n && row_kept && (p.planes[1] > 1 || phase == p.tap_phase);
            const int32_t plane = row_plane + (p.planes[1] > 1 ? phase : 0);
            const int32_t position = block_position + plane * p.plane + row_position + column + further;
            row[i] = position / P;
            bank[i] = kept ? position % P : P;
        }
        for (int k = 0; k < P; k++) {  // bank by bank: each has one port to write to
#pragma HLS unroll
            for (int i = 0; i < FILL; i++)
                if (bank[i] == k) window.bank[k][row[i] & (WINDOW_ROWS - 1)] = word_of(line, (j + i) % BEAT);
        }
        j = j + n == BEAT ? 0 : j + n;
        fresh = j == 0;
        x += n;
        phase_x += stride == 1 ? 0 : n;
        column += stride == 1 ? n : stride == 2 ? phase_x / 2 : phase_x == stride;
        phase_x = stride == 2 ? phase_x % 2 : phase_x == stride ? 0 : phase_x;
        if (x < width) continue;
        x = phase_x = column = 0;
        if (++phase_y == c.stride[0]) {
            phase_y = 0;
            row_position += p.pitch;
        }
        if (++y < rows) continue;
        y = 0;
        phase_y = phase_begin;
        row_position = row_begin;
        block++;
        block_position += p.block_rows * P;
        j = skip;
        fresh = true;
    }
}

// Words of a folded input: at each place where a tap may begin as many neighbouring pixels as a word has. Two lines are kept,
// out of which a word is cut; a line may have to be skipped where a row has columns that no tap reaches.
inline void fill_folded(line_stream& in, window_t& window, const job_t& job, const band_t& b, int32_t lines) {
    const mac_command& c = job.c;
    const plan_t& p = job.p;
    const int32_t step = c.stride[1] * c.pixel_channels, before = c.padding[1] * c.pixel_channels;
    const int32_t skip = b.first * p.row_elements % LINE_ELEMENTS;
    line_t held[2];
#pragma HLS array_partition variable = held complete
    int32_t have = 0;              // lines that have been read
    int32_t row_begin = skip;      // the row's first element, counted from the first line's
    int32_t from = skip - before;  // the word's
    int32_t phase_y = b.top < 0 ? p.pad_rest : 0, row = b.top < 0 ? p.pad_quotient - b.y0 : 0;
    int32_t column = 0, y = b.first;
    PIPELINED(fill_folded) while (y <= b.last) {
#pragma HLS pipeline II = 1
        ITERATION(fill_folded);
        const int32_t row_end = row_begin + p.row_elements;
        const int32_t last = smaller(from + CHANNELS, row_end) - 1;  // last element that is needed
        if (last >= have * LINE_ELEMENTS) {
            held[0] = held[1];
            held[1] = in.read();
            have++;
        }
        if (last >= have * LINE_ELEMENTS) continue;  // not yet
        word_t word;
        for (int i = 0; i < CHANNELS; i++) {
#pragma HLS unroll
            const int32_t at = from + i;
            const int32_t in_held = at - (have - 2) * LINE_ELEMENTS;
            const bool inside = at >= row_begin && at < row_end;
            const line_t& line = in_held < LINE_ELEMENTS ? held[0] : held[1];
            word.lane[i] = inside ? element_of(line, in_held & (LINE_ELEMENTS - 1)) : pad_of(c);
        }
        const bool phase_kept = p.planes[0] > 1 || phase_y == 0;
        const int32_t position = (p.planes[0] > 1 ? phase_y * p.plane : 0) + row * p.pitch + column;
        const int32_t bank_row = position / P, bank = position % P;
        for (int k = 0; k < P; k++) {
#pragma HLS unroll
            if (k == bank && phase_kept) window.bank[k][bank_row & (WINDOW_ROWS - 1)] = word;
        }
        from += step;
        if (++column == p.pitch) {
            column = 0;
            row_begin = row_end;
            from = row_end - before;
            y++;
            if (++phase_y == c.stride[0]) {
                phase_y = 0;
                row++;
            }
        }
    }
    PIPELINED(fill_rest) while (have < lines) {
#pragma HLS pipeline II = 1
        ITERATION(fill_rest);
        in.read();
        have++;
    }
}

inline void fill_window(jobs_t& jobs, uint32_t count, line_stream& in, window_blocks& windows) {
fill_commands:
    for (uint32_t i = 0; i < count; i++) {
        const job_t job = jobs.read();
        if (!job.runs) continue;
        sim::command(i);
        const bool fold = folded(job.c);
        for (int32_t head = 0; head < job.p.heads; head++) {
            int32_t band = 0;
        fill_windows:
            for (int32_t w = 0; w < job.p.window_loads; w++) {
                const band_t b = band_of(job, band);
                const int32_t lines = input_lines_of(job, b).count;
                CYCLES(fill_window);
                hls::write_lock<window_t> lock(windows);
                window_t& window = lock;
                if (lines > 0) {
                    if (fold)
                        fill_folded(in, window, job, b, lines);
                    else
                        fill_words(in, window, job, b);
                }
                if (++band == job.p.bands) band = 0;
            }
        }
    }
}

}  // namespace engine
