// What an engine of these sizes can run: the end of a sentence that says why not ("has ..."), or nullptr.
#pragma once
#ifndef __VITIS_HLS__
#include "jobs.hpp"

namespace engine {

// Products of sizes stay far from 2^31, so that plans need no wider integers.
inline bool too_large(const mac_command& c) {
    const int64_t most = 1 << 12, area = 1 << 26;
    for (int d = 0; d < 2; d++)
        if (c.kernel[d] > most || c.stride[d] > most || c.dilation[d] > most || c.padding[d] > most) return true;
    const int64_t height = int64_t{c.out_height} * c.stride[0] + int64_t{c.kernel[0]} * c.dilation[0];
    const int64_t width = int64_t{c.in_width} + c.out_width + int64_t{c.kernel[1]};
    return int64_t{c.in_height} > area || height > area || width > area || height * width > area ||
           int64_t{c.in_height} * width > area || -int64_t{c.padding[0]} * width > area ||
           int64_t{c.in_blocks} * c.in_height * width > area * 8 ||
           int64_t{c.out_blocks} * c.out_height * c.out_width > area * 8 || c.out_blocks > area || c.in_blocks > area ||
           c.group_in > area || c.group_out > area || c.band_rows > area || int64_t{c.heads[0]} * c.heads[1] > most ||
           c.heads[1] > most || c.images > most || int64_t{c.kernel[0]} * c.kernel[1] * c.tile_depth > area;
}

inline const char* refusal(const mac_command& c) {
    const bool map_kind = second_operand_is_map(c);
    if (c.opcode != ENGINE_MAC) return "has an opcode that is none of the engine's";
    if (c.operation != OPERATION_MULTIPLY && c.operation != OPERATION_MAXIMUM) return "has an unknown operation";
    if (c.weight_kind < WEIGHT_PACKED || c.weight_kind > WEIGHT_TRANSPOSED) return "has an unknown kind of weights";
    const int32_t positive[] = {c.in_blocks, c.in_height, c.in_width,    c.out_blocks, c.out_height,  c.out_width,
                                c.kernel[0], c.kernel[1], c.stride[0],   c.stride[1],  c.dilation[0], c.dilation[1],
                                c.group_in,  c.group_out, c.tile_blocks, c.tile_depth, c.heads[0],    c.heads[1],
                                c.images,    c.band_rows, c.set_tiles};
    for (const int32_t x : positive)
        if (x < 1) return "has a size that is not positive";
    if (too_large(c)) return "has sizes beyond what the engine counts";
    if (c.padding[1] < 0) return "has a negative padding on the left";
    const int32_t pc = c.pixel_channels;
    if (pc != 16 && pc != 8 && pc != 4 && pc != 2 && pc != 1) return "has pixels of neither 1, 2, 4, 8 nor 16 channels";
    if (c.tile_blocks > BLOCKS) return "has tiles of more output channels than the array";
    if (c.tile_depth > c.in_blocks) return "has tiles that take more input channels than there are";
    if (folded(c) && (c.in_blocks != 1 || c.dilation[1] != 1 || fold_of(c) % c.stride[1] != 0))
        return "folds an input that cannot be: it takes one block, no dilation, and a stride that divides a word's "
               "pixels";
    const bool one_to_one = c.operation == OPERATION_MAXIMUM || c.weight_kind == WEIGHT_DIAGONAL;
    if (one_to_one && (c.tile_blocks != 1 || c.tile_depth != 1 || c.out_blocks != c.in_blocks ||
                       c.group_in != CHANNELS || c.group_out != CHANNELS || folded(c)))
        return "works channel by channel, but not on tiles of a block";
    if (map_kind && (c.kernel[0] != 1 || c.kernel[1] != 1 || c.tile_depth != c.in_blocks || has_sums(c) || folded(c) ||
                     c.operation == OPERATION_MAXIMUM))
        return "has a map as second operand of what is no plain product";
    if (c.out_plane && (c.out_plane < 0 || c.out_plane < (int64_t{c.out_height} * c.out_width + BEAT - 1) / BEAT))
        return "has blocks that lie nearer to each other than their rows take";
    if (!PARTIAL_SUMS && ((c.flags & MAC_RAW) != 0 || c.sums != NO_OPERAND))
        return "has partial sums, of which this engine has none: its weights or rows are more than the memories";
    if (map_kind && !ROW_SUMS && ELEMENT == ELEMENT_INT8 && c.weight_zero != 0)
        return "has a map with a zero point as second operand, for which this engine has no sums of rows";
    if ((c.flags & MAC_WIDE) != 0 && !WIDE) return "leaves float32, which is for the vector side of a bfloat16 engine";
    if (is_wide(c) && (is_raw(c) || has_residual(c) || has_table(c) || c.out_plane))
        return "leaves float32 of what is more than a product with limits";
    if (is_wide(c) && c.out_height * c.out_width % BEAT != 0) return "leaves float32 of pixels that are no whole lines";
    if (is_raw(c) && has_residual(c)) return "adds a residual to partial sums";
    if (ELEMENT != ELEMENT_INT8 && (c.flags & (MAC_MIDDLE | MAC_MIDDLE_TABLE)) != 0) return "rounds to 8 bits floats";
    if (ELEMENT != ELEMENT_INT8 && !FUNCTIONS && has_table(c))
        return "applies a function, for which this engine has no table";
    if ((c.flags & MAC_TABLE) != 0 && (c.flags & MAC_MIDDLE_TABLE) != 0) return "applies its table twice";
    if ((c.flags & MAC_MIDDLE_TABLE) != 0 && (c.flags & MAC_MIDDLE) == 0) return "applies a table to no middle";
    const plan_t p = plan_of(c);
    if (p.taps > TAPS) return "has a kernel of more positions than the engine's table";
    if (c.set_tiles > SET_TILES) return "has more tiles in a set than the engine's memory of params";
    if (has_weights(c) && int64_t{p.steps} * c.set_tiles > WEIGHT_STEPS)
        return "has more weights in a set than the engine's memory";
    if (int64_t{p.block_rows} * c.in_blocks > WINDOW_ROWS) return "has bands whose input is more than the window";
    if (p.tap_column < -P * WINDOW_ROWS) return "has more padding on the left than the window has positions";
    job_t job;
    job.c = c;
    job.p = p;
    if (!narrow(job)) return "has sizes beyond what the engine counts";
    return nullptr;
}

}  // namespace engine
#endif
