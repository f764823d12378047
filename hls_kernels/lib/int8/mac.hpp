// The sums of an int8 product (dot/block.hpp) and their way to what is stored.
#pragma once
#include "epilogue.hpp"
#include "lib/dot/block.hpp"

namespace fpga {

struct int8_block : pixel_block {
    // Of each pixel, or null, see pixel_sums: what its sums lack, its scale, how often offsets are added.
    const int32_t* row_term;
    const float* row_scale;
    const int32_t* row_times;
};

// A panel's part of a command.
struct int8_panel : product_panel {
    uint32_t column;            // of the first channel, from the first of a pixel
    uint32_t parameter;         // words
    int32_t stride;             // words from an offset to its scale
    int32_t lanes;              // of the last vector, how many are stored
    const ivec16* column_term;  // what the sums of each vector's channels lack, or null
};

FPGA_INLINE channel_group channels_of(const int8_panel& panel, int j) {
    return {panel.column + j * VEC, panel.parameter + j * VEC, panel.stride, j == panel.vectors - 1 ? panel.lanes : VEC,
            panel.column_term ? panel.column_term[j] : ivec16(0)};
}

#ifdef __SYNTHESIS__

inline void finish_int8_block(const ivec16 sums[PARTIAL_VECTORS], const int8_block& block, const int8_panel& panel,
                              const int8_epilogue& e, vec16* arena, const vec16* weights) {
    int32_t row[BLOCK_MAX];
rows:
    for (int32_t i = 0; i < block.count; i++) {
#pragma HLS pipeline II = 1
        row[i] = i;
    }
    const pixel_sums from = {sums,           tile::MAX_VECTORS, block.count,    row, block.output, block.residual,
                             block.row_term, block.row_scale,   block.row_times};
each_vector:
    for (int j = 0; j < panel.vectors; j++) {
#pragma HLS loop_tripcount min = 1 max = 4
        finish_int8(from, j, int8_channels(), channels_of(panel, j), e, arena, weights);
    }
}

#else

// amx_quads: of a step of the AMX tiles, for which they are configured, or 0. is_signed: as the source's bytes are
// then.
inline void mac_int8(const uint8_t* source, const int8_block& block, const int8_panel& panel, int amx_quads,
                     bool is_signed, const int8_epilogue& e, vec16* arena, const vec16* weights) {
    int8_channels channels[tile::MAX_VECTORS];
    channel_group to[tile::MAX_VECTORS];
    for (int j = 0; j < panel.vectors; j++) {
        to[j] = channels_of(panel, j);
        channels[j] = int8_channels_of(weights, e, to[j]);
    }
    const auto finish = [&](const ready_sums& ready) {
        const int32_t first = ready.first;
        const pixel_sums from = {ready.sums,
                                 ready.pitch,
                                 ready.count,
                                 ready.row,
                                 block.output + first,
                                 block.residual + first,
                                 block.row_term ? block.row_term + first : nullptr,
                                 block.row_scale ? block.row_scale + first : nullptr,
                                 block.row_times ? block.row_times + first : nullptr};
        finish_int8_vectors(from, 0, ready.vectors, channels + ready.vector, to + ready.vector, e, arena, weights);
    };
#ifdef FPGA_AMX
    if (amx_quads) {
        amx_block(source, is_signed ? AMX_SIGNED : AMX_UNSIGNED, amx_quads, block, panel, finish);
        return;
    }
#endif
    (void)amx_quads, (void)is_signed;
    dot_block<bytes_product>(source, block, panel, finish);
}

#endif

}  // namespace fpga
