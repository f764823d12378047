// What the processes of the vector side derive from a command: how its maps are cut into groups of rows.
#pragma once
#include "../plan.hpp"
#include "record.hpp"

namespace engine {

constexpr int VECTOR_WORDS = ENGINE_VECTOR_LANES / CHANNELS;  // of 16 channels that pass in a cycle, of as many rows
constexpr int TURNS = BEAT / VECTOR_WORDS;                    // cycles for a line
constexpr int VECTOR_DEPTH = ENGINE_VECTOR_DEPTH;             // words in each of the VECTOR_WORDS banks of a memory
constexpr int VECTOR_BLOCKS = ENGINE_VECTOR_BLOCKS;           // blocks whose gamma and beta are there
constexpr int VECTOR_ROWS = 256;                              // rows of a group, at most
constexpr int VECTOR_SLOTS = VECTOR_ROWS / VECTOR_WORDS;      // a slot holds the sums of VECTOR_WORDS rows
// A row's sums are added to again after at least so many cycles; of smaller groups the rest idle.
constexpr int LEAST_SLOTS = 8;
constexpr int EXPONENT_LINES = 16;
constexpr int EXPONENT_BITS = 24;  // 1 is 1 << EXPONENT_BITS

static_assert(VECTOR_WORDS >= 1 && VECTOR_WORDS <= BEAT && BEAT % VECTOR_WORDS == 0,
              "lanes of the vector side: 16 a word, at most a line");

struct vector_plan_t {
    int32_t heads;
    int32_t blocks;        // of channels
    int32_t plane;         // lines of a block
    int32_t groups;        // of a head
    int32_t params_lines;  // without the table
};

inline vector_plan_t plan_of(const vector_command& c) {
    vector_plan_t p;
    p.heads = c.heads[0] * c.heads[1];
    p.blocks = divide_up(c.channels, CHANNELS);
    p.plane = divide_up(c.pixels, BEAT);
    p.groups = divide_up(p.plane, c.group_lines);
    p.params_lines = c.operation == VECTOR_SOFTMAX ? EXPONENT_LINES : c.operation == VECTOR_NORM ? 2 * p.blocks : 0;
    return p;
}

struct vector_job_t {
    vector_command c;
    vector_plan_t p;
    int32_t position;  // in the list
};

// A group: lines of each block's plane, and slots of rows.
struct rows_t {
    int32_t first;  // line in the plane
    int32_t lines;
    int32_t slots;   // that hold rows
    int32_t walked;  // and those that the loops with sums go through
};
inline rows_t rows_of(const vector_job_t& job, int32_t group) {
#pragma HLS inline
    rows_t r;
    r.first = group * job.c.group_lines;
    r.lines = smaller(job.c.group_lines, job.p.plane - r.first);
    r.slots = r.lines * TURNS;
    r.walked = larger(r.slots, LEAST_SLOTS);
    return r;
}

}  // namespace engine
