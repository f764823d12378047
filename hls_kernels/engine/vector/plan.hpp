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
constexpr int RUN_BYTES = 16;      // of gather's table
constexpr int LINE_RUNS = LINE_BYTES / RUN_BYTES, BEAT_RUNS = PORT_BYTES / RUN_BYTES;
constexpr int GATHER_BITS = 20;                    // runs of a block, and words of one of its sources
constexpr int CAST_LANES = 4;                      // of a word of 16 bytes as much as it has float32
constexpr int WORD_CASTS = CHANNELS / CAST_LANES;  // cycles that a word of int8 takes
constexpr int GATHER_SHIFT = 30;                   // of the source in a run's first number

// The largest trip counts, as in ../widths.hpp.
constexpr int MOST_PLANE_LINES = (1 << PIXEL_BITS) / BEAT;  // lines of a block's plane, and groups of one line
constexpr int MOST_VECTOR_BLOCKS = VECTOR_DEPTH / BEAT;     // blocks of channels of a group of one line
constexpr int MOST_PARAMS_LINES = (2 * VECTOR_BLOCKS > EXPONENT_LINES ? 2 * VECTOR_BLOCKS : EXPONENT_LINES) +
                                  (ELEMENT == ELEMENT_INT8 ? TABLE_LINES : 0);

constexpr int GROUP_LINES_BITS = bits_for(VECTOR_ROWS / BEAT + 1);
constexpr int VECTOR_PARAMS_BITS = bits_for(2 * VECTOR_BLOCKS + EXPONENT_LINES + 1);

static_assert(VECTOR_LANES == 2 || VECTOR_LANES == 4 || VECTOR_LANES == 8 || VECTOR_LANES == 16,
              "lanes of the vector side: 0, 2, 4, 8 or 16");
// A sum of floats returns to its adder after LEAST_ROWS * VECTOR_PARTS cycles, of which pragmas of dependence state 16.
static_assert(ELEMENT == ELEMENT_INT8 || ENGINE_VECTOR_LANES <= 8, "lanes of a vector side of floats: 0, 2, 4 or 8");

struct vector_plan_t {
    int32_t heads;
    int32_t blocks;           // of channels
    int32_t plane;            // lines of a block
    int32_t pitch;            // and from one to the next
    int32_t group_lines;      // of the command, no more than a plane has
    int32_t group_map_lines;  // of all blocks of a group
    int32_t params_lines;     // without the table
    int32_t taken_lines[2];   // of interleave and casts: lines of a block of the input and of other
};

inline vector_plan_t plan_of(const vector_command& c) {
    vector_plan_t p;
    p.heads = ap_uint<SMALL_BITS>(c.heads[0]) * ap_uint<SMALL_BITS>(c.heads[1]);
    p.blocks = (c.channels + (CHANNELS - 1)) >> 4;
    p.plane = (c.pixels + (BEAT - 1)) >> LINE_SHIFT;
    p.pitch = c.plane > 0 ? c.plane : p.plane;
    p.group_lines = smaller(c.group_lines, p.plane);
    p.group_map_lines =
        static_cast<int32_t>(ap_uint<GROUP_LINES_BITS>(p.group_lines) * ap_uint<bits_for(VECTOR_DEPTH + 1)>(p.blocks));
    p.params_lines = c.operation == VECTOR_SOFTMAX ? EXPONENT_LINES : c.operation == VECTOR_NORM ? 2 * p.blocks : 0;
    for (int d = 0; d < 2; d++) {
#pragma HLS unroll
        p.taken_lines[d] = (c.taken[d] + (BEAT - 1)) >> LINE_SHIFT;
    }
    return p;
}

#ifndef __VITIS_HLS__
// The source of an interleaved word, and the number of words of the input in a row.
struct taken_word {
    bool other;
    int64_t word;
};
inline int64_t input_of_row(const vector_command& c) {
    const int32_t both = c.turns[0] + c.turns[1];
    return int64_t{c.row / both} * c.turns[0] + smaller(c.row % both, c.turns[0]);
}
inline taken_word place_of(const vector_command& c, int32_t word) {
    const int32_t both = c.turns[0] + c.turns[1], row = word / c.row, at = word % c.row, turn = at % both;
    const int64_t of_input = input_of_row(c);
    if (turn < c.turns[0]) return {false, row * of_input + int64_t{at / both} * c.turns[0] + turn};
    return {true, row * (c.row - of_input) + int64_t{at / both} * c.turns[1] + turn - c.turns[0]};
}
#endif

// Lines of gather's table, and beats.
inline int32_t run_lines(const vector_command& c) { return (c.runs + (LINE_RUNS - 1)) / LINE_RUNS; }
inline int32_t run_beats(const vector_command& c) { return (c.runs + (BEAT_RUNS - 1)) / BEAT_RUNS; }
// A run of it, as it lies in a line or beat.
struct run_t {
    uint32_t source;
    number<GATHER_BITS> first;  // word
    number<GATHER_BITS> words;
    uint32_t filling;  // of four channels
};
// \tparam LINE Line or beat of bytes.
template <class LINE>
run_t run_of(const LINE& line, int i) {
#pragma HLS inline
    const uint32_t begin = bits32_of(line, 4 * i), words = bits32_of(line, 4 * i + 1);
    run_t r;
    r.source = begin >> GATHER_SHIFT;
    r.first = static_cast<int32_t>(begin & ((1u << GATHER_SHIFT) - 1));
    r.words = static_cast<int32_t>(words);
    r.filling = bits32_of(line, 4 * i + 2);
    return r;
}

struct vector_job_t {
    vector_command c;
    vector_plan_t p;
    int32_t position;  // in the list
};

// A group: lines of each block's plane, and rows.
typedef number<PIXEL_BITS> plane_line_t;
typedef number<GROUP_LINES_BITS> group_lines_t;
typedef number<bits_for(VECTOR_ROWS + 1)> group_rows_t;
struct rows_t {
    plane_line_t first;  // line in the plane
    group_lines_t lines;
    group_rows_t rows;    // in these lines
    group_rows_t walked;  // and those that the loops with sums go through
};
inline rows_t rows_of(const vector_job_t& job, const plane_line_t& first, const plane_line_t& plane) {
#pragma HLS inline
    const plane_line_t left = plane - first;
    const group_lines_t most = job.p.group_lines, rest = left;
    rows_t r;
    r.first = first;
    r.lines = left < plane_line_t(most) ? rest : most;
    r.rows = group_rows_t(r.lines) << LINE_SHIFT;  // a shift keeps its operand's width
    r.walked = r.rows < LEAST_ROWS ? group_rows_t(LEAST_ROWS) : r.rows;
    return r;
}

inline rows_t rows_of(const vector_job_t& job, const plane_line_t& first) {
#pragma HLS inline
    return rows_of(job, first, plane_line_t(job.p.plane));
}

}  // namespace engine
