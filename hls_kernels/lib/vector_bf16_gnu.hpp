// vector_bf16.hpp on GNU vector extensions. The instructions are named in assembly, because g++ and clang++ have changed the
// types of their built-in functions for bfloat16.
#pragma once
#include <cstdint>
#include <cstring>

namespace fpga {

#define EACH_PART UNROLL for (int p = 0; p < PARTS; p++)

// Whether the host multiplies and adds two pairs in one instruction.
#if defined(__AVX512BF16__) && defined(__AVX512F__)
#define FPGA_BF16
constexpr bool HAS_DOT2 = true;
#else
constexpr bool HAS_DOT2 = false;
#endif

FPGA_INLINE const memory_half* halves_of(const vec16* region) { return reinterpret_cast<const memory_half*>(region); }

FPGA_INLINE ivec16 load_halves(const vec16* region, int64_t at, int32_t lanes) {
    if (lanes >= VEC) return load_halves(halves_of(region) + at);
    uint16_t lane[VEC] = {};
    for (int i = 0; i < lanes; i++) lane[i] = halves_of(region)[at + i];
    return load_halves(lane);
}

FPGA_INLINE ivec16 load_pairs(const vec16* region, int64_t at) {
    typedef int32_t memory_pairs __attribute__((vector_size(4 * NATIVE_LANES), aligned(2), may_alias));
    ivec16 r;
    EACH_PART r.part[p] = (native_int) reinterpret_cast<const memory_pairs*>(halves_of(region) + at)[p];
    return r;
}

#ifdef FPGA_BF16

struct dot_pairs {
    ivec16 pairs;
    FPGA_INLINE dot_pairs() {}
    FPGA_INLINE explicit dot_pairs(const ivec16& x) : pairs(x) {}
};

FPGA_INLINE vec16 dot2(const vec16& sum, const dot_pairs& x, const dot_pairs& w) {
    vec16 r = sum;
    asm("vdpbf16ps %2, %1, %0" : "+v"(r.part[0]) : "v"(x.pairs.part[0]), "v"(w.pairs.part[0]));
    return r;
}

FPGA_INLINE ivec16 neighbours(const vec16& low, const vec16& high) {
    ivec16 r;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(r.part[0]) : "v"(low.part[0]), "v"(high.part[0]));
    return r;
}

FPGA_INLINE ivec16 side_by_side(const vec16& even, const vec16& odd) {
    typedef uint16_t halves __attribute__((vector_size(64)));
    halves places;
    for (int i = 0; i < 32; i++) places[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
    const ivec16 apart = neighbours(even, odd);
    ivec16 r;
    r.part[0] = (native_int)__builtin_shuffle((halves)apart.part[0], places);
    return r;
}

FPGA_INLINE void store_bf16(vec16* region, int64_t at, const vec16& x) {
    typedef int64_t half_t __attribute__((vector_size(32)));
    half_t r;
    asm("vcvtneps2bf16 %1, %0" : "=v"(r) : "v"(x.part[0]));
    std::memcpy(reinterpret_cast<uint16_t*>(region) + at, &r, sizeof r);
}

#else

struct dot_pairs {
    vec16 even, odd;
    FPGA_INLINE dot_pairs() {}
    FPGA_INLINE explicit dot_pairs(const ivec16& x)
        : even(from_bits(x << ivec16(16))), odd(from_bits(x & ivec16(~0xffff))) {}
};

FPGA_INLINE vec16 dot2(const vec16& sum, const dot_pairs& x, const dot_pairs& w) {
    return sum + x.even * w.even + x.odd * w.odd;
}

FPGA_INLINE ivec16 neighbours(const vec16& low, const vec16& high) {
    return join_lanes<16>(bf16_pattern(low), bf16_pattern(high));
}

FPGA_INLINE ivec16 side_by_side(const vec16& even, const vec16& odd) {
    return bf16_pattern(even) | (bf16_pattern(odd) << ivec16(16));
}

FPGA_INLINE void store_bf16(vec16* region, int64_t at, const vec16& x) {
    typedef uint16_t memory_halves_of_part __attribute__((vector_size(2 * NATIVE_LANES), aligned(2), may_alias));
    typedef uint16_t native_halves __attribute__((vector_size(2 * NATIVE_LANES)));
    const ivec16 pattern = bf16_pattern(x);
    uint16_t* to = reinterpret_cast<uint16_t*>(region) + at;
    EACH_PART {
        *reinterpret_cast<memory_halves_of_part*>(to + p * NATIVE_LANES) =
            __builtin_convertvector((native_uint)pattern.part[p], native_halves);
    }
}

#endif

#undef EACH_PART

}  // namespace fpga
