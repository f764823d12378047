// A block of pixels (or matrix rows) by a panel of output channels: sums of products of narrow numbers, dot/tile.hpp.
//
// On the card weights come on chip a block of k at a time, between which the sums wait in a local array. Software has one
// pass over k in tiles of registers, or in those of the CPU's AMX unit, and hands on the sums of a few pixels at a time.
#pragma once
#include "amx.hpp"
#include "lib/mac/tile.hpp"
#include "tile.hpp"

namespace fpga {

// Pixels that are worked on together.
struct pixel_block {
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
};

// Rows [first, first + count) of matrix `matrix` of a product of matrices, sources from the first element of a. shared: one
// matrix meets them all, so that rows are counted through. Leaves the pitch to the caller.
// \tparam product_command Command record of a matrix product.
template <class product_command>
inline void fill_rows(pixel_block& block, const product_command& c, bool shared, int32_t matrix, int64_t first,
                      int32_t count) {
    int32_t row = static_cast<int32_t>(first % c.rows);
    const int64_t outer = shared ? first / c.rows : matrix;
    int32_t inner = static_cast<int32_t>(outer % c.batch[1]), image = static_cast<int32_t>(outer / c.batch[1]);
    block.count = count;
each_row:
    for (int32_t i = 0; i < count; i++) {
#pragma HLS loop_tripcount min = 1 max = 1022
        block.source[i] = offset_of(image, c.a_stride[0]) + offset_of(inner, c.a_stride[1]) +
                          offset_of(row, c.a_stride[2]);
        block.output[i] = offset_of(image, c.out_stride[0]) + offset_of(inner, c.out_stride[1]) +
                          offset_of(row, c.out_stride[2]);
        block.residual[i] = offset_of(image, c.residual_stride[0]) + offset_of(inner, c.residual_stride[1]) +
                            offset_of(row, c.residual_stride[2]);
        if (++row < c.rows) continue;
        row = 0;
        if (++inner < c.batch[1]) continue;
        inner = 0;
        image++;
    }
    block.segments = 1;
    block.segment_bytes = 0;
    block.positions = block.period = block.width = count;
}

constexpr int PIXELS_OF_TILE = 16;

// Equal parts of at most `most`, multiples of the AMX tiles if there are several.
FPGA_INLINE int32_t equal_part(int64_t total, int64_t most) {
    if (total <= most) return static_cast<int32_t>(total);
    const int64_t parts = (total + most - 1) / most, part = (total + parts - 1) / parts;
    const int64_t whole = (part + PIXELS_OF_TILE - 1) / PIXELS_OF_TILE * PIXELS_OF_TILE;
    return static_cast<int32_t>(whole <= most ? whole : part);
}

// A panel's part of a command.
struct product_panel {
    dot_panel weights;
    int32_t quads;  // of k, in all
    int32_t vectors;
    bool followed;  // those behind its weights are wanted next
    bool flipped;   // bytes of the source have their sign bits flipped: the sums have 128 too much of each weight
};

// What flipped signs add to the sums of vector j, taken off: -128 times the sums of the weights.
inline ivec16 flip_correction(const product_panel& panel, int j) {
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
// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
template <class PRODUCT>
inline void add_products(ivec16 sums[PARTIAL_VECTORS], const uint8_t* source, const pixel_block& block,
                         const product_panel& panel, bool first) {
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
                const ivec16 before = sums[(begin + i) * VECTORS + j];
                sum[i][j] = first ? correction[j] : before + correction[j];
            }
        }
        dot_tile<PRODUCT, ROWS, VECTORS>(sum, source, row, panel.weights, 0);
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
// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
template <class PRODUCT>
inline void multiply_block(ivec16* sums, vec16 weight_block[tile::K_BLOCK * tile::MAX_VECTORS], const uint8_t* source,
                           const pixel_block& block, product_panel panel, const vec16* weights, int64_t first,
                           const k_run* runs, int32_t run_count) {
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
            add_products<PRODUCT>(sums, source, block, panel, quad == 0);
            quad += part.quads;
        }
    }
}

#else

// Pixels that are finished at a time, whose sums lie in the nearest cache. Bytes take so many because finishing them is long;
// wider results are many lines of memory, which the next tile's products hide if each tile's are stored by themselves.
constexpr int FINISHED_AT_ONCE = 48;

// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
template <class PRODUCT>
inline int32_t finished_at_once(int vectors) {
    if (PRODUCT::NUMBER_BYTES == 1) return FINISHED_AT_ONCE;
    const int together = minimum(vectors, DOT_VECTORS<PRODUCT>);
    return together == 4 ? DOT_ROWS<PRODUCT, 4> : together == 3 ? DOT_ROWS<PRODUCT, 3> : DOT_ROWS<PRODUCT, 2>;
}

// Panels from so many bytes on have the next one's weights fetched: smaller ones wait in the nearest cache.
constexpr int64_t FAR_BYTES = 1 << 15;

// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam AHEAD Whether the weights of the next panel are prefetched.
// \tparam ROW_BYTES Addresses of the rows, any_rows or even_rows.
template <class PRODUCT, int ROWS, int VECTORS, bool AHEAD, class ROW_BYTES>
FPGA_INLINE void sums_of_rows(ivec16* sums, int32_t pitch, const ROW_BYTES& rows, const dot_panel& weights, int first,
                              const ivec16* begin, int64_t ahead) {
    ivec16 sum[ROWS][VECTORS];
    UNROLL for (int i = 0; i < ROWS; i++) { UNROLL for (int j = 0; j < VECTORS; j++) sum[i][j] = begin[j]; }
    dot_tile<PRODUCT, AHEAD>(sum, rows, weights, first, ahead);
    UNROLL for (int i = 0; i < ROWS; i++) { UNROLL for (int j = 0; j < VECTORS; j++) sums[i * pitch + j] = sum[i][j]; }
}

// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam AHEAD Whether the weights of the next panel are prefetched.
template <class PRODUCT, int ROWS, int VECTORS, bool AHEAD>
FPGA_NOINLINE void dot_any_rows(ivec16* sums, int32_t pitch, const uint8_t* source, const uint32_t* pixel,
                                const dot_panel& weights, int first, const ivec16* begin, int64_t ahead) {
    any_rows<ROWS> rows = {source, {}};
    UNROLL for (int i = 0; i < ROWS; i++) rows.row[i] = pixel[i];
    sums_of_rows<PRODUCT, ROWS, VECTORS, AHEAD>(sums, pitch, rows, weights, first, begin, ahead);
}

// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam AHEAD Whether the weights of the next panel are prefetched.
template <class PRODUCT, int ROWS, int VECTORS, bool AHEAD>
FPGA_NOINLINE void dot_even_rows(ivec16* sums, int32_t pitch, const uint8_t* first_row, int64_t apart,
                                 const dot_panel& weights, int first, const ivec16* begin, int64_t ahead) {
    const even_rows<ROWS> rows(first_row, apart);
    sums_of_rows<PRODUCT, ROWS, VECTORS, AHEAD>(sums, pitch, rows, weights, first, begin, ahead);
}

// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam AHEAD Whether the weights of the next panel are prefetched.
template <class PRODUCT, int ROWS, int VECTORS, bool AHEAD = false>
inline void dot_rows(ivec16* sums, int32_t pitch, const uint8_t* source, const uint32_t* pixel,
                     const dot_panel& weights, int first, const ivec16* begin, int64_t ahead = 0) {
    const uint32_t apart = pixel[ROWS > 1 ? 1 : 0] - pixel[0];
    uint32_t uneven = 0;
    UNROLL for (int i = 2; i < ROWS; i++) uneven |= pixel[i] - pixel[i - 1] - apart;
    if (uneven == 0 && pixel[ROWS - 1] >= pixel[0])
        dot_even_rows<PRODUCT, ROWS, VECTORS, AHEAD>(sums, pitch, source + pixel[0], apart, weights, first, begin,
                                                     ahead);
    else
        dot_any_rows<PRODUCT, ROWS, VECTORS, AHEAD>(sums, pitch, source, pixel, weights, first, begin, ahead);
}

// The last `count` pixels, less than a tile of them, 0 to ROWS: a tile of as many rows.
// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
template <class PRODUCT, int VECTORS, int ROWS>
inline void dot_rest(ivec16* sums, int32_t pitch, const uint8_t* source, const uint32_t* pixel, int32_t count,
                     const dot_panel& weights, int first, const ivec16* begin) {
    if constexpr (ROWS > 0) {
        if (count == ROWS)
            dot_rows<PRODUCT, ROWS, VECTORS>(sums, pitch, source, pixel, weights, first, begin);
        else
            dot_rest<PRODUCT, VECTORS, ROWS - 1>(sums, pitch, source, pixel, count, weights, first, begin);
    }
}

// Pixels [done, done + count) of a block. ahead: bytes from the weights to those that are wanted next, which some of the
// block's tiles bring near, or 0.
// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
template <class PRODUCT, int VECTORS>
inline void dot_columns(ivec16* sums, int32_t pitch, const uint8_t* source, const uint32_t* pixel, int32_t done,
                        int32_t count, const dot_panel& weights, int first, const ivec16* begin, int64_t ahead) {
    constexpr int ROWS = DOT_ROWS<PRODUCT, VECTORS>, HALF = ROWS > 6 ? 6 : ROWS;
    int32_t i = 0;
    pixel += done;
    for (; i + ROWS <= count; i += ROWS) {
        const int32_t line = (done + i) / ROWS - 1;  // the block's first tile meets the weights
        ivec16* const to = sums + i * pitch;
        if (ahead && line >= 0 && line < VECTORS)
            dot_rows<PRODUCT, ROWS, VECTORS, true>(to, pitch, source, pixel + i, weights, first, begin,
                                                   ahead + line * 4 * VEC);
        else
            dot_rows<PRODUCT, ROWS, VECTORS>(to, pitch, source, pixel + i, weights, first, begin);
    }
    if (HALF < ROWS && i + HALF <= count) {
        dot_rows<PRODUCT, HALF, VECTORS>(sums + i * pitch, pitch, source, pixel + i, weights, first, begin);
        i += HALF;
    }
    dot_rest<PRODUCT, VECTORS, HALF - 1>(sums + i * pitch, pitch, source, pixel + i, count - i, weights, first, begin);
}

// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
template <class PRODUCT>
inline void dot_some(ivec16* sums, int32_t pitch, const uint8_t* source, const uint32_t* pixel, int32_t done,
                     int32_t count, const dot_panel& weights, int first, int vectors, const ivec16* begin,
                     int64_t ahead) {
    constexpr int MOST = DOT_VECTORS<PRODUCT>;
    switch (vectors) {
        case 1: return dot_columns<PRODUCT, 1>(sums, pitch, source, pixel, done, count, weights, first, begin, ahead);
        case 2:
            return dot_columns<PRODUCT, minimum(2, MOST)>(sums, pitch, source, pixel, done, count, weights, first,
                                                          begin, ahead);
        case 3:
            return dot_columns<PRODUCT, minimum(3, MOST)>(sums, pitch, source, pixel, done, count, weights, first,
                                                          begin, ahead);
        default:
            return dot_columns<PRODUCT, minimum(4, MOST)>(sums, pitch, source, pixel, done, count, weights, first,
                                                          begin, ahead);
    }
}

// Sums that are ready: that of pixel `first` + i, vector `vector` + j is at sums[row[i] * pitch + j].
struct ready_sums {
    const ivec16* sums;
    int32_t pitch;  // vectors
    const int32_t* row;
    int32_t first, count;
    int vector, vectors;
};

// Calls finish(ready_sums) until all of the block's sums have been there.
// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
// \tparam FINISH Function that stores the finished sums of pixels.
template <class PRODUCT, class FINISH>
inline void dot_block(const uint8_t* source, const pixel_block& block, const product_panel& panel,
                      const FINISH& finish) {
    constexpr int AT_ONCE = DOT_VECTORS<PRODUCT>;
    alignas(64) ivec16 sums[FINISHED_AT_ONCE * tile::MAX_VECTORS];
    ivec16 begin[tile::MAX_VECTORS];
    int32_t row[FINISHED_AT_ONCE];
    for (int32_t i = 0; i < FINISHED_AT_ONCE; i++) row[i] = i;
    const int64_t panel_bytes = int64_t{panel.quads} * panel.weights.pitch * 4 * VEC;
    const bool far = panel.followed && panel_bytes >= FAR_BYTES;
    for (int j = 0; j < panel.vectors; j++) begin[j] = flip_correction(panel, j);
    const int32_t at_once = finished_at_once<PRODUCT>(panel.vectors);
    for (int32_t first = 0; first < block.count; first += at_once) {
        const int32_t count = minimum(block.count - first, at_once);
        for (int j = 0; j < panel.vectors; j += AT_ONCE)
            dot_some<PRODUCT>(sums + j, panel.vectors, source, block.source, first, count, panel.weights, j,
                              minimum(AT_ONCE, panel.vectors - j), begin + j, far ? panel_bytes : 0);
        finish(ready_sums{sums, panel.vectors, row, first, count, 0, panel.vectors});
    }
}

#ifdef FPGA_AMX

// \tparam ROW_TILES Tiles of 16 rows.
// \tparam COLUMN_TILES Tiles of 16 output channels.
template <int ROW_TILES, int COLUMN_TILES>
inline void amx_tile_of(ivec16* sums, amx_product product, const uint8_t* source, int64_t pitch,
                        const dot_panel& weights, int first, int quads, bool fetch) {
    if (product == AMX_BF16)
        amx_tile<AMX_BF16, ROW_TILES, COLUMN_TILES>(sums, source, pitch, weights, first, quads, fetch);
    else if (product == AMX_SIGNED)
        amx_tile<AMX_SIGNED, ROW_TILES, COLUMN_TILES>(sums, source, pitch, weights, first, quads, fetch);
    else
        amx_tile<AMX_UNSIGNED, ROW_TILES, COLUMN_TILES>(sums, source, pitch, weights, first, quads, fetch);
}

// Weights that so many pixels or more share come soon enough by themselves.
constexpr int32_t FETCHED_FOR = 256;

// \tparam COLUMN_TILES Tiles of 16 output channels.
// \tparam FINISH Function that stores the finished sums of pixels.
template <int COLUMN_TILES, class FINISH>
inline void amx_columns(const uint8_t* source, amx_product product, int quads, const pixel_block& block,
                        const dot_panel& weights, int first, const FINISH& finish) {
    constexpr int MOST = 2 * AMX_ROWS;
    alignas(64) ivec16 sums[MOST * COLUMN_TILES];
    int32_t row[MOST], in_order[MOST];
    for (int32_t i = 0; i < MOST; i++) in_order[i] = i;
    const int32_t rows = block.count / block.segments / block.width;  // of a segment
    bool fetch = block.count <= FETCHED_FOR;
    for (int32_t s = 0; s < block.segments; s++) {
        const uint8_t* from = source + block.source[0] + static_cast<int64_t>(s) * block.segment_bytes;
        int32_t pixel = s * rows * block.width, x = 0;  // of the next place
        for (int32_t done = 0; done < block.positions;) {
            const int32_t left = block.positions - done, places = left > AMX_ROWS ? MOST : AMX_ROWS;
            const int32_t at = maximum(minimum(done, block.positions - places), 0);
            const uint8_t* pixels = from + static_cast<int64_t>(at) * block.pitch;
            if (places == MOST && block.positions >= MOST)
                amx_tile_of<2, COLUMN_TILES>(sums, product, pixels, block.pitch, weights, first, quads, fetch);
            else
                amx_tile_of<1, COLUMN_TILES>(sums, product, pixels, block.pitch, weights, first, quads, fetch);
            fetch = false;
            const int32_t end = block.positions >= MOST ? at + places : minimum(at + AMX_ROWS, block.positions);
            if (block.period == block.width) {  // every place is a pixel
                const ivec16* of_first = sums + (done - at) * COLUMN_TILES;
                finish(ready_sums{of_first, COLUMN_TILES, in_order, pixel, end - done, first, COLUMN_TILES});
                pixel += end - done;
                done = end;
                continue;
            }
            int32_t count = 0;
            for (; done < end; done++) {
                if (x < block.width) row[count++] = done - at;
                if (++x == block.period) x = 0;
            }
            finish(ready_sums{sums, COLUMN_TILES, row, pixel, count, first, COLUMN_TILES});
            pixel += count;
        }
    }
}

// Needs a configuration for steps of so many quads, and a source that may be read up to 15 pixels behind its end, unless
// it has 16.
// \tparam FINISH Function that stores the finished sums of pixels.
template <class FINISH>
inline void amx_block(const uint8_t* source, amx_product product, int quads, const pixel_block& block,
                      const product_panel& panel, const FINISH& finish) {
    int j = 0;
    for (; j + 1 < panel.vectors; j += 2) amx_columns<2>(source, product, quads, block, panel.weights, j, finish);
    if (j < panel.vectors) amx_columns<1>(source, product, quads, block, panel.weights, j, finish);
}

#endif

#endif

}  // namespace fpga
