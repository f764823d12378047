// Packed weights of the MAC array, where they lie: floats, or elements of 16 or 8 bits that become the floats that they are
// on their way to the array. Twice or four times as many of these come with a beat of the memory bank.
#pragma once
#include "command.hpp"
#include "lib/narrow.hpp"
#include "lib/vector.hpp"
#include "lib/vector_int8.hpp"
#include "tiles.hpp"

namespace fpga {

constexpr bool is_weight_format(int32_t format) {
    return format == FORMAT_F32 || format == FORMAT_BF16 || format == FORMAT_F16 || format == FORMAT_I8;
}

// Words that so many elements, a multiple of 4, take.
FPGA_INLINE int64_t words_of(int32_t format, int64_t elements) {
    return format == FORMAT_F32 ? elements : format == FORMAT_I8 ? elements / 4 : elements / 2;
}

#ifdef __SYNTHESIS__

// The array reads weights from a local memory.
typedef vec16 mac_weight;
FPGA_INLINE vec16 weight_vector(const mac_weight* weight, int64_t at) { return load_aligned(weight, at); }

// Brings `depth` steps of k of a panel on chip, as wide as the array: the first `used` of each step's `stored` vectors,
// which begin `first` vectors behind the operand's first beat.
inline void bring_weights(vec16 block[tile::K_BLOCK * tile::MAX_VECTORS], const vec16* weights, int64_t operand,
                          int32_t format, int64_t first, int32_t depth, int32_t used, int32_t stored) {
    if (format == FORMAT_F32) {
    weights_of_block:
        for (int32_t k = 0; k < depth; k++) {
#pragma HLS loop_tripcount min = 1 max = 2048
        vectors:
            for (int32_t j = 0; j < used; j++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 4
                block[k * tile::MAX_VECTORS + j] = weights[operand / VEC + first + k * stored + j];
            }
        }
        return;
    }
    // The first beat may begin, and the last one end, with a vector of another block.
    const int32_t in_beat = format == FORMAT_I8 ? 4 : 2;
    const int64_t vectors = first % in_beat + static_cast<int64_t>(depth) * stored;
    const int64_t beats = (vectors + in_beat - 1) / in_beat, begin = operand / VEC + first / in_beat;
    int32_t k = 0, j = 0, skip = static_cast<int32_t>(first % in_beat);
    if (format == FORMAT_I8) {
    beats_of_bytes:
        for (int64_t i = 0; i < beats; i++) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 1 max = 2048
            ivec16 byte[4];
            split_beat(bits_of(weights[begin + i]), byte);
        quarters:
            for (int quarter = 0; quarter < 4; quarter++) {
#pragma HLS unroll
                if (skip > 0) {
                    skip--;
                    continue;
                }
                if (k < depth && j < used)
                    block[k * tile::MAX_VECTORS + j] = to_float((byte[quarter] << ivec16(24)) >> ivec16(24));
                if (++j == stored) {
                    j = 0;
                    k++;
                }
            }
        }
        return;
    }
beats_of_block:
    for (int64_t i = 0; i < beats; i++) {
#pragma HLS pipeline II = 2
#pragma HLS loop_tripcount min = 1 max = 4096
        ivec16 pattern[2];
        split_beat(bits_of(weights[begin + i]), pattern);
    halves:
        for (int half = 0; half < 2; half++) {
#pragma HLS unroll
            if (skip > 0) {
                skip--;
                continue;
            }
            if (k < depth && j < used)
                block[k * tile::MAX_VECTORS + j] = format == FORMAT_BF16 ? from_bf16(pattern[half])
                                                                         : from_f16(pattern[half]);
            if (++j == stored) {
                j = 0;
                k++;
            }
        }
    }
}

#else

// Software reads them at any float's address.
typedef memory_float mac_weight;
FPGA_INLINE vec16 weight_vector(const mac_weight* weight, int64_t at) { return load(weight, at); }

// Elements of fewer bits.
// \tparam FORMAT Format of the weights, an element_format.
template <int FORMAT>
struct narrow_weights {
    typedef memory_half element;
    const memory_half* from;
};
template <>
struct narrow_weights<FORMAT_I8> {
    typedef uint8_t element;
    const uint8_t* from;
};
// \tparam FORMAT Format of the weights, an element_format.
template <int FORMAT>
FPGA_INLINE narrow_weights<FORMAT> operator+(narrow_weights<FORMAT> weight, int64_t elements) {
    return {weight.from + elements};
}
FPGA_INLINE vec16 weight_vector(narrow_weights<FORMAT_BF16> weight, int64_t at) {
#ifdef FPGA_LOAD_BF16
    return load_bf16(weight.from + at);
#else
    return from_bf16(load_halves(weight.from + at));
#endif
}
FPGA_INLINE vec16 weight_vector(narrow_weights<FORMAT_F16> weight, int64_t at) {
#ifdef FPGA_LOAD_F16
    return load_f16(weight.from + at);
#else
    return from_f16(load_halves(weight.from + at));
#endif
}
FPGA_INLINE vec16 weight_vector(narrow_weights<FORMAT_I8> weight, int64_t at) {
    return to_float(widened_bytes(weight.from + at, true));
}
// \tparam FORMAT Format of the weights, an element_format.
template <int FORMAT>
FPGA_INLINE void prefetch(narrow_weights<FORMAT> weight, int64_t at) {
    __builtin_prefetch(weight.from + at);
}

// Weights of any format; `from` is the first one's address.
struct packed_weights {
    const mac_weight* from;
    int32_t format;

    packed_weights(const mac_weight* from, int32_t format = FORMAT_F32) : from(from), format(format) {}
    packed_weights at(int64_t elements) const { return {from + words_of(format, elements), format}; }
    // \tparam FORMAT Format of the weights, an element_format.
    template <int FORMAT>
    narrow_weights<FORMAT> narrow() const {
        return {reinterpret_cast<const typename narrow_weights<FORMAT>::element*>(from)};
    }
};

// \tparam WEIGHTS Pointer to weights, or their narrow form.
template <class WEIGHTS>
inline void widen_steps(float* to, WEIGHTS weight, int32_t depth, int32_t used, int32_t stored) {
each_k:
    for (int32_t k = 0; k < depth; k++) {
    vectors:
        for (int32_t j = 0; j < used; j++)
            store(to, (k * used + j) * VEC, weight_vector(weight, (k * stored + j) * VEC));
    }
}

// Steps of k one after the other, of each the first `used` of its `stored` vectors.
inline void widen(float* to, const packed_weights& weight, int32_t depth, int32_t used, int32_t stored) {
    if (weight.format == FORMAT_BF16)
        widen_steps(to, weight.narrow<FORMAT_BF16>(), depth, used, stored);
    else if (weight.format == FORMAT_I8)
        widen_steps(to, weight.narrow<FORMAT_I8>(), depth, used, stored);
    else
        widen_steps(to, weight.narrow<FORMAT_F16>(), depth, used, stored);
}

#endif

}  // namespace fpga
