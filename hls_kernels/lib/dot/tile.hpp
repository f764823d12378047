// One tile of products of narrow numbers in registers: pixels (or matrix rows) by output channels. A lane and step uses a
// *quad*: four bytes of k, which are four numbers of 8 bits or two of bfloat16 (PRODUCT).
//
//   `tile[i][n] = first[n] + sum_k source[row(i) + offset(k)] * weight[k][n]`.
//
// The index k goes through runs of bytes that are contiguous from a pixel's origin. Sums of integers are exact: tiles of any size
// and order give the same. Sums of floats are added up in the order of k, whatever the tile.
#pragma once
#include "lib/vector_bf16.hpp"
#include "lib/vector_int8.hpp"
#include "tiles.hpp"

namespace fpga {

// Four unsigned by four signed bytes, 32-bit sums.
struct bytes_product {
    typedef dot_inputs inputs;
    typedef dot_weights weights;
    static FPGA_INLINE ivec16 dot(const ivec16& sum, const inputs& x, const weights& w) { return dot4(sum, x, w); }
    static FPGA_INLINE ivec16 add(const ivec16& a, const ivec16& b) { return a + b; }
#ifdef __SYNTHESIS__
    static constexpr int PHASES = 1;
#else
    static constexpr bool IN_ONE = HAS_DOT4;  // instruction
    static constexpr int NUMBER_BYTES = 1;
#endif
};

// Two by two numbers of bfloat16; the sums are the bits of floats.
struct bf16_product {
    typedef dot_pairs inputs;
    typedef dot_pairs weights;
    static FPGA_INLINE ivec16 dot(const ivec16& sum, const inputs& x, const weights& w) {
        return bits_of(dot2(from_bits(sum), x, w));
    }
    static FPGA_INLINE ivec16 add(const ivec16& a, const ivec16& b) { return bits_of(from_bits(a) + from_bits(b)); }
#ifdef __SYNTHESIS__
    // An fp32 adder takes several cycles, so one sum could not take a product every cycle: so many take them in turn.
    static constexpr int PHASES = 8;
#else
    static constexpr bool IN_ONE = HAS_DOT2;
    static constexpr int NUMBER_BYTES = 2;
#endif
};

// Contiguous bytes of k, in quads, `offset` bytes from a pixel's origin.
struct k_run {
    uint32_t offset;
    int32_t quads;
};

// Weights of a panel, [quad][16 * pitch][4].
struct dot_panel {
    const k_run* runs;
    int32_t run_count;
    int32_t pitch;  // vectors from one quad to the next
#ifdef __SYNTHESIS__
    const vec16* weight;  // on chip
#else
    const uint8_t* weight;
#endif
};

FPGA_INLINE ivec16 panel_vector(const dot_panel& panel, int64_t quad, int j) {
    const int64_t vector = quad * panel.pitch + j;
#ifdef __SYNTHESIS__
    return bits_of(panel.weight[vector]);
#else
    return load_quads(panel.weight, vector * 4 * VEC);
#endif
}

#ifdef __SYNTHESIS__

// Adds to `sum`. The weights begin `first` vectors into the panel.
// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
template <class PRODUCT, int ROWS, int VECTORS>
inline void dot_tile(ivec16 (&sum)[ROWS][VECTORS], const uint8_t* source, const uint32_t (&row)[ROWS],
                     const dot_panel& panel, int first) {
    constexpr int PHASES = PRODUCT::PHASES;
    ivec16 phase_sum[PHASES][ROWS][VECTORS];
#pragma HLS array_partition variable = phase_sum complete dim = 2
#pragma HLS array_partition variable = phase_sum complete dim = 3
begin_phases:
    for (int phase = 0; phase < PHASES; phase++) {
#pragma HLS pipeline II = 1
        for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                phase_sum[phase][i][j] = phase == 0 ? sum[i][j] : ivec16(0);
            }
        }
    }
    int64_t quad = 0;
runs:
    for (int32_t r = 0; r < panel.run_count; r++) {
#pragma HLS loop_tripcount min = 1 max = 9
        const uint32_t origin = panel.runs[r].offset;
    quads:
        for (int32_t q = 0; q < panel.runs[r].quads; q++, quad++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 512
            const int phase = static_cast<int>(quad % PHASES);
            typename PRODUCT::weights w[VECTORS];
        weights_of_quad:
            for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                w[j] = typename PRODUCT::weights(panel_vector(panel, quad, first + j));
            }
        rows:
            for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
                const typename PRODUCT::inputs x(ivec16(quad_at(source, int64_t{row[i]} + origin + 4 * q)));
            columns:
                for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                    phase_sum[phase][i][j] = PRODUCT::dot(phase_sum[phase][i][j], x, w[j]);
                }
            }
        }
    }
fold_phases:
    for (int phase = 0; phase < PHASES; phase++) {
#pragma HLS pipeline
        for (int i = 0; i < ROWS; i++) {
#pragma HLS unroll
            for (int j = 0; j < VECTORS; j++) {
#pragma HLS unroll
                sum[i][j] = phase == 0 ? phase_sum[0][i][j] : PRODUCT::add(sum[i][j], phase_sum[phase][i][j]);
            }
        }
    }
}

#else

// x, which compilers then keep as it is: they would spread the addresses of a tile's rows over more registers than there are.
// \tparam T Type of the value.
template <class T>
FPGA_INLINE T kept(T x) {
    asm("" : "+r"(x));
    return x;
}

// Bytes of a tile's rows, from their origins in the source on.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
template <int ROWS>
struct any_rows {
    const uint8_t* source;
    uint32_t row[ROWS];

    FPGA_INLINE any_rows from(uint32_t offset) const {
        any_rows r = *this;
        r.source += offset;
        return r;
    }
    FPGA_INLINE int32_t quad(int i) const { return quad_at(source, row[i]); }
    FPGA_INLINE void next_quad() { source += 4; }
};

// Of rows `apart` bytes from each other: an address for each four of them, so that all stay in registers.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
template <int ROWS>
struct even_rows {
    const uint8_t* fourth[(ROWS + 3) / 4];
    int64_t apart, thrice;

    FPGA_INLINE even_rows(const uint8_t* first, int64_t apart) : apart(apart), thrice(kept(3 * apart)) {
        for (int g = 0; g < (ROWS + 3) / 4; g++) fourth[g] = first + 4 * g * apart;
    }
    FPGA_INLINE even_rows from(uint32_t offset) const {
        even_rows r = *this;
        for (const uint8_t*& at : r.fourth) at = kept(at + offset);
        return r;
    }
    FPGA_INLINE int32_t quad(int i) const { return quad_at(fourth[i / 4], i % 4 == 3 ? thrice : i % 4 * apart); }
    FPGA_INLINE void next_quad() {
        for (const uint8_t*& at : fourth) at = kept(at + 4);
    }
};

// Adds to `sum`. The weights begin `first` vectors into the panel. AHEAD: each quad has the line `ahead` bytes behind its
// weights brought near.
// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
// \tparam AHEAD Whether the weights of the next panel are prefetched.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
// \tparam ROW_BYTES Addresses of the rows, any_rows or even_rows.
template <class PRODUCT, bool AHEAD = false, int ROWS, int VECTORS, class ROW_BYTES>
FPGA_INLINE void dot_tile(ivec16 (&sum)[ROWS][VECTORS], const ROW_BYTES& rows, const dot_panel& panel, int first,
                          int64_t ahead = 0) {
    const int64_t step = int64_t{panel.pitch} * 4 * VEC;
    const uint8_t* weight = panel.weight + int64_t{first} * 4 * VEC;
    for (int32_t r = 0; r < panel.run_count; r++) {
        ROW_BYTES at = rows.from(panel.runs[r].offset);
        for (int32_t q = panel.runs[r].quads; q > 0; q--, weight += step, at.next_quad()) {
            if (AHEAD) __builtin_prefetch(weight + ahead, 0, 2);
            typename PRODUCT::weights w[VECTORS];
            UNROLL for (int j = 0; j < VECTORS; j++) {
                w[j] = typename PRODUCT::weights(load_quads(weight, int64_t{j} * 4 * VEC));
            }
            UNROLL for (int i = 0; i < ROWS; i++) {
                const typename PRODUCT::inputs x(ivec16(at.quad(i)));
                UNROLL for (int j = 0; j < VECTORS; j++) { sum[i][j] = PRODUCT::dot(sum[i][j], x, w[j]); }
            }
        }
    }
}

// Vectors that a tile takes at once, and its rows: its sums, a step's weights and an input fill the registers. Without one
// instruction for a product weights and inputs take two registers each.
// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
template <class PRODUCT>
constexpr int DOT_VECTORS = NATIVE_REGISTERS < 32 || PARTS > 1 ? 1
                            : PRODUCT::IN_ONE                  ? 4
                                                               : 2;
// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
// \tparam VECTORS Vectors of 16 output channels of the tile or panel.
template <class PRODUCT, int VECTORS>
constexpr int DOT_ROWS = PARTS > 2      ? (NATIVE_REGISTERS < 32 ? 1 : 4)
                         : PARTS == 2   ? (PRODUCT::IN_ONE ? 6 : 4)
                         : VECTORS == 4 ? 6
                         : VECTORS == 3 ? 8
                                        : 12;

#endif

}  // namespace fpga
