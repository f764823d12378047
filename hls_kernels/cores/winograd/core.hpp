// core: winograd; opcodes: winograd

// 3x3 convolution of stride 1 by Winograd's minimal filtering. The output is cut into tiles of m x m pixels. A block of
// tiles goes through three stages:
//   `input`    the patch of every tile is transformed: V[element of a patch][tile][input channel].
//   `product`  one matrix product for each element, V[element] U[element], on the MAC array: M[element][tile][panel].
//   `output`   M is transformed back, and the epilogue is applied.
// The weights U were transformed when they were packed. transform.hpp has the arithmetic of the transforms.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/mac/tile.hpp"
#include "lib/slice_grid.hpp"
#include "transform.hpp"

namespace fpga {

constexpr int WINOGRAD_MAX_ELEMENTS = 36;
// In hardware V lies in ROWS banks, tile i in bank i % ROWS: the MAC array reads a value of each of ROWS tiles a cycle.
constexpr int WINOGRAD_BANK = tile::WINOGRAD_INPUT_FLOATS / tile::ROWS / VEC * VEC;
static_assert(tile::WINOGRAD_PRODUCT_FLOATS >= WINOGRAD_MAX_ELEMENTS * (tile::ROWS * PANEL_MAX + VEC),
              "WINOGRAD_PRODUCT_FLOATS must hold the products of one tile of the MAC array");
// Channels whose products software adds up apart, at most, for tiles of 4 x 4: their output transform enlarges the
// rounding of these sums, which is the most of the method's.
constexpr int WINOGRAD_SUMMED = 64;
static_assert(WINOGRAD_BANK >= WINOGRAD_MAX_ELEMENTS * 2 * VEC, "WINOGRAD_INPUT_FLOATS must hold 16 channels");

struct winograd_plan {
    int32_t elements;   // of a patch
    int32_t tile_rows;  // of an image
    int32_t tile_columns;
    int32_t channels;  // input channels rounded up to whole vectors
    int32_t group;     // tiles that the MAC array takes at a time
    int32_t block;     // groups worked on together, at most
    int32_t panels;
};

// Tiles whose patches and products fit the local arrays, where a plane of them for each element has a vector to spare.
// 0 if there are too many channels.
inline int32_t tiles_that_fit(int32_t elements, int32_t channels, int32_t vectors) {
#ifdef __SYNTHESIS__
    const int32_t patches = (WINOGRAD_BANK / elements - VEC) / channels * tile::ROWS;
#else
    const int32_t patches = (WINOGRAD_BANK * tile::ROWS / elements - VEC) / channels;
#endif
    const int32_t products = (tile::WINOGRAD_PRODUCT_FLOATS / (elements * VEC) - 1) / vectors;
    return minimum(minimum(patches, products), BLOCK_MAX);
}

inline winograd_plan plan_winograd(const winograd_command& c) {
    winograd_plan p;
    p.elements = (c.tile_size + 2) * (c.tile_size + 2);
    p.tile_rows = ceil_div(c.out_height, c.tile_size);
    p.tile_columns = ceil_div(c.out_width, c.tile_size);
    p.channels = round_up(c.in_channels, VEC);
#ifdef __SYNTHESIS__
    const int32_t vectors = tile::MAX_VECTORS;
#else
    const int32_t vectors = c.vectors;
#endif
    const int32_t fit = tiles_that_fit(p.elements, p.channels, vectors);
#ifdef __SYNTHESIS__
    p.group = tile::ROWS;
#else
    p.group = maximum(minimum(array_rows(vectors), fit), 1);
#endif
    p.block = fit / p.group;
    p.panels = ceil_div(c.out_channels, c.vectors * VEC);
    return p;
}

struct winograd_tile {
    int32_t image, row, column;  // of the first output pixel
};

FPGA_INLINE winograd_tile tile_at(const winograd_command& c, const winograd_plan& p, int64_t number) {
    winograd_tile t;
    const int64_t row = number / p.tile_columns;
    t.image = static_cast<int32_t>(row / p.tile_rows);
    t.row = static_cast<int32_t>(row % p.tile_rows) * c.tile_size;
    t.column = static_cast<int32_t>(number % p.tile_columns) * c.tile_size;
    return t;
}

// Transforms the patch of one tile, 16 channels at a time, to element * pitch + channel behind `to`.
template <int TILE>
FPGA_NOINLINE void transform_patch(float* v, int64_t to, int64_t pitch, const winograd_command& c,
                                   const winograd_plan& p, const winograd_tile& t, const vec16* arena) {
    constexpr int PATCH = winograd_transform<TILE>::PATCH;
    const int32_t top = t.row - c.padding[0], left = t.column - c.padding[1];
    const uint32_t corner = offset_of(t.image, c.in_stride[0]) + offset_of(top, c.in_stride[1]) +
                            offset_of(left, c.in_stride[2]);
    const bool whole = top >= 0 && left >= 0 && top + PATCH <= c.in_height && left + PATCH <= c.in_width;
vectors_of_channels:
    for (int32_t channel = 0; channel < p.channels; channel += VEC) {
#pragma HLS pipeline II = 36
#pragma HLS loop_tripcount min = 1 max = 32
        vec16 lines[PATCH][PATCH];
#pragma HLS array_partition variable = lines complete dim = 0
    patch_rows:
        UNROLL for (int y = 0; y < PATCH; y++) {
#pragma HLS unroll
            vec16 d[PATCH], v_line[PATCH];
        patch_columns:
            UNROLL for (int x = 0; x < PATCH; x++) {
#pragma HLS unroll
                const bool inside = whole ||
                                    (top + y >= 0 && top + y < c.in_height && left + x >= 0 && left + x < c.in_width);
                const place_t at = c.input +
                                   (corner + offset_of(y, c.in_stride[1]) + offset_of(x, c.in_stride[2]) + channel);
                d[x] = opaque(inside ? load_aligned(arena, at) : vec16(0.0f));
            }
            winograd_transform<TILE>::input(d, v_line);
        keep_line:
            UNROLL for (int x = 0; x < PATCH; x++) {
#pragma HLS unroll
                lines[x][y] = v_line[x];
            }
        }
    patch_lines:
        UNROLL for (int x = 0; x < PATCH; x++) {
#pragma HLS unroll
            vec16 v_line[PATCH];
            winograd_transform<TILE>::input(lines[x], v_line);
        store_line:
            UNROLL for (int y = 0; y < PATCH; y++) {
#pragma HLS unroll
                store(v, to + (y * PATCH + x) * pitch + channel, v_line[y]);
            }
        }
    }
}

// Where a tile's products lie in the panel's M, in vectors, and where its results go.
struct winograd_result {
    const vec16* products;  // of element 0
    int32_t pitch;          // vectors from one element to the next
    uint32_t column;        // output channel of vector 0, for the arena and for the bias
    int32_t vectors;
};

// Transforms the products of one tile back and finishes its pixels; those beyond the image's sides are dropped.
template <int TILE>
FPGA_NOINLINE void finish_tile(const winograd_result& r, const winograd_command& c, const winograd_tile& t,
                               vec16* arena, const vec16* weights) {
    constexpr int PATCH = winograd_transform<TILE>::PATCH;
    const int rows = minimum(TILE, c.out_height - t.row), columns = minimum(TILE, c.out_width - t.column);
    const place_t out = c.output + offset_of(t.image, c.out_stride[0]) + offset_of(t.row, c.out_stride[1]) +
                        offset_of(t.column, c.out_stride[2]) + r.column;
    const place_t other = c.residual + offset_of(t.image, c.residual_stride[0]) +
                          offset_of(t.row, c.residual_stride[1]) + offset_of(t.column, c.residual_stride[2]) + r.column;
vectors_of_panel:
    for (int32_t j = 0; j < r.vectors; j++) {
#pragma HLS pipeline II = 36
#pragma HLS loop_tripcount min = 1 max = 4
        vec16 lines[TILE][PATCH];
        vec16 result[TILE][TILE];
#pragma HLS array_partition variable = lines complete dim = 0
#pragma HLS array_partition variable = result complete dim = 0
    product_columns:
        UNROLL for (int x = 0; x < PATCH; x++) {
#pragma HLS unroll
            vec16 m[PATCH], y_line[TILE];
            UNROLL for (int y = 0; y < PATCH; y++) {
#pragma HLS unroll
                m[y] = r.products[(y * PATCH + x) * r.pitch + j];
            }
            winograd_transform<TILE>::output(m, y_line);
            UNROLL for (int y = 0; y < TILE; y++) {
#pragma HLS unroll
                lines[y][x] = y_line[y];
            }
        }
    result_rows:
        UNROLL for (int y = 0; y < TILE; y++) {
#pragma HLS unroll
            winograd_transform<TILE>::output(lines[y], result[y]);
        }
        if (c.bias != ABSENT) {
            const vec16 bias = load(weights, static_cast<int64_t>(c.bias) + r.column + j * VEC);
        add_bias:
            UNROLL for (int y = 0; y < TILE; y++) {
#pragma HLS unroll
                UNROLL for (int x = 0; x < TILE; x++) {
#pragma HLS unroll
                    result[y][x] += bias;
                }
            }
        }
        if (c.residual != ABSENT) {
        add_residual:
            UNROLL for (int y = 0; y < TILE; y++) {
#pragma HLS unroll
                UNROLL for (int x = 0; x < TILE; x++) {
#pragma HLS unroll
                    const place_t at = other + offset_of(y, c.residual_stride[1]) + offset_of(x, c.residual_stride[2]) +
                                       j * VEC;
                    if (y < rows && x < columns) result[y][x] += load(arena, at);
                }
            }
        }
        activate<TILE, TILE>(result, c.activation, c.act_a, c.act_b);
    store_rows:
        UNROLL for (int y = 0; y < TILE; y++) {
#pragma HLS unroll
        store_columns:
            UNROLL for (int x = 0; x < TILE; x++) {
#pragma HLS unroll
                const place_t at = out + offset_of(y, c.out_stride[1]) + offset_of(x, c.out_stride[2]) + j * VEC;
                if (y < rows && x < columns) store(arena, at, result[y][x]);
            }
        }
    }
}

// Where the MAC array finds the tiles of a block in V. In hardware the block is padded to whole groups with its last.
inline void fill_tile_table(block_table& table, int32_t padded, int32_t count, int32_t channels) {
each_tile:
    for (int32_t i = 0; i < padded; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 7 max = 56
        const int32_t from = minimum(i, count - 1);
#ifdef __SYNTHESIS__
        table.source[i] = from % tile::ROWS * WINOGRAD_BANK + from / tile::ROWS * channels;
#else
        table.source[i] = from * channels;
#endif
    }
}

// Vectors from one plane to the next: an odd number, so that the planes of a tile share no set of the CPU's cache.
FPGA_INLINE int32_t plane_pitch(int32_t vectors) { return vectors | 1; }

template <int TILE>
inline void winograd_tiles(const winograd_command& c, const winograd_plan& p, const slice_grid& grid, float* v,
                           vec16* products, block_table& table, const uint32_t* k_offset, vec16* weight_block,
                           vec16* arena, const vec16* weights) {
    const int64_t tiles = static_cast<int64_t>(c.batch) * p.tile_rows * p.tile_columns;
    const int64_t all_groups = grid.unit_end - grid.unit_begin;
    const int64_t parts = (all_groups + p.block - 1) / p.block;
    const mac_epilogue none = {ABSENT, ABSENT};
each_block:
    for (int64_t part = 0; part < parts; part++) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int64_t first_group = grid.unit_begin + all_groups * part / parts;
        const int64_t end_group = grid.unit_begin + all_groups * (part + 1) / parts;
        const int64_t begin = first_group * p.group;
        const int32_t count = static_cast<int32_t>(minimum(end_group * p.group, tiles) - begin);
#ifdef __SYNTHESIS__
        const int32_t padded = static_cast<int32_t>(end_group - first_group) * tile::ROWS;
        const int64_t pitch = plane_pitch(padded / tile::ROWS * (p.channels / VEC)) * VEC;
#else
        const int32_t padded = count;
        const int64_t pitch = plane_pitch(count * (p.channels / VEC)) * VEC;
#endif
        fill_tile_table(table, padded, count, p.channels);
    input_stage:
        for (int32_t i = 0; i < count; i++) {
#pragma HLS loop_tripcount min = 7 max = 56
            transform_patch<TILE>(v, table.source[i], pitch, c, p, tile_at(c, p, begin + i), arena);
        }
    each_panel:
        for (int64_t panel = grid.panel_begin; panel < grid.panel_end; panel++) {
#pragma HLS loop_tripcount min = 1 max = 8
            const uint32_t column = static_cast<uint32_t>(panel) * c.vectors * VEC;
            mac_step step = {};
            step.summed = TILE == 4 ? WINOGRAD_SUMMED : MOST_SUMMED;
            step.alone = tiles == 1;
            step.depth = c.in_channels;
            step.k_stride = 1;
            step.vectors = minimum(c.vectors, ceil_div(c.out_channels - static_cast<int32_t>(column), VEC));
            step.first = true;
            step.pixels = padded;
#ifdef __SYNTHESIS__
            const int32_t row = tile::MAX_VECTORS;
#else
            const int32_t row = step.vectors;
#endif
            const int32_t plane = plane_pitch(padded * row);
        product_stage:
            for (int32_t e = 0; e < p.elements; e++) {
#pragma HLS loop_tripcount min = 16 max = 36
                step.pitch = c.vectors * VEC;
                const int64_t panel_floats = static_cast<int64_t>(step.depth) * step.pitch;
                const int64_t first_weight = (panel * p.elements + e) * panel_floats / VEC;
#ifdef __SYNTHESIS__
                load_weights(weight_block, weights, c.weight, FORMAT_F32, first_weight, step);
                const mac_weight* weight = weight_block;
                const weights_ahead ahead;
#else
                const mac_weight* weight = floats(weights) + c.weight + first_weight * VEC;
                const weights_ahead ahead = {weight + panel_floats, panel_floats};
#endif
                mac_block(v + e * pitch, true, k_offset, weight, step, ahead, none, table, products + e * plane, arena,
                          weights);
            }
        output_stage:
            for (int32_t i = 0; i < count; i++) {
#pragma HLS loop_tripcount min = 7 max = 56
                const winograd_result r = {products + i * row, plane, column, step.vectors};
                finish_tile<TILE>(r, c, tile_at(c, p, begin + i), arena, weights);
            }
        }
    }
}

inline uint32_t winograd(const winograd_command& c, const vec16* commands, vec16* arena, const vec16* weights,
                         uint32_t slice, uint32_t slices) {
    (void)commands;
    alignas(64) float v[WINOGRAD_BANK * tile::ROWS];
    alignas(64) vec16 products[tile::WINOGRAD_PRODUCT_FLOATS / VEC];
    block_table table;
#ifdef __SYNTHESIS__
    uint32_t k_offset[tile::KOFF];
    vec16 weight_block[tile::K_BLOCK * tile::MAX_VECTORS];
#pragma HLS array_partition variable = v block factor = 7
#pragma HLS array_partition variable = products cyclic factor = 4
#pragma HLS array_partition variable = weight_block cyclic factor = 4
    fill_linear_offsets(k_offset, 1);
#else
    const uint32_t* k_offset = nullptr;
    vec16* weight_block = nullptr;
#endif
    const winograd_plan p = plan_winograd(c);
    const int64_t tiles = static_cast<int64_t>(c.batch) * p.tile_rows * p.tile_columns;
    const int64_t groups = (tiles + p.group - 1) / p.group;
    const slice_grid grid = choose_grid(p.panels, groups, p.group, c.vectors, slice, slices);
    if (c.tile_size == 4)
        winograd_tiles<4>(c, p, grid, v, products, table, k_offset, weight_block, arena, weights);
    else
        winograd_tiles<2>(c, p, grid, v, products, table, k_offset, weight_block, arena, weights);
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<winograd_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(winograd_command& c, const windows& elsewhere) {
        elsewhere.redirect(c.input, c.residual, c.output);
    }
};

inline void winograd_bounds(const winograd_command& c, bounds& b) {
    b.require(c.batch > 0 && c.in_channels > 0 && c.in_height > 0 && c.in_width > 0, "has an empty input");
    b.require(c.out_channels > 0 && c.out_height > 0 && c.out_width > 0, "has an empty output");
    b.require(c.tile_size == 2 || c.tile_size == 4, "has a tile size that is neither 2 nor 4");
    b.require(c.padding[0] >= 0 && c.padding[1] >= 0, "has a negative padding");
    b.require(c.vectors > 0 && c.vectors <= tile::MAX_VECTORS, "has a panel width that the kernel was not built for");
    b.require(c.weight % VEC == 0, "has weights that are not aligned to 16 floats");
    b.require(c.input % VEC == 0 && c.in_stride[0] % VEC == 0 && c.in_stride[1] % VEC == 0 && c.in_stride[2] % VEC == 0,
              "has input pixels that are not aligned to 16 floats");
    b.require(activation_is_known(c.activation), "has an unknown activation");
    b.require_forward(c.in_stride, c.out_stride, c.residual_stride);
    b.require(c.in_channels <= tile::K_BLOCK, "has more input channels than K_BLOCK");
    b.require(c.out_channels <= 1 << 30, "has more channels than 32-bit arithmetic can count");
    const int32_t most = 1 << 28;
    b.require(c.out_height <= most && c.out_width <= most && c.padding[0] <= most && c.padding[1] <= most,
              "has windows further away than 32-bit arithmetic can count");
    if (!b.ok()) return;
    const winograd_plan p = plan_winograd(c);
    b.require(p.block > 0, "has more input channels than WINOGRAD_INPUT_FLOATS holds");
    if (!b.ok()) return;

    const int64_t width = static_cast<int64_t>(c.vectors) * VEC;
    const int64_t stored = round_up(c.out_channels, VEC);
    b.read(REGION_ARENA, c.input, pixels_extent(p.channels, c.batch, c.in_height, c.in_width, c.in_stride));
    b.read(REGION_WEIGHTS, c.weight,
           extent(0).dim(static_cast<int64_t>(p.panels) * p.elements + 1, c.in_channels * width));
    if (c.bias != ABSENT) b.read(REGION_WEIGHTS, c.bias, p.panels * width);
    convolution_results(c, stored, b);
}

#endif

}  // namespace fpga
