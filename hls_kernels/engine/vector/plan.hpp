// What the processes of the vector side derive from a command: how its maps are cut into groups of rows.
#pragma once
#include "../plan.hpp"
#include "record.hpp"

namespace engine {

// Channels that pass in a cycle; a word of 16 takes VECTOR_PARTS cycles.
constexpr int VECTOR_LANES = ENGINE_VECTOR_LANES > 0 ? ENGINE_VECTOR_LANES : CHANNELS;
constexpr int VECTOR_PARTS = CHANNELS / VECTOR_LANES;
constexpr int VECTOR_COPIES = (VECTOR_LANES + 1) / 2;  // of a table: two lanes share one
constexpr int VECTOR_DEPTH = ENGINE_VECTOR_DEPTH;      // words of a memory between sweeps
constexpr int VECTOR_BLOCKS = ENGINE_VECTOR_BLOCKS;    // blocks whose gamma and beta are there
constexpr int VECTOR_ROWS = 256;                       // rows of a group, at most
// A row's sums are added to again after at least so many words; of smaller groups the rest idle.
constexpr int LEAST_ROWS = 8;
constexpr int EXPONENT_LINES = 16;
constexpr int EXPONENT_BITS = 24;  // 1 is 1 << EXPONENT_BITS

static_assert(VECTOR_LANES == 4 || VECTOR_LANES == 8 || VECTOR_LANES == 16, "lanes of the vector side: 0, 4, 8 or 16");

struct vector_plan_t {
    int32_t heads;
    int32_t blocks;        // of channels
    int32_t plane;         // lines of a block
    int32_t pitch;         // and from one to the next
    int32_t params_lines;  // without the table
};

inline vector_plan_t plan_of(const vector_command& c) {
    vector_plan_t p;
    p.heads = c.heads[0] * c.heads[1];
    p.blocks = divide_up(c.channels, CHANNELS);
    p.plane = divide_up(c.pixels, BEAT);
    p.pitch = c.plane > 0 ? c.plane : p.plane;
    p.params_lines = c.operation == VECTOR_SOFTMAX ? EXPONENT_LINES : c.operation == VECTOR_NORM ? 2 * p.blocks : 0;
    return p;
}

struct vector_job_t {
    vector_command c;
    vector_plan_t p;
    int32_t position;  // in the list
};

// A group: lines of each block's plane, and rows.
struct rows_t {
    int32_t first;  // line in the plane
    int32_t lines;
    int32_t rows;    // in these lines
    int32_t walked;  // and those that the loops with sums go through
};
inline rows_t rows_of(const vector_job_t& job, int32_t first) {
#pragma HLS inline
    rows_t r;
    r.first = first;
    r.lines = smaller(job.c.group_lines, job.p.plane - first);
    r.rows = r.lines * BEAT;
    r.walked = larger(r.rows, LEAST_ROWS);
    return r;
}

}  // namespace engine
