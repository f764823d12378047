// The check of a command before it runs on the emulator: the engine supports it, and all operands lie in their regions.
#pragma once
#ifndef __VITIS_HLS__
#include "lib/bounds.hpp"

#include "check.hpp"
#include "layout.hpp"

namespace engine {

constexpr int LINE_FLOATS = LINE_BYTES / 4;  // fpga::bounds counts floats

// So many lines one behind the other, in all heads and images.
inline fpga::extent lines_extent(const mac_command& c, int64_t lines, const int32_t head[2], int32_t image) {
    return fpga::extent(lines * LINE_FLOATS)
        .dim(c.heads[0], int64_t{head[0]} * LINE_FLOATS)
        .dim(c.heads[1], int64_t{head[1]} * LINE_FLOATS)
        .dim(c.images, int64_t{image} * LINE_FLOATS);
}

inline void mac_bounds(const mac_command& c, fpga::bounds& b) {
    if (const char* why = refusal(c)) return b.require(false, why);
    const plan_t p = plan_of(c);
    const int64_t pixels = int64_t{c.out_height} * c.out_width, sums = c.out_blocks * pixels;
    const auto at = [](uint32_t line) { return int64_t{line} * LINE_FLOATS; };
    const int32_t once[2] = {0, 0};
    b.read(fpga::REGION_ARENA, at(c.input),
           lines_extent(c, int64_t{c.in_blocks} * p.in_plane, c.input_head, c.input_image));
    b.read(fpga::REGION_WEIGHTS, at(c.params),
           (int64_t{c.out_blocks} * 3 + (has_table(c) && !FUNCTIONS ? TABLE_LINES : 0)) * LINE_FLOATS);
    if (has_table(c) && FUNCTIONS) b.read(fpga::REGION_WEIGHTS, at(c.table), TABLE_LINES * LINE_FLOATS);
    if (second_operand_is_map(c)) {
        constexpr int64_t BLOCK = CHANNELS * CHANNELS / LINE_ELEMENTS;  // lines of 16 x 16 elements
        const bool transposed = c.weight_kind == WEIGHT_TRANSPOSED;
        const int64_t run = (transposed ? c.tile_depth : c.out_blocks) * BLOCK;
        b.read(fpga::REGION_ARENA, at(c.weight),
               lines_extent(c, run, c.weight_head, 0)
                   .dim(transposed ? c.out_blocks : c.tile_depth, int64_t{c.weight_plane} * LINE_FLOATS));
    } else {
        b.read(fpga::REGION_WEIGHTS, at(c.weight), lines_extent(c, packed_lines(c, p), once, 0));
    }
    const int64_t own = (pixels + BEAT - 1) / BEAT, map = (int64_t{c.out_blocks} - 1) * p.out_plane + own;
    if (has_residual(c))
        b.read(fpga::REGION_ARENA, at(c.residual), lines_extent(c, map, c.residual_head, c.residual_image));
    if (has_sums(c)) b.read(fpga::REGION_ARENA, at(c.sums), int64_t{p.heads} * c.images * sums * LINE_FLOATS);
    b.write(fpga::REGION_ARENA, at(c.output),
            lines_extent(c, stores_32_bits(c) ? sums : map, c.output_head, c.output_image));
}

}  // namespace engine
#endif
