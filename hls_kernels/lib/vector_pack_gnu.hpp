// Vectors of 32 bits to bytes and back, many at once: for software alone, what the int8 epilogue and the depthwise loops need
// beside vector_int8_gnu.hpp.
//
//   `store_saturated<VECTORS>(to, x, limits, lanes)` The upper halves of the lanes of 1 to 4 vectors, VECTORS at each place
//                                                    `to`. Each is clamped to limits from 0 to 255 and flipped. The bytes
//                                                    lie one behind the other. The last vector of a place has `lanes`
//                                                    lanes; with several places it has all.
//   `store_pieces<VECTORS>(to, line, lanes)`         the same of bytes.
//
// On CPUs that pack whole registers (FPGA_PACKS), a *line* is 64 bytes, and holds four vectors of 32 bits in line order. In
// line order lane 4 l + i of vector k has byte 16 l + 4 k + i, because x86 unpacks and packs bytes within 128 bits.
//
//   `line_order(x)`           four vectors from the order of bytes to that of a line, or back.
//   `quads_of_lines(a, b, c, d, x)`   lanes of x, in line order: bytes a, b, c, d of a byte's place.
//   `packed_line(x, limits)`  the upper halves of four vectors' lanes in line order, clamped and flipped, as bytes.
//   `join_quarters(a, b, c, d), join_halves(a, b)`   lines from several places.
//   `store_part<QUARTERS>(to, line, part)`.
#pragma once
#include <cstdint>
#include <cstring>

#include "vector_int8.hpp"

namespace fpga {

#if defined(__AVX512F__) && defined(__AVX512BW__)
#define FPGA_PACKS
#endif

// Limits of unsigned bytes, and what flips them to what is stored.
struct byte_limits {
    int32_t low, high;
    int32_t flip;
};

#ifdef FPGA_PACKS

typedef int16_t native_words __attribute__((vector_size(64)));
typedef char native_chars __attribute__((vector_size(64)));

// In each 128 bits the upper halves of four lanes of a, then those of b.
FPGA_INLINE native_words packed_words(const ivec16& a, const ivec16& b) {
    return __builtin_shufflevector((native_words)a.part[0], (native_words)b.part[0], 1, 3, 5, 7, 33, 35, 37, 39, 9, 11,
                                   13, 15, 41, 43, 45, 47, 17, 19, 21, 23, 49, 51, 53, 55, 25, 27, 29, 31, 57, 59, 61,
                                   63);
}

FPGA_INLINE native_beat packed_bytes(const native_words& a, const native_words& b) {
#if defined(__clang__)
    return (native_beat)__builtin_ia32_packuswb512(a, b);
#else
    return (native_beat)__builtin_ia32_packuswb512_mask(a, b, native_chars{}, ~0ull);
#endif
}

FPGA_INLINE native_beat clamped(const native_beat& x, const byte_limits& limits) {
    const native_beat low = static_cast<uint8_t>(limits.low) - native_beat{};
    const native_beat high = static_cast<uint8_t>(limits.high) - native_beat{};
#if defined(__clang__)
    const native_beat above = __builtin_elementwise_max(x, low);
    return __builtin_elementwise_min(above, high) ^ static_cast<uint8_t>(limits.flip);
#else
    const native_chars above = __builtin_ia32_pmaxub512_mask((native_chars)x, (native_chars)low, native_chars{}, ~0ull);
    return (native_beat)__builtin_ia32_pminub512_mask(above, (native_chars)high, native_chars{}, ~0ull) ^
           static_cast<uint8_t>(limits.flip);
#endif
}

FPGA_INLINE bvec64 packed_line(const ivec16 (&x)[4], const byte_limits& limits) {
    bvec64 r;
    r.part[0] = clamped(packed_bytes(packed_words(x[0], x[1]), packed_words(x[2], x[3])), limits);
    return r;
}

FPGA_INLINE void line_order(ivec16 (&x)[4]) {
    native_int from[4], low[2], high[2];
    for (int i = 0; i < 4; i++) from[i] = x[i].part[0];
    for (int i = 0; i < 2; i++) {
        low[i] = __builtin_shufflevector(from[2 * i], from[2 * i + 1], 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21,
                                         22, 23);
        high[i] = __builtin_shufflevector(from[2 * i], from[2 * i + 1], 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15,
                                          28, 29, 30, 31);
    }
    x[0].part[0] = __builtin_shufflevector(low[0], low[1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    x[1].part[0] = __builtin_shufflevector(low[0], low[1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                           31);
    x[2].part[0] = __builtin_shufflevector(high[0], high[1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    x[3].part[0] = __builtin_shufflevector(high[0], high[1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                           31);
}

// Of each 128 bits the lower (or upper) half of a and b, byte by byte or word by word.
// \tparam UPPER Whether the upper halves of each 128 bits are used, not the lower ones.
template <bool UPPER>
FPGA_INLINE native_beat interleaved_bytes(const native_beat& a, const native_beat& b) {
    native_beat places;
    for (int i = 0; i < 64; i++) places[i] = static_cast<uint8_t>(i / 16 * 16 + i % 16 / 2 + UPPER * 8 + i % 2 * 64);
    return __builtin_shuffle(a, b, places);
}
// \tparam UPPER Whether the upper halves of each 128 bits are used, not the lower ones.
template <bool UPPER>
FPGA_INLINE native_int interleaved_words(const native_beat& a, const native_beat& b) {
    native_words places;
    for (int i = 0; i < 32; i++) places[i] = static_cast<int16_t>(i / 8 * 8 + i % 8 / 2 + UPPER * 4 + i % 2 * 32);
    return (native_int)__builtin_shuffle((native_words)a, (native_words)b, places);
}

FPGA_INLINE void quads_of_lines(const bvec64& a, const bvec64& b, const bvec64& c, const bvec64& d, ivec16* quads) {
    const native_beat low = interleaved_bytes<false>(a.part[0], b.part[0]),
                      high = interleaved_bytes<true>(a.part[0], b.part[0]);
    const native_beat low_rest = interleaved_bytes<false>(c.part[0], d.part[0]);
    const native_beat high_rest = interleaved_bytes<true>(c.part[0], d.part[0]);
    quads[0].part[0] = interleaved_words<false>(low, low_rest);
    quads[1].part[0] = interleaved_words<true>(low, low_rest);
    quads[2].part[0] = interleaved_words<false>(high, high_rest);
    quads[3].part[0] = interleaved_words<true>(high, high_rest);
}

// A line of four places, 16 bytes of each, or of two, 32 of each.
FPGA_INLINE bvec64 join_quarters(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d) {
    typedef int64_t quarter_t __attribute__((vector_size(16)));
    typedef int64_t memory_quarter __attribute__((vector_size(16), aligned(1), may_alias));
    typedef int64_t half_t __attribute__((vector_size(32)));
    const auto quarter = [](const uint8_t* at) { return (quarter_t) * reinterpret_cast<const memory_quarter*>(at); };
    const half_t low = __builtin_shufflevector(quarter(a), quarter(b), 0, 1, 2, 3);
    const half_t high = __builtin_shufflevector(quarter(c), quarter(d), 0, 1, 2, 3);
    bvec64 r;
    r.part[0] = (native_beat)__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
    return r;
}
FPGA_INLINE bvec64 join_halves(const uint8_t* a, const uint8_t* b) {
    typedef int64_t half_t __attribute__((vector_size(32)));
    typedef int64_t memory_half_line __attribute__((vector_size(32), aligned(1), may_alias));
    const half_t low = (half_t) * reinterpret_cast<const memory_half_line*>(a);
    const half_t high = (half_t) * reinterpret_cast<const memory_half_line*>(b);
    bvec64 r;
    r.part[0] = (native_beat)__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
    return r;
}

// Part `part` of a line's parts of QUARTERS times 16 bytes.
// \tparam QUARTERS Size of a part in units of 16 bytes.
template <int QUARTERS>
FPGA_INLINE void store_part(uint8_t* to, const bvec64& line, int part) {
    typedef int64_t part_t __attribute__((vector_size(16 * QUARTERS)));
    typedef int64_t memory_part __attribute__((vector_size(16 * QUARTERS), aligned(1), may_alias));
    alignas(64) part_t parts[4 / QUARTERS];
    std::memcpy(parts, &line.part[0], sizeof line.part[0]);
    *reinterpret_cast<memory_part*>(to) = parts[part];
}

// \tparam VECTORS Vectors of 16 lanes at each address.
// \tparam PLACES Number of addresses.
template <int VECTORS, int PLACES>
FPGA_INLINE void store_pieces(uint8_t* const (&to)[PLACES], const bvec64& line, int lanes) {
    if (PLACES > 1) {
        UNROLL for (int i = 0; i < PLACES; i++) store_part<PLACES == 2 ? 2 : 1>(to[i], line, i);
        return;
    }
    const native_int bytes = (native_int)line.part[0];
    const int32_t count = (VECTORS - 1) * VEC + lanes;
    if (count == 4 * VEC) {
        *reinterpret_cast<memory_beat*>(to[0]) = line.part[0];
        return;
    }
    if (count % VEC != 0) {
        alignas(64) uint8_t all[4 * VEC];
        *reinterpret_cast<memory_beat*>(all) = line.part[0];
        std::memcpy(to[0], all, static_cast<size_t>(count));
        return;
    }
    typedef int32_t half_t __attribute__((vector_size(32)));
    typedef int32_t quarter_t __attribute__((vector_size(16)));
    const half_t half = __builtin_shufflevector(bytes, bytes, 0, 1, 2, 3, 4, 5, 6, 7);
    const quarter_t first = __builtin_shufflevector(bytes, bytes, 0, 1, 2, 3);
    const quarter_t third = __builtin_shufflevector(bytes, bytes, 8, 9, 10, 11);
    if (VECTORS > 1) std::memcpy(to[0], &half, sizeof half);
    if (VECTORS == 3) std::memcpy(to[0] + sizeof half, &third, sizeof third);
    if (VECTORS == 1) std::memcpy(to[0], &first, sizeof first);
}

// \tparam ALL Number of vectors, 1 to 4.
template <int ALL>
FPGA_INLINE bvec64 saturated_line(const ivec16 (&x)[ALL], const byte_limits& limits) {
    const native_words low = packed_words(x[0], x[ALL > 1 ? 1 : 0]);
    const native_words high = ALL > 2 ? packed_words(x[ALL > 2 ? 2 : 0], x[ALL - 1]) : low;
    const native_int interleaved = (native_int)clamped(packed_bytes(low, high), limits);
    const native_int places = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    bvec64 line;
    line.part[0] = (native_beat)__builtin_shuffle(interleaved, places);
    return line;
}

// \tparam VECTORS Vectors of 16 lanes at each address.
// \tparam PLACES Number of addresses.
// \tparam ALL Number of vectors, 1 to 4.
template <int VECTORS, int PLACES, int ALL>
FPGA_INLINE void store_saturated(uint8_t* const (&to)[PLACES], const ivec16 (&x)[ALL], const byte_limits& limits,
                                 int lanes) {
    store_pieces<VECTORS>(to, saturated_line(x, limits), lanes);
}

#else

// \tparam VECTORS Vectors of 16 lanes at each address.
// \tparam PLACES Number of addresses.
template <int VECTORS, int PLACES>
FPGA_INLINE void store_pieces(uint8_t* const (&to)[PLACES], const bvec64& line, int lanes) {
    alignas(64) uint8_t all[4 * VEC];
    std::memcpy(all, &line, sizeof all);
    const int32_t count = (VECTORS - 1) * VEC + lanes;
    UNROLL for (int i = 0; i < PLACES; i++) std::memcpy(to[i], all + i * VECTORS * VEC, static_cast<size_t>(count));
}

// \tparam VECTORS Vectors of 16 lanes at each address.
// \tparam PLACES Number of addresses.
// \tparam ALL Number of vectors, 1 to 4.
template <int VECTORS, int PLACES, int ALL>
FPGA_INLINE void store_saturated(uint8_t* const (&to)[PLACES], const ivec16 (&x)[ALL], const byte_limits& limits,
                                 int lanes) {
    UNROLL for (int i = 0; i < ALL; i++) {
        const int v = i % VECTORS;
        const ivec16 r = vclamp(x[i] >> ivec16(16), ivec16(limits.low), ivec16(limits.high)) ^ ivec16(limits.flip);
        store_bytes(reinterpret_cast<vec16*>(to[i / VECTORS]), v * VEC, r, v == VECTORS - 1 ? lanes : VEC);
    }
}

// \tparam ALL Number of vectors, 1 to 4.
template <int ALL>
FPGA_INLINE bvec64 saturated_line(const ivec16 (&x)[ALL], const byte_limits& limits) {
    alignas(64) uint8_t line[4 * VEC];
    uint8_t* const to[1] = {line};
    store_saturated<ALL>(to, x, limits, VEC);
    return load_beat(line);
}

#endif

}  // namespace fpga
