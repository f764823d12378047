// What connects the processes of the vector side.
#pragma once
#include "../peers.hpp"
#include "../processes/ports.hpp"
#include "jobs.hpp"
#if ENGINE_ELEMENT == 0
#include "arithmetic.hpp"
#else
#include "floats/arithmetic.hpp"
#endif

namespace engine {

#if ENGINE_HAS_VECTOR

// Streams of rows hold those of a group, so that a sweep never waits in its last block for one that has yet to begin.
#if ENGINE_ELEMENT == 0
typedef hls::stream<row_sums_t, VECTOR_ROWS> row_sums_stream;
typedef hls::stream<row_scale_t, VECTOR_ROWS> row_scales_stream;

// The memory between two sweeps: the words of a group's rows, block after block.
struct row_group_t {
    word_t x[VECTOR_DEPTH];
    word_t other[VECTOR_DEPTH];
};
typedef hls::stream_of_blocks<row_group_t, 2> row_group_blocks;
#else
typedef hls::stream<row_part_t, 16> row_parts_stream;
typedef hls::stream<float, VECTOR_ROWS> row_numbers_stream;

// The memories between sweeps: elements as they came, of bfloat16 or float32, and what becomes of them in float32.
struct float_word_t {
    float lane[CHANNELS];
};
struct float_group_t {
    float_word_t x[VECTOR_DEPTH];
};
typedef hls::stream_of_blocks<float_group_t, 2> float_group_blocks;
#endif

typedef hls::stream<beat_t, 16> run_stream;

// Everything between the processes that load, those of the vector side, and store.
struct vector_side {
    vector_jobs_t input_jobs{"vector jobs of load_input"}, other_jobs{"vector jobs of load_residual"};
    vector_jobs_t params_jobs{"vector jobs of load_weights"}, store_jobs{"vector jobs of store"};
    vector_jobs_t collect_jobs{"jobs of collect"}, weigh_jobs{"jobs of weigh"}, scale_jobs{"jobs of scale_rows"};
    vector_jobs_t apply_jobs{"jobs of apply"};
    line_stream input{"vector_input"}, output{"vector_output"};
    short_stream other{"vector_other"}, params{"vector_params"}, weigh_params{"vector_weigh_params"};
#if ENGINE_ELEMENT == 0
    short_stream moved{"vector_moved"};
    run_stream runs{"vector_runs"};
    row_sums_stream collected{"collected"}, weighed{"weighed"};
    row_scales_stream scales{"scales"};
    row_group_blocks first{"first group"}, second{"second group"};
#else
    vector_jobs_t center_jobs{"jobs of center_rows"};
    row_parts_stream collected{"collected"}, weighed{"weighed"};
    row_numbers_stream centers{"centers"}, scales{"scales"};
    float_group_blocks first{"first group"}, second{"second group"};
#endif
};

// Ends the processes that only the vector side has; the others know how many commands there are.
inline void write_end(vector_side& to) {
#pragma HLS inline
    vector_job_t end = {};
    end.position = -1;
    to.collect_jobs.write(end);
#if ENGINE_ELEMENT != 0
    to.center_jobs.write(end);
#endif
    to.weigh_jobs.write(end);
    to.scale_jobs.write(end);
    to.apply_jobs.write(end);
}

inline void write_jobs(const vector_command& c, int32_t position, vector_side& to) {
#pragma HLS inline
    const vector_job_t job = {c, plan_of(c), position};
    to.params_jobs.write(job);  // tables take the longest
    to.input_jobs.write(job);
    to.other_jobs.write(job);
    to.collect_jobs.write(job);
#if ENGINE_ELEMENT != 0
    to.center_jobs.write(job);
#endif
    to.weigh_jobs.write(job);
    to.scale_jobs.write(job);
    to.apply_jobs.write(job);
    to.store_jobs.write(job);
}

// Pixels of each plane that are complete when a group is; of several maps none before all are.
inline done_pixels_t pixels_until(const vector_job_t& job, const rows_t& rows) {
#pragma HLS inline
    const plane_line_t behind = rows.first + plane_line_t(job.p.group_lines);
    return job.p.heads > 1 ? done_pixels_t(0) : done_pixels_t(behind) << LINE_SHIFT;
}
// And those that the group reads.
inline done_pixels_t pixels_read(const vector_job_t& job, const rows_t& rows) {
#pragma HLS inline
    const bool all = job.p.heads > 1 || rows.first + rows.lines == job.p.plane;
    return all ? done_pixels_t(ALL_PIXELS) : pixels_until(job, rows);
}

// Where a loop is in a group: part after part of a word, row after row of a block, block after block.
struct group_walk {
    group_walk(const vector_job_t& job, const rows_t& rows)
        : rows_(rows.rows), walked_(rows.walked), last_block_(job.p.blocks - 1) {
#pragma HLS inline
        last_row_ = walked_ == number<ROW_COUNT_BITS>(1);
    }
    // Whether this is the group's last word.
    bool last() const { return word_ends() && last_row_ && block_ == last_block_; }
    int part() const { return VECTOR_PARTS == 1 ? 0 : static_cast<int>(part_); }
    int row() const { return static_cast<int>(row_); }
    int block() const { return static_cast<int>(block_); }
    int address() const { return static_cast<int>(address_); }
    int turn() const { return static_cast<int>(row_) % BEAT; }
    bool real() const { return row_ < rows_; }
    bool word_begins() const { return VECTOR_PARTS == 1 || part_ == part_t(0); }
    bool word_ends() const { return VECTOR_PARTS == 1 || part_ == part_t(VECTOR_PARTS - 1); }
    void advance() {
#pragma HLS inline
        const bool ends = word_ends(), counts = ends & real(), next_block = ends & last_row_;
        const bool last = row_ == number<ROW_COUNT_BITS>(walked_ - 2);
        part_ = part_ + 1;
        address_ += counts;
        block_ += next_block;
        const number<ROW_COUNT_BITS> row = row_, next = row_ + 1;
        row_ = next_block ? number<ROW_COUNT_BITS>(0) : ends ? next : row;
        if (ends) last_row_ = next_block ? walked_ == number<ROW_COUNT_BITS>(1) : last;
    }

private:
    static constexpr int ROW_COUNT_BITS = bits_for(VECTOR_ROWS + 1);
    typedef ap_uint<bits_for(VECTOR_PARTS)> part_t;
    number<ROW_COUNT_BITS> rows_, walked_, row_ = 0;
    number<BLOCK_BITS> last_block_, block_ = 0;
    number<bits_for(VECTOR_DEPTH + 1)> address_ = 0;
    part_t part_ = 0;
    bool last_row_;
};
// Channels of a block that exist.
inline ap_uint<5> channels_of(const vector_job_t& job, int block) {
#pragma HLS inline
    const number<SIZE_BITS> left = job.c.channels - block * CHANNELS;
    return left > number<SIZE_BITS>(CHANNELS) ? ap_uint<5>(CHANNELS) : ap_uint<5>(left);
}
// And those that are not behind the row's own place.
inline ap_uint<5> channels_until(const rows_t& rows, int block, int row) {
#pragma HLS inline
    typedef number<PIXEL_BITS + 1> place_t;
    const place_t until = (place_t(rows.first) << LINE_SHIFT) + row + 1 - block * CHANNELS;
    return until < place_t(0) ? ap_uint<5>(0) : until > place_t(CHANNELS) ? ap_uint<5>(CHANNELS) : ap_uint<5>(until);
}
// Channel l of a part of a word.
// \tparam WORD Word of 16 channels, with a member lane.
template <class WORD>
auto lane_of(const WORD& word, int part, int l) {
#pragma HLS inline
    auto x = word.lane[l];
    for (int q = 1; q < VECTOR_PARTS; q++) {
#pragma HLS unroll
        if (q == part) x = word.lane[q * VECTOR_LANES + l];
    }
    return x;
}
// \tparam WORD Word of 16 channels, with a member lane.
// \tparam X Type of a channel.
template <class WORD, class X>
void set_lane(WORD& word, int part, int l, X x) {
#pragma HLS inline
    for (int q = 0; q < VECTOR_PARTS; q++) {
#pragma HLS unroll
        if (q == part) word.lane[q * VECTOR_LANES + l] = x;
    }
}

// The exponentials of softmax, an entry a cycle to each copy.
struct exponentials_t {
    uint32_t e[VECTOR_COPIES][256];
};
inline void load_exponentials(short_stream& in, exponentials_t& to) {
#pragma HLS inline
    line_t line;
    PIPELINED(exponential_entries) for (int n = 0; n < 256; n++) {
#pragma HLS pipeline II = 1
        ITERATION(exponential_entries);
        if (n % CHANNELS == 0) line = in.read();
        const uint32_t entry = bits32_of(line, n % CHANNELS);
        for (int k = 0; k < VECTOR_COPIES; k++) {
#pragma HLS unroll
            to.e[k][n] = entry;
        }
    }
}

#else
struct vector_side {};
inline void write_end(vector_side&) {}
#endif

}  // namespace engine
