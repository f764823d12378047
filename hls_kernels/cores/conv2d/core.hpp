// core: conv2d; opcodes: conv2d, depthwise
// weights of conv2d: F32, BF16, F16

// Two-dimensional convolution as an implicit matrix product: k runs over (kernel row, kernel column, input channel).
// source.hpp brings the input, lib/mac/tile.hpp multiplies; depthwise convolution has a core of its own.
#pragma once
#include "command.hpp"
#include "depthwise.hpp"
#include "lib/bounds.hpp"
#include "lib/mac/tile.hpp"
#include "lib/slice_grid.hpp"
#include "source.hpp"

namespace fpga {

inline mac_epilogue conv2d_epilogue(const conv2d_command& c) {
    mac_epilogue e;
    e.bias = c.bias;
    e.residual = c.residual;
    e.output = c.output;
    e.alpha = 1.0f;
    e.activation = c.activation;
    e.a = c.act_a;
    e.b = c.act_b;
    return e;
}

inline uint32_t conv2d(const conv2d_command& c, const vec16* commands, vec16* arena, const vec16* weights,
                       uint32_t slice, uint32_t slices) {
    (void)commands;
    alignas(64) float slab[tile::SLAB_FLOATS];
    alignas(64) vec16 partial[PARTIAL_VECTORS];
    uint32_t k_offset[tile::KOFF];
    block_table table;
#ifdef __SYNTHESIS__
    vec16 weight_block[tile::K_BLOCK * tile::MAX_VECTORS];
#pragma HLS bind_storage variable = slab type = ram_1wnr
#pragma HLS array_partition variable = slab cyclic factor = 4
#pragma HLS array_partition variable = weight_block cyclic factor = 4
#endif

    const conv_plan p = plan_conv2d(c);
    const mac_epilogue e = conv2d_epilogue(c);
    const bool linear = p.source == CONV_GATHER || (p.source == CONV_DIRECT && p.depth == c.in_channels);
    if (p.source == CONV_SLAB && p.planar)
        fill_k_offsets(k_offset, c, p.slab_row, 1, p.slab_width);
    else if (p.source == CONV_SLAB)
        fill_k_offsets(k_offset, c, p.slab_row, c.in_channels, 1);
    else if (!linear)
        fill_k_offsets(k_offset, c, c.in_stride[2], c.in_stride[3], 1);
#ifdef __SYNTHESIS__
    if (linear) fill_linear_offsets(k_offset, 1);
#endif

    const int64_t rows = static_cast<int64_t>(c.batch) * c.out_height;
    const int64_t units = p.source == CONV_SLAB ? rows * p.column_blocks : rows * c.out_width;
    const int64_t unit_pixels = p.source == CONV_SLAB ? p.block_columns : 1;
    const int64_t panels = static_cast<int64_t>(c.groups) * p.panels;
    const int64_t kernel = static_cast<int64_t>(c.kernel[0]) * c.kernel[1];
    const bool heavy = kernel * c.out_channels > static_cast<int64_t>(c.batch) * c.in_height * c.in_width;
    const slice_grid grid = choose_grid(panels, units, unit_pixels, c.vectors, slice, slices, heavy);
each_block:
    for (int64_t unit = grid.unit_begin; unit < grid.unit_end;) {
#pragma HLS loop_tripcount min = 1 max = 64
        const pixel_run run = next_block(c, p, unit, grid.unit_end);
        fill_block_table(table, run, c, p);
        int32_t loaded_group = -1;
    each_panel:
        for (int64_t at = grid.panel_begin; at < grid.panel_end; at++) {
#pragma HLS loop_tripcount min = 1 max = 32
            const int32_t group = static_cast<int32_t>(at / p.panels);
            const int32_t panel = static_cast<int32_t>(at % p.panels);
            const uint32_t group_channel = offset_of(group * c.in_channels, c.in_stride[1]);
            if (p.source == CONV_SLAB && group != loaded_group) fill_slab(slab, c, p, arena, group_channel, run);
            mac_step step;
            step.first_pixel = 0;
            step.pixels = run.count;
            step.k_stride = 1;
            step.vectors = minimum(c.vectors, ceil_div(c.out_channels - panel * c.vectors * VEC, VEC));
            step.summed = MOST_SUMMED;
            step.alone = rows * c.out_width == 1;
            step.lanes = VEC;
            if (c.groups > 1 && panel == p.panels - 1) step.lanes = (c.out_channels - 1) % VEC + 1;
            step.column = group * c.out_channels + panel * c.vectors * VEC;
            step.bias_column = static_cast<uint32_t>(at) * c.vectors * VEC;
        each_k_block:
            for (int32_t k = 0; k < p.depth; k += p.k_block) {
#pragma HLS loop_tripcount min = 1 max = 3
                step.pitch = c.vectors * VEC;
                step.depth = minimum(p.k_block, p.depth - k);
                step.first = k == 0;
                step.last = k + step.depth == p.depth;
                if (p.source == CONV_GATHER && (p.k_blocks > 1 || group != loaded_group))
                    gather_block(slab, c, p, arena, group_channel, run, k, step.depth);
                const int64_t first_weight = (at * p.depth + k) * c.vectors;
#ifdef __SYNTHESIS__
                load_weights(weight_block, weights, words_of(c.weight_format, c.weight), c.weight_format, first_weight,
                             step);
                const mac_weight* weight = weight_block;
                const weights_ahead ahead;
                const memory_float* source = slab;
#else
                const packed_weights weight =
                    packed_weights(floats(weights), c.weight_format).at(c.weight + first_weight * VEC);
                // What follows these weights in memory is read next, but after the last panel.
                const int64_t panel_elements = static_cast<int64_t>(step.depth) * step.pitch;
                const weights_ahead ahead = {weight.at(panel_elements).from, words_of(c.weight_format, panel_elements)};
                const memory_float* source = slab;
                if (p.source == CONV_DIRECT)
                    source = floats(arena) + c.input + group_channel + offset_of(k, linear ? 1 : 0);
#endif
                mac_block(source, linear, linear ? k_offset : k_offset + k, weight, step, ahead, e, table, partial,
                          arena, weights);
            }
            loaded_group = group;
        }
        unit += run.units;
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<conv2d_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(conv2d_command& c, const windows& elsewhere) {
        elsewhere.redirect(c.input, c.residual, c.output);
    }
};

inline void conv2d_bounds(const conv2d_command& c, bounds& b) {
    b.require(c.batch > 0 && c.groups > 0 && c.in_channels > 0 && c.in_height > 0 && c.in_width > 0,
              "has an empty input");
    b.require(c.out_channels > 0, "has an empty output");
    convolution_bounds(c, b);
    b.require(c.vectors > 0 && c.vectors <= tile::MAX_VECTORS, "has a panel width that the kernel was not built for");
    b.require(c.in_stride[1] == 1 || c.in_stride[3] == 1,
              "has an input in which neither channels nor columns are contiguous");
    b.require(words_of(c.weight_format, c.weight) % VEC == 0, "has weights that do not begin with a beat");
    b.require(is_weight_format(c.weight_format), "has weights of a format that the core does not read");
    b.require(activation_is_known(c.activation), "has an unknown activation");
    b.require_forward(c.in_stride, c.out_stride, c.residual_stride);
    const double depth = static_cast<double>(c.kernel[0]) * c.kernel[1] * c.in_channels;
    const double outputs = static_cast<double>(c.groups) * c.out_channels;
    b.require(depth <= 1 << 30 && outputs <= 1 << 30, "has more channels than 32-bit arithmetic can count");
    if (!b.ok()) return;

    const int64_t panels = ceil_div(c.out_channels, c.vectors * VEC);
    const int64_t packed = c.groups * panels * c.vectors * VEC;
    const int64_t stored = c.groups > 1 ? static_cast<int64_t>(c.groups) * c.out_channels
                                        : round_up(c.out_channels, VEC);
    b.read(REGION_ARENA, c.input,
           extent()
               .dim(c.batch, c.in_stride[0])
               .dim(static_cast<int64_t>(c.groups) * c.in_channels, c.in_stride[1])
               .dim(c.in_height, c.in_stride[2])
               .dim(c.in_width, c.in_stride[3]));
    b.read(REGION_WEIGHTS, words_of(c.weight_format, c.weight),
           extent(0).dim(words_of(c.weight_format, packed) + 1, static_cast<int64_t>(depth)));
    if (c.bias != ABSENT) b.read(REGION_WEIGHTS, c.bias, packed);
    convolution_results(c, stored, b);
}

#endif

}  // namespace fpga
