// A block of pixels by a panel of output channels of an int8 product, and the sums' way to what is stored.
//
// On the card weights come on chip a block of k at a time, between which the sums wait in a local array. Software has one
// pass over k in tiles of registers, or in those of the host's AMX unit, and finishes a few pixels at a time.
#pragma once
#include "amx.hpp"
#include "dot_tile.hpp"
#include "epilogue.hpp"
#include "lib/mac/tile.hpp"

namespace fpga {

// Pixels that are worked on together.
struct int8_block {
    int32_t count;
    uint32_t source[BLOCK_MAX];    // bytes from the start of the source
    uint32_t output[BLOCK_MAX];    // from the output's first element
    uint32_t residual[BLOCK_MAX];  // from the residual's first element

    // The same pixels as `segments` rows of `positions` places, `pitch` bytes apart: of each `period` places the first
    // `width` are pixels.
    int32_t segments;
    uint32_t segment_bytes;
    int32_t positions;
    int32_t period;
    int32_t width;
    int32_t pitch;

    // Of each pixel, or null, see finished_pixels: what its sums lack, its scale, how often offsets are added.
    const int32_t* row_term;
    const float* row_scale;
    const int32_t* row_times;
};

constexpr int PIXELS_OF_TILE = 16;

// Equal parts of at most `most`, multiples of the host's tiles where there are several.
FPGA_INLINE int32_t equal_part(int64_t total, int64_t most) {
    if (total <= most) return static_cast<int32_t>(total);
    const int64_t parts = (total + most - 1) / most, part = (total + parts - 1) / parts;
    const int64_t whole = (part + PIXELS_OF_TILE - 1) / PIXELS_OF_TILE * PIXELS_OF_TILE;
    return static_cast<int32_t>(whole <= most ? whole : part);
}

// A panel's part of a command.
struct int8_panel {
    dot_panel weights;
    int32_t quads;  // of k, in all
    int32_t vectors;
    uint32_t column;            // of the first channel, from the first of a pixel
    uint32_t parameter;         // words
    int32_t stride;             // words from an offset to its scale
    int32_t lanes;              // of the last vector, how many are stored
    const ivec16* column_term;  // what the sums of each vector's channels lack, or null
    bool flipped;  // bytes of the source have their sign bits flipped: the sums have 128 too much of each weight
};

FPGA_INLINE finished_channels channels_of(const int8_panel& panel, int j) {
    return {panel.column + j * VEC, panel.parameter + j * VEC, panel.stride, j == panel.vectors - 1 ? panel.lanes : VEC,
            panel.column_term ? panel.column_term[j] : ivec16(0)};
}

// What flipped signs add to the sums of vector j, taken off: -128 times the sums of the weights.
inline ivec16 flip_correction(const int8_panel& panel, int j) {
    if (!panel.flipped) return ivec16(0);
    const dot_inputs ones(ivec16(0x01010101));
    ivec16 sum(0);
quads:
    for (int32_t q = 0; q < panel.quads; q++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 512
        sum = dot4(sum, ones, dot_weights(panel_vector(panel.weights, q, j)));
    }
    return sum * ivec16(-128);
}

#ifdef __SYNTHESIS__

// Adds a block of k to the sums of a block of pixels, [pixel][MAX_VECTORS]; whole tiles, so that the last may add to sums
// behind those of the block. The first block of k begins with what flipped signs need.
inline void add_int8_products(ivec16 sums[PARTIAL_VECTORS], const uint8_t* source, const int8_block& block,
                              const int8_panel& panel, bool first) {
    constexpr int ROWS = tile::ROWS, VECTORS = tile::MAX_VECTORS;
    ivec16 correction[VECTORS];
#pragma HLS array_partition variable = correction complete
corrections:
    for (int j = 0; j < VECTORS; j++) correction[j] = j < panel.vectors ? flip_correction(panel, j) : ivec16(0);
each_tile:
    for (int32_t begin = 0; begin < block.count; begin += ROWS) {
#pragma HLS loop_tripcount min = 1 max = 146
        uint32_t row[ROWS];
        ivec16 sum[ROWS][VECTORS];
#pragma HLS array_partition variable = row complete
#pragma HLS array_partition variable = sum complete dim = 0
    begin_rows:
        for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            row[i] = block.source[minimum(begin + i, block.count - 1)];
            for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                const ivec16 before = first ? ivec16(0) : sums[(begin + i) * VECTORS + j];
                sum[i][j] = before + correction[j];
            }
        }
        dot_tile<ROWS, VECTORS>(sum, source, row, panel.weights, 0);
    keep_rows:
        for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                sums[(begin + i) * VECTORS + j] = sum[i][j];
            }
        }
    }
}

// The sums of a block by a panel whose weights begin with the beat `first` of their region.
inline void multiply_int8_block(ivec16* sums, vec16 weight_block[tile::K_BLOCK * tile::MAX_VECTORS],
                                const uint8_t* source, const int8_block& block, int8_panel panel, const vec16* weights,
                                int64_t first, const k_run* runs, int32_t run_count) {
    const int32_t stored = panel.weights.pitch;
    k_run part;
    panel.weights.runs = &part;
    panel.weights.run_count = 1;
    panel.weights.pitch = tile::MAX_VECTORS;
    panel.weights.weight = weight_block;
    int64_t quad = 0;
each_run:
    for (int32_t r = 0; r < run_count; r++) {
#pragma HLS loop_tripcount min = 1 max = 9
    each_part:
        for (int32_t q = 0; q < runs[r].quads; q += tile::K_BLOCK) {
#pragma HLS loop_tripcount min = 1 max = 2
            part.offset = runs[r].offset + 4 * q;
            part.quads = minimum(runs[r].quads - q, tile::K_BLOCK);
            panel.quads = part.quads;
        weights_of_part:
            for (int32_t i = 0; i < part.quads; i++) {
#pragma HLS loop_tripcount min = 1 max = 2048
            vectors:
                for (int32_t j = 0; j < panel.vectors; j++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 4
                    weight_block[i * tile::MAX_VECTORS + j] = weights[first + (quad + i) * stored + j];
                }
            }
            add_int8_products(sums, source, block, panel, quad == 0);
            quad += part.quads;
        }
    }
}

inline void finish_int8_block(const ivec16 sums[PARTIAL_VECTORS], const int8_block& block, const int8_panel& panel,
                              const int8_epilogue& e, vec16* arena, const vec16* weights) {
    int32_t row[BLOCK_MAX];
rows:
    for (int32_t i = 0; i < block.count; i++) {
#pragma HLS pipeline II = 1
        row[i] = i;
    }
    const finished_pixels from = {sums,           tile::MAX_VECTORS, block.count,    row, block.output, block.residual,
                                  block.row_term, block.row_scale,   block.row_times};
each_vector:
    for (int j = 0; j < panel.vectors; j++) {
#pragma HLS loop_tripcount min = 1 max = 4
        finish_int8(from, j, int8_channels(), channels_of(panel, j), e, arena, weights);
    }
}

#else

// Pixels that are finished at a time: their sums lie in the nearest cache.
constexpr int FINISHED_AT_ONCE = 48;

template <int ROWS, int VECTORS>
FPGA_NOINLINE void dot_rows(ivec16* sums, int32_t pitch, const uint8_t* source, const uint32_t* pixel,
                            const dot_panel& weights, int first, const ivec16* begin) {
    uint32_t row[ROWS];
    UNROLL for (int i = 0; i < ROWS; i++) row[i] = pixel[i];
    ivec16 sum[ROWS][VECTORS];
    UNROLL for (int i = 0; i < ROWS; i++) { UNROLL for (int j = 0; j < VECTORS; j++) sum[i][j] = begin[j]; }
    dot_tile<ROWS, VECTORS>(sum, source, row, weights, first);
    UNROLL for (int i = 0; i < ROWS; i++) { UNROLL for (int j = 0; j < VECTORS; j++) sums[i * pitch + j] = sum[i][j]; }
}

// As many tiles as fit `count` pixels; the last one is shifted back, and computes some again.
template <int VECTORS>
inline void dot_columns(ivec16* sums, int32_t pitch, const uint8_t* source, const uint32_t* pixel, int32_t count,
                        const dot_panel& weights, int first, const ivec16* begin) {
    constexpr int ROWS = DOT_ROWS<VECTORS>, FEW = ROWS > 4 ? 4 : 1;
    if (count >= ROWS) {
        for (int32_t i = 0; i < count; i += ROWS) {
            const int32_t at = minimum(i, count - ROWS);
            dot_rows<ROWS, VECTORS>(sums + at * pitch, pitch, source, pixel + at, weights, first, begin);
        }
        return;
    }
    if (count >= FEW) {
        for (int32_t i = 0; i < count; i += FEW) {
            const int32_t at = minimum(i, count - FEW);
            dot_rows<FEW, VECTORS>(sums + at * pitch, pitch, source, pixel + at, weights, first, begin);
        }
        return;
    }
    for (int32_t i = 0; i < count; i++)
        dot_rows<1, VECTORS>(sums + i * pitch, pitch, source, pixel + i, weights, first, begin);
}

inline void dot_some(ivec16* sums, int32_t pitch, const uint8_t* source, const uint32_t* pixel, int32_t count,
                     const dot_panel& weights, int first, int vectors, const ivec16* begin) {
    switch (vectors) {
        case 1: return dot_columns<1>(sums, pitch, source, pixel, count, weights, first, begin);
        case 2: return dot_columns<minimum(2, DOT_VECTORS)>(sums, pitch, source, pixel, count, weights, first, begin);
        case 3: return dot_columns<minimum(3, DOT_VECTORS)>(sums, pitch, source, pixel, count, weights, first, begin);
        default: return dot_columns<minimum(4, DOT_VECTORS)>(sums, pitch, source, pixel, count, weights, first, begin);
    }
}

inline void dot_block(const uint8_t* source, const int8_block& block, const int8_panel& panel,
                      const int8_channels* channels, const int8_epilogue& e, vec16* arena, const vec16* weights) {
    alignas(64) ivec16 sums[FINISHED_AT_ONCE * tile::MAX_VECTORS];
    ivec16 begin[tile::MAX_VECTORS];
    int32_t row[FINISHED_AT_ONCE];
    for (int32_t i = 0; i < FINISHED_AT_ONCE; i++) row[i] = i;
    for (int j = 0; j < panel.vectors; j++) begin[j] = flip_correction(panel, j);
    for (int32_t first = 0; first < block.count; first += FINISHED_AT_ONCE) {
        const int32_t count = minimum(block.count - first, FINISHED_AT_ONCE);
        for (int j = 0; j < panel.vectors; j += DOT_VECTORS)
            dot_some(sums + j, panel.vectors, source, block.source + first, count, panel.weights, j,
                     minimum(DOT_VECTORS, panel.vectors - j), begin + j);
        const finished_pixels from = {sums,
                                      panel.vectors,
                                      count,
                                      row,
                                      block.output + first,
                                      block.residual + first,
                                      block.row_term ? block.row_term + first : nullptr,
                                      block.row_scale ? block.row_scale + first : nullptr,
                                      block.row_times ? block.row_times + first : nullptr};
        for (int j = 0; j < panel.vectors; j++)
            finish_int8(from, j, channels[j], channels_of(panel, j), e, arena, weights);
    }
}

#ifdef FPGA_AMX

template <int ROW_TILES, int COLUMN_TILES>
inline void amx_tile_of(ivec16* sums, bool is_signed, const uint8_t* source, int64_t pitch, const dot_panel& weights,
                        int first, int quads, bool fetch) {
    if (is_signed)
        amx_tile<true, ROW_TILES, COLUMN_TILES>(sums, source, pitch, weights, first, quads, fetch);
    else
        amx_tile<false, ROW_TILES, COLUMN_TILES>(sums, source, pitch, weights, first, quads, fetch);
}

// Weights that so many pixels or more share come soon enough by themselves.
constexpr int32_t FETCHED_FOR = 256;

// Needs a configuration for `quads`, and a source that may be read up to 15 pixels behind its end, unless it has 16.
template <int COLUMN_TILES>
inline void amx_columns(const uint8_t* source, bool is_signed, int quads, const int8_block& block,
                        const int8_panel& panel, int first, const int8_channels* channels, const int8_epilogue& e,
                        vec16* arena, const vec16* weights) {
    constexpr int MOST = 2 * AMX_ROWS;
    alignas(64) ivec16 sums[MOST * COLUMN_TILES];
    int32_t row[MOST], in_order[MOST];
    for (int32_t i = 0; i < MOST; i++) in_order[i] = i;
    uint32_t output[MOST], residual[MOST];
    int32_t term[MOST], times[MOST];
    float scale[MOST];
    const auto finish = [&](const finished_pixels& finished) {
        for (int j = 0; j < COLUMN_TILES; j++)
            finish_int8(finished, j, channels[first + j], channels_of(panel, first + j), e, arena, weights);
    };
    const int32_t rows = block.count / block.segments / block.width;  // of a segment
    bool fetch = block.count <= FETCHED_FOR;
    for (int32_t s = 0; s < block.segments; s++) {
        const uint8_t* from = source + block.source[0] + static_cast<int64_t>(s) * block.segment_bytes;
        int32_t y = 0, x = 0;  // of the next place
        for (int32_t done = 0; done < block.positions;) {
            const int32_t left = block.positions - done, places = left > AMX_ROWS ? MOST : AMX_ROWS;
            const int32_t at = maximum(minimum(done, block.positions - places), 0);
            const uint8_t* pixels = from + static_cast<int64_t>(at) * block.pitch;
            if (places == MOST && block.positions >= MOST)
                amx_tile_of<2, COLUMN_TILES>(sums, is_signed, pixels, block.pitch, panel.weights, first, quads, fetch);
            else
                amx_tile_of<1, COLUMN_TILES>(sums, is_signed, pixels, block.pitch, panel.weights, first, quads, fetch);
            fetch = false;
            const int32_t end = block.positions >= MOST ? at + places : minimum(at + AMX_ROWS, block.positions);
            if (block.period == block.width) {  // every place is a pixel
                const int32_t pixel = s * block.positions + done;
                const finished_pixels finished = {sums + (done - at) * COLUMN_TILES,
                                                  COLUMN_TILES,
                                                  end - done,
                                                  in_order,
                                                  block.output + pixel,
                                                  block.residual + pixel,
                                                  block.row_term ? block.row_term + pixel : nullptr,
                                                  block.row_scale ? block.row_scale + pixel : nullptr,
                                                  block.row_times ? block.row_times + pixel : nullptr};
                done = end;
                finish(finished);
                continue;
            }
            int32_t count = 0;
            for (; done < end; done++) {
                if (x < block.width) {
                    const int32_t pixel = (s * rows + y) * block.width + x;
                    row[count] = done - at;
                    output[count] = block.output[pixel];
                    if (block.row_term) term[count] = block.row_term[pixel];
                    if (block.row_scale) scale[count] = block.row_scale[pixel];
                    if (block.row_times) times[count] = block.row_times[pixel];
                    residual[count++] = block.residual[pixel];
                }
                if (++x == block.period) {
                    x = 0;
                    y++;
                }
            }
            const finished_pixels finished = {sums,
                                              COLUMN_TILES,
                                              count,
                                              row,
                                              output,
                                              residual,
                                              block.row_term ? term : nullptr,
                                              block.row_scale ? scale : nullptr,
                                              block.row_times ? times : nullptr};
            finish(finished);
        }
    }
}

#endif

// amx_quads: of a step of the host's tiles, for which they are configured, or 0. is_signed: as the source's bytes are
// then.
inline void mac_int8(const uint8_t* source, const int8_block& block, const int8_panel& panel, int amx_quads,
                     bool is_signed, const int8_epilogue& e, vec16* arena, const vec16* weights) {
    int8_channels channels[tile::MAX_VECTORS];
    for (int j = 0; j < panel.vectors; j++) channels[j] = int8_channels_of(weights, e, channels_of(panel, j));
#ifdef FPGA_AMX
    if (amx_quads) {
        int j = 0;
        for (; j + 1 < panel.vectors; j += 2)
            amx_columns<2>(source, is_signed, amx_quads, block, panel, j, channels, e, arena, weights);
        if (j < panel.vectors)
            amx_columns<1>(source, is_signed, amx_quads, block, panel, j, channels, e, arena, weights);
        return;
    }
#endif
    (void)amx_quads, (void)is_signed;
    dot_block(source, block, panel, channels, e, arena, weights);
}

#endif

}  // namespace fpga
