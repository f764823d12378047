// core: conv2d_int8; opcodes: conv2d_int8, depthwise_int8
// weights of conv2d_int8: I8
// weights of depthwise_int8: I8

// Convolution of int8 feature maps as an implicit matrix product of 8 bits with 32-bit sums. source.hpp brings the input,
// lib/int8/mac.hpp multiplies, and lib/int8/epilogue.hpp makes results of the sums. Depthwise convolution has its own file.
#pragma once
#include "command.hpp"
#include "depthwise.hpp"
#include "lib/bounds.hpp"
#include "lib/int8/mac.hpp"
#include "lib/slice_grid.hpp"
#include "source.hpp"

namespace fpga {

FPGA_INLINE int8_panel int8_panel_of(const conv2d_int8_command& c, const conv_int8_plan& p, int64_t at) {
    const int32_t group = static_cast<int32_t>(at / p.panels), panel = static_cast<int32_t>(at % p.panels);
    int8_panel of;
    of.weights.runs = p.runs;
    of.weights.run_count = p.run_count;
    of.weights.pitch = c.vectors;
    of.weights.weight = nullptr;
    of.quads = p.quads;
    of.vectors = minimum(c.vectors, ceil_div(c.out_channels - panel * c.vectors * VEC, VEC));
    of.column = group * c.out_channels + panel * c.vectors * VEC;
    of.parameter = static_cast<uint32_t>(at) * PARAMETERS * c.vectors * VEC;
    of.stride = c.vectors * VEC;
    of.lanes = c.groups > 1 && panel == p.panels - 1 ? (c.out_channels - 1) % VEC + 1 : VEC;
    of.column_term = nullptr;
    of.flipped = p.flipped;
    return of;
}

// Products of bytes are so fast that what comes from far counts more beside them: by commands of ResNet-50.
constexpr grid_costs INT8_GRID_COSTS = {64, 7};

inline uint32_t conv2d_int8(const conv2d_int8_command& c, const vec16* commands, vec16* arena, const vec16* weights,
                            uint32_t slice, uint32_t slices) {
    (void)commands;
    alignas(64) uint8_t slab[SLAB_BYTES + SLAB_SLACK];
    int8_block block;
    conv_int8_plan p;
#ifdef __SYNTHESIS__
    vec16 weight_block[tile::K_BLOCK * tile::MAX_VECTORS];
    ivec16 sums[PARTIAL_VECTORS + tile::ROWS * tile::MAX_VECTORS];
#pragma HLS bind_storage variable = slab type = ram_1wnr
#pragma HLS array_partition variable = slab cyclic factor = 4
#pragma HLS array_partition variable = weight_block cyclic factor = 4
#endif

    plan_conv2d_int8(c, p);
    const int8_epilogue e = int8_epilogue_of(c);
    const int64_t rows = static_cast<int64_t>(c.batch) * c.out_height;
    const int64_t units = p.source == INT8_SLAB ? rows : rows * c.out_width;
    const int64_t panels = static_cast<int64_t>(c.groups) * p.panels;
    const int64_t kernel = static_cast<int64_t>(c.kernel[0]) * c.kernel[1];
    const slice_grid grid = choose_grid(panels, units, p.source == INT8_SLAB ? c.out_width : 1, c.vectors, slice,
                                        slices, true, INT8_GRID_COSTS, kernel);
#ifdef FPGA_AMX
    const amx_scope tiles(p.amx_quads);
#endif
each_block:
    for (int64_t unit = grid.unit_begin; unit < grid.unit_end;) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int8_pixels run = next_int8_block(c, p, unit, grid.unit_end);
        fill_int8_block(block, run, c, p);
        int32_t loaded_group = -1;
    each_panel:
        for (int64_t at = grid.panel_begin; at < grid.panel_end; at++) {
#pragma HLS loop_tripcount min = 1 max = 32
            const int32_t group = static_cast<int32_t>(at / p.panels);
            if (group != loaded_group) {
                if (p.source == INT8_SLAB)
                    fill_int8_slab(slab, c, p, arena, group * c.in_channels, run);
                else if (p.source == INT8_GATHER)
                    gather_int8(slab, c, p, arena, group * c.in_channels, run);
                loaded_group = group;
            }
            int8_panel panel = int8_panel_of(c, p, at);
            // Behind the last block the next slice's, or the next command's, are likely to follow.
            panel.followed = at + 1 < grid.panel_end || unit + run.units >= grid.unit_end;
#ifdef __SYNTHESIS__
            multiply_block<bytes_product>(sums, weight_block, slab, block, panel, weights,
                                          c.weight / (4 * VEC) + at * p.quads * c.vectors, p.runs, p.run_count);
            finish_int8_block(sums, block, panel, e, arena, weights);
#else
            panel.weights.weight = bytes_of_region(weights) + c.weight + at * p.quads * c.vectors * 4 * VEC;
            const uint8_t* source = slab;
            if (p.source == INT8_DIRECT) source = bytes_of_region(arena) + c.input;
            if (p.source == INT8_DIRECT && p.amx_quads && run.count < AMX_ROWS) {
                // A tile would be read beyond the input's end.
                copy_bytes_in(slab, 0, arena, c.input + block.source[0],
                              static_cast<int64_t>(run.count - 1) * p.pixel + c.in_channels);
                source = slab - block.source[0];
            }
            mac_int8(source, block, panel, p.amx_quads, c.in_format == FORMAT_I8, e, arena, weights);
#endif
        }
        unit += run.units;
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<conv2d_int8_command> : convolution_int8_redirection<conv2d_int8_command> {};

inline void conv2d_int8_bounds(const conv2d_int8_command& c, bounds& b) {
    b.require(c.batch > 0 && c.groups > 0 && c.in_channels > 0 && c.in_height > 0 && c.in_width > 0,
              "has an empty input");
    b.require(c.out_channels > 0, "has an empty output");
    convolution_bounds(c, b);
    b.require(c.vectors > 0 && c.vectors <= tile::MAX_VECTORS, "has a panel width that the kernel was not built for");
    b.require(c.in_format == FORMAT_U8 || c.in_format == FORMAT_I8, "has an input of an unknown format");
    b.require(c.weight % (4 * VEC) == 0, "has weights that do not begin with a beat");
    b.require_forward(c.in_stride, c.out_stride, c.residual_stride);
    const double depth = static_cast<double>(c.kernel[0]) * c.kernel[1] * (static_cast<double>(c.in_channels) + 3);
    const double outputs = static_cast<double>(c.groups) * c.out_channels;
    b.require(depth <= SLAB_BYTES, "has windows of more bytes than the slab holds");
    b.require(outputs <= 1 << 28, "has more channels than 32-bit arithmetic can count");
    if (!b.ok()) return;

    const int64_t panels = ceil_div(c.out_channels, c.vectors * VEC);
    const int64_t packed = c.groups * panels * c.vectors * VEC;
    const int64_t stored = c.groups > 1 ? static_cast<int64_t>(c.groups) * c.out_channels
                                        : round_up(c.out_channels, VEC);
    const int64_t quads = static_cast<int64_t>(c.kernel[0]) * row_quads(c);
    const bool quad = c.groups == 1 && c.in_channels <= 4 && c.in_stride[2] >= 4;
    const int64_t read = quad ? 4 : static_cast<int64_t>(c.groups) * c.in_channels;
    b.read(REGION_ARENA, c.input, pixels_extent(read, c.batch, c.in_height, c.in_width, c.in_stride), 1);
    b.read(REGION_WEIGHTS, c.weight, quads * 4 * packed, 1);
    int8_epilogue_bounds(c, packed, b);
    convolution_results(c, stored, b, 1, out_bytes(c.out_format));
}
#endif

}  // namespace fpga
