// The second operand of an int8 product that lies in the arena, packed as weights are: [quad][16 * vectors][4], signed, a
// panel at a time, zeros where it has no k or column.
#pragma once
#include "command.hpp"
#include "lib/vector_int8.hpp"
#include "tiles.hpp"

namespace fpga {

// A matrix of depth x columns in the arena, in bytes; one of the strides is 1.
struct b_int8_source {
    int64_t first;
    int32_t depth, columns;
    int32_t k_stride, column_stride;
    int32_t flip;  // FLIP_BYTES where its bytes are unsigned
};

FPGA_INLINE b_int8_source b_int8_of(const gemm_int8_command& c, int32_t matrix) {
    b_int8_source b;
    b.first = static_cast<int64_t>(c.b) + offset_of(matrix / c.batch[1], c.b_stride[0]) +
              offset_of(matrix % c.batch[1], c.b_stride[1]);
    b.depth = c.depth;
    b.columns = c.columns;
    b.k_stride = c.b_stride[2];
    b.column_stride = c.b_stride[3];
    b.flip = c.b_format == FORMAT_U8 ? FLIP_BYTES : 0;
    return b;
}

FPGA_INLINE uint8_t b_byte(const b_int8_source& b, const vec16* arena, int32_t k, int32_t column) {
    const bool inside = k < b.depth && column < b.columns;
    const int64_t at = b.first + offset_of(k, b.k_stride) + offset_of(column, b.column_stride);
    return static_cast<uint8_t>(inside ? byte_at(arena, at) ^ (b.flip & 0xff) : 0);
}

// Lane i: four bytes of column `column` + i from k on, one after the other or a k_stride apart.
FPGA_INLINE ivec16 b_quads(const b_int8_source& b, const vec16* arena, int32_t k, int32_t column) {
    alignas(64) uint8_t bytes[4 * VEC];
#pragma HLS array_partition variable = bytes complete
#ifndef __SYNTHESIS__
    if (b.column_stride == 1 && k + 4 <= b.depth && column + VEC <= b.columns) {
        const uint8_t* from = bytes_of_region(arena) + b.first + offset_of(k, b.k_stride) + column;
        return quads_of(from, from + b.k_stride, from + 2 * static_cast<int64_t>(b.k_stride),
                        from + 3 * static_cast<int64_t>(b.k_stride)) ^
               ivec16(b.flip);
    }
#endif
each_byte:
    for (int i = 0; i < 4 * VEC; i++) {
#pragma HLS unroll
        bytes[i] = b_byte(b, arena, k + i % 4, column + i / 4);
    }
    return load_quads(bytes, 0);
}

// Columns [column, column + 16 * vectors); their sums go to `column_sum`.
inline void pack_int8_b(vec16* block, ivec16* column_sum, const b_int8_source& b, const vec16* arena, int32_t column,
                        int32_t quads, int32_t vectors, int32_t pitch) {
    const dot_inputs ones(ivec16(0x01010101));
each_vector:
    for (int32_t j = 0; j < vectors; j++) {
#pragma HLS loop_tripcount min = 1 max = 4
        ivec16 sum(0);
        int32_t q = 0;
#ifndef __SYNTHESIS__
        // k is contiguous: 16 quads of 16 columns at a time, transposed.
        for (; b.k_stride == 1 && column + (j + 1) * VEC <= b.columns && 4 * (q + VEC) <= b.depth; q += VEC) {
            vec16 square[VEC];
            for (int i = 0; i < VEC; i++)
                square[i] = from_bits(load_quads(bytes_of_region(arena),
                                                 b.first + 4 * q + offset_of(column + j * VEC + i, b.column_stride)));
            transpose(square);
            for (int i = 0; i < VEC; i++) {
                const ivec16 x = bits_of(square[i]) ^ ivec16(b.flip);
                sum = dot4(sum, ones, dot_weights(x));
                block[(q + i) * pitch + j] = from_bits(x);
            }
        }
#endif
    each_quad:
        for (; q < quads; q++) {
#pragma HLS pipeline
#pragma HLS loop_tripcount min = 1 max = 512
            const ivec16 x = b_quads(b, arena, 4 * q, column + j * VEC);
            sum = dot4(sum, ones, dot_weights(x));
            block[q * pitch + j] = from_bits(x);
        }
        column_sum[j] = sum;
    }
}

}  // namespace fpga
