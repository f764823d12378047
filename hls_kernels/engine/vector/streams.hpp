// What connects the processes of the vector side.
#pragma once
#include "../processes/ports.hpp"
#include "arithmetic.hpp"

namespace engine {

#if ENGINE_HAS_VECTOR

typedef hls::stream<vector_job_t, 2> vector_jobs_t;

// Of the rows of a slot.
struct slot_sums_t {
    row_sums_t row[VECTOR_WORDS];
};
struct slot_scales_t {
    row_scale_t row[VECTOR_WORDS];
};
// They hold a group's rows, so that a sweep never waits in its last block for one that has yet to begin.
typedef hls::stream<slot_sums_t, VECTOR_SLOTS> slot_sums_stream;
typedef hls::stream<slot_scales_t, VECTOR_SLOTS> slot_scales_stream;

// The memory between two sweeps: the words of a group's rows, block after block, each row of a slot in a bank of its own.
struct row_group_t {
    word_t x[VECTOR_WORDS][VECTOR_DEPTH];
    word_t other[VECTOR_WORDS][VECTOR_DEPTH];
};
typedef hls::stream_of_blocks<row_group_t, 2> row_group_blocks;

// Everything between the processes that load, those of the vector side, and store.
struct vector_side {
    vector_jobs_t input_jobs{"vector jobs of load_input"}, other_jobs{"vector jobs of load_residual"};
    vector_jobs_t params_jobs{"vector jobs of load_weights"}, store_jobs{"vector jobs of store"};
    vector_jobs_t collect_jobs{"jobs of collect"}, weigh_jobs{"jobs of weigh"}, scale_jobs{"jobs of scale_rows"};
    vector_jobs_t apply_jobs{"jobs of apply"};
    line_stream input{"vector_input"}, other{"vector_other"}, params{"vector_params"}, output{"vector_output"};
    line_stream apply_params{"apply_params"};
    slot_sums_stream collected{"collected"}, weighed{"weighed"};
    slot_scales_stream scales{"scales"};
    row_group_blocks first{"first group"}, second{"second group"};
};

// Ends the processes that only the vector side has; the others know how many commands there are.
inline void write_end(vector_side& to) {
#pragma HLS inline
    vector_job_t end = {};
    end.position = -1;
    to.collect_jobs.write(end);
    to.weigh_jobs.write(end);
    to.scale_jobs.write(end);
    to.apply_jobs.write(end);
}

inline void write_jobs(const vector_command& c, int32_t position, vector_side& to) {
#pragma HLS inline
    const vector_job_t job = {c, plan_of(c), position};
    to.input_jobs.write(job);
    to.other_jobs.write(job);
    to.params_jobs.write(job);
    to.collect_jobs.write(job);
    to.weigh_jobs.write(job);
    to.scale_jobs.write(job);
    to.apply_jobs.write(job);
    to.store_jobs.write(job);
}

// Pixels of each plane that are complete when a group is; of several maps none before all are.
inline int32_t pixels_until(const vector_job_t& job, int32_t group) {
#pragma HLS inline
    return job.p.heads > 1 ? 0 : (group + 1) * job.c.group_lines * BEAT;
}
// And those that the group reads.
inline int32_t pixels_read(const vector_job_t& job, int32_t group) {
#pragma HLS inline
    return job.p.heads > 1 || group + 1 == job.p.groups ? ALL_PIXELS : pixels_until(job, group);
}

// Where a loop is in a group: slot after slot of a block, block after block.
struct group_walk {
    int32_t slot, block, address;

    group_walk() : slot(0), block(0), address(0) {}
    int turn() const { return static_cast<int>(slot % TURNS); }
    int32_t channels(const vector_command& c) const { return c.channels - block * CHANNELS; }
    void advance(const rows_t& rows, int32_t walked) {
#pragma HLS inline
        if (slot < rows.slots) address++;
        if (++slot < walked) return;
        slot = 0;
        block++;
    }
};

#else
struct vector_side {};
inline void write_end(vector_side&) {}
#endif

}  // namespace engine
