// A command on its way to the processes of the vector side: a word a field, as in ../jobs.hpp.
#pragma once
#include "../jobs.hpp"
#include "plan.hpp"

namespace engine {

// \tparam F Visitor, called with a field and its width.
// \tparam JOB Job, constant or not.
template <class F, class JOB>
void visit_vector(F& f, JOB& j) {
#pragma HLS inline
    f(j.c.operation, bits<ENGINE_HAS_CASTS ? 4 : 3>());
    f(j.c.flags, bits<VECTOR_FLOATS ? 4 : 5>());
    f(j.c.input, bits<32>());
    f(j.c.other, bits<32>());
    f(j.c.params, bits<32>());
    f(j.c.output, bits<32>());
    f(j.c.input_after, bits<COMMAND_BITS>());
    f(j.c.other_after, bits<COMMAND_BITS>());
    f(j.c.channels, bits<SIZE_BITS + 1>());
    f(j.c.pixels, bits<PIXEL_BITS>());
    for (int d = 0; d < 2; d++) {
#pragma HLS unroll
        f(j.c.heads[d], bits<SMALL_BITS>());
        f(j.c.input_head[d], bits<32>());
        f(j.c.other_head[d], bits<32>());
        f(j.c.output_head[d], bits<32>());
    }
    f(j.p.group_lines, bits<GROUP_LINES_BITS>());
    f(j.c.epsilon, bits<32>());
    f(j.c.row_scale, bits<32>());
    f(j.c.input_scale, with_sign<31>());
    f(j.c.other_factor, with_sign<31>());
    f(j.c.input_zero, with_sign<8>());
    f(j.c.other_zero, with_sign<8>());
    f(j.c.zero, with_sign<9>());
    f(j.c.low, with_sign<8>());
    f(j.c.high, with_sign<8>());
    f(j.p.heads, bits<SMALL_BITS>());
    f(j.p.blocks, bits<BLOCK_BITS + 1>());
    f(j.p.plane, bits<PIXEL_BITS>());
    f(j.p.pitch, bits<PIXEL_BITS>());
    f(j.c.peers, bits<3>());
    f(j.p.group_map_lines, bits<ELEMENT_BITS>());
    f(j.p.params_lines, bits<VECTOR_PARAMS_BITS>());
    for (int d = 0; d < 2; d++) {
#pragma HLS unroll
        f(j.c.turns[d], bits<PIXEL_BITS>());
        f(j.p.taken_lines[d], bits<PIXEL_BITS>());
    }
    f(j.c.row, bits<PIXEL_BITS>());
    f(j.c.runs, bits<GATHER_BITS>());
}

class vector_jobs_t {
public:
    explicit vector_jobs_t(const char* name) : words_(name) {}
    void write(const vector_job_t& job) {
#pragma HLS inline
        job_writer f = {words_};
        f(job.position, with_sign<COMMAND_BITS>());
        if (job.position >= 0) visit_vector(f, job);
    }
    // position -1 ends a process.
    vector_job_t read() {
#pragma HLS inline
        vector_job_t job = {};
        job_reader f = {words_};
        f(job.position, with_sign<COMMAND_BITS>());
        if (job.position >= 0) visit_vector(f, job);
        return job;
    }

private:
    job_words words_;
};

// Whether the processes' registers hold what a command counts.
inline bool narrow(const vector_job_t& job) {
    job_check f = {true};
    visit_vector(f, job);
    return f.fits;
}

}  // namespace engine
