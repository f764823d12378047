// The check of a command of the vector side before it runs on the emulator.
#pragma once
#ifndef __VITIS_HLS__
#include "../bounds.hpp"
#include "check.hpp"

namespace engine {

inline void vector_bounds(const vector_command& c, fpga::bounds& b) {
    if (const char* why = refusal(c)) return b.require(false, why);
    const vector_plan_t p = plan_of(c);
    const auto map = [&](int64_t pitch, int64_t plane, const int32_t head[2]) {
        return fpga::extent(((p.blocks - 1) * pitch + plane) * LINE_FLOATS)
            .dim(c.heads[0], int64_t{head[0]} * LINE_FLOATS)
            .dim(c.heads[1], int64_t{head[1]} * LINE_FLOATS);
    };
    const auto at = [](uint32_t line) { return int64_t{line} * LINE_FLOATS; };
    constexpr int64_t WORD_FLOATS = LINE_FLOATS / BEAT;
    const int64_t lines = is_wide(c) ? BEAT : 1;  // of the input for one of the output
    if (is_constant(c)) {
        b.read(fpga::REGION_WEIGHTS, at(c.params), int64_t{p.heads} * p.plane * LINE_FLOATS);
        return b.write(fpga::REGION_ARENA, at(c.output), map(p.pitch, p.plane, c.output_head));
    }
    if (gathers(c))
        b.read(fpga::REGION_ARENA, int64_t{c.input} * WORD_FLOATS,
               fpga::extent(int64_t{c.taken[0]} * WORD_FLOATS)
                   .dim(c.heads[0], int64_t{c.input_head[0]} * WORD_FLOATS)
                   .dim(c.heads[1], int64_t{c.input_head[1]} * WORD_FLOATS));
    else
        b.read(fpga::REGION_ARENA, at(c.input),
               map(lines * p.pitch, reads_runs(c) ? p.taken_lines[0] : lines * p.plane, c.input_head));
    if (interleaves(c))
        b.read(fpga::REGION_ARENA, at(c.other), map(p.pitch, p.taken_lines[1], c.other_head));
    else if (has_other(c))
        b.read(fpga::REGION_ARENA, at(c.other),
               map(is_shared(c) ? 1 : p.pitch, is_shared(c) ? 1 : p.plane, c.other_head));
    b.read(fpga::REGION_WEIGHTS, at(c.params),
           (int64_t{p.params_lines} + (gathers(c) ? run_lines(c) : 0) + (c.flags & VECTOR_TABLE ? TABLE_LINES : 0)) *
               LINE_FLOATS);
    b.write(fpga::REGION_ARENA, at(c.output), map(p.pitch, p.plane, c.output_head));
}

}  // namespace engine
#endif
