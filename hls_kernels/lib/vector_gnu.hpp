// vec16 on GNU vector extensions, for software emulation. See vector.hpp for the meaning of the names.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace fpga {

// Lanes of the CPU's registers. A vec16 is made of parts of that size: g++ keeps wider vectors in memory, with which a
// ResNet-18 took 7 times as long.
#if defined(__AVX512F__)
constexpr int NATIVE_LANES = 16;
#elif defined(__AVX2__)
constexpr int NATIVE_LANES = 8;
#else
constexpr int NATIVE_LANES = 4;
#endif
constexpr int PARTS = VEC / NATIVE_LANES;
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int NATIVE_REGISTERS = 32;
#else
constexpr int NATIVE_REGISTERS = 16;
#endif

typedef float native_float __attribute__((vector_size(4 * NATIVE_LANES)));
typedef int32_t native_int __attribute__((vector_size(4 * NATIVE_LANES)));
typedef uint32_t native_uint __attribute__((vector_size(4 * NATIVE_LANES)));
// As they lie in memory: at any float's address, whatever type the host wrote there.
typedef float memory_native __attribute__((vector_size(4 * NATIVE_LANES), aligned(4), may_alias));
typedef float memory_float __attribute__((may_alias));
typedef uint16_t memory_half __attribute__((may_alias));
typedef uint16_t memory_halves __attribute__((vector_size(2 * NATIVE_LANES), aligned(2), may_alias));

#define EACH_PART UNROLL for (int p = 0; p < PARTS; p++)
// Answers the vector with these values as its parts p.
#define OF_PARTS(vector, value)  \
    vector r;                    \
    EACH_PART r.part[p] = value; \
    return r

struct alignas(4 * VEC) vec16 {
    native_float part[PARTS];
    FPGA_INLINE vec16() {}
    FPGA_INLINE vec16(float x) { EACH_PART part[p] = x - native_float{}; }
    FPGA_INLINE float operator[](int lane) const { return part[lane / NATIVE_LANES][lane % NATIVE_LANES]; }
    FPGA_INLINE vec16& operator+=(const vec16& o) { return *this = *this + o; }
    FPGA_INLINE vec16& operator-=(const vec16& o) { return *this = *this - o; }
    FPGA_INLINE vec16& operator*=(const vec16& o) { return *this = *this * o; }
    FPGA_INLINE friend vec16 operator+(const vec16& a, const vec16& b) { OF_PARTS(vec16, a.part[p] + b.part[p]); }
    FPGA_INLINE friend vec16 operator-(const vec16& a, const vec16& b) { OF_PARTS(vec16, a.part[p] - b.part[p]); }
    FPGA_INLINE friend vec16 operator*(const vec16& a, const vec16& b) { OF_PARTS(vec16, a.part[p] * b.part[p]); }
    FPGA_INLINE friend vec16 operator/(const vec16& a, const vec16& b) { OF_PARTS(vec16, a.part[p] / b.part[p]); }
};

struct alignas(4 * VEC) ivec16 {
    native_int part[PARTS];
    FPGA_INLINE ivec16() {}
    FPGA_INLINE ivec16(int32_t x) { EACH_PART part[p] = x - native_int{}; }
    FPGA_INLINE native_uint u(int p) const { return (native_uint)part[p]; }
    FPGA_INLINE int32_t operator[](int lane) const { return part[lane / NATIVE_LANES][lane % NATIVE_LANES]; }
    FPGA_INLINE ivec16& operator+=(const ivec16& o) { return *this = *this + o; }
    FPGA_INLINE ivec16& operator-=(const ivec16& o) { return *this = *this - o; }
    FPGA_INLINE ivec16& operator*=(const ivec16& o) { return *this = *this * o; }
    // Unsigned, because only that may wrap around.
    FPGA_INLINE friend ivec16 operator+(const ivec16& a, const ivec16& b) {
        OF_PARTS(ivec16, (native_int)(a.u(p) + b.u(p)));
    }
    FPGA_INLINE friend ivec16 operator-(const ivec16& a, const ivec16& b) {
        OF_PARTS(ivec16, (native_int)(a.u(p) - b.u(p)));
    }
    FPGA_INLINE friend ivec16 operator*(const ivec16& a, const ivec16& b) {
        OF_PARTS(ivec16, (native_int)(a.u(p) * b.u(p)));
    }
    FPGA_INLINE friend ivec16 operator<<(const ivec16& a, const ivec16& b) {
        OF_PARTS(ivec16, (native_int)(a.u(p) << b.u(p)));
    }
    FPGA_INLINE friend ivec16 operator/(const ivec16& a, const ivec16& b) { OF_PARTS(ivec16, a.part[p] / b.part[p]); }
    FPGA_INLINE friend ivec16 operator&(const ivec16& a, const ivec16& b) { OF_PARTS(ivec16, a.part[p] & b.part[p]); }
    FPGA_INLINE friend ivec16 operator|(const ivec16& a, const ivec16& b) { OF_PARTS(ivec16, a.part[p] | b.part[p]); }
    FPGA_INLINE friend ivec16 operator^(const ivec16& a, const ivec16& b) { OF_PARTS(ivec16, a.part[p] ^ b.part[p]); }
    FPGA_INLINE friend ivec16 operator>>(const ivec16& a, const ivec16& b) { OF_PARTS(ivec16, a.part[p] >> b.part[p]); }
};

FPGA_INLINE ivec16 veq(const vec16& a, const vec16& b) { OF_PARTS(ivec16, a.part[p] == b.part[p]); }
FPGA_INLINE ivec16 vne(const vec16& a, const vec16& b) { OF_PARTS(ivec16, a.part[p] != b.part[p]); }
FPGA_INLINE ivec16 vlt(const vec16& a, const vec16& b) { OF_PARTS(ivec16, a.part[p] < b.part[p]); }
FPGA_INLINE ivec16 vle(const vec16& a, const vec16& b) { OF_PARTS(ivec16, a.part[p] <= b.part[p]); }
FPGA_INLINE ivec16 vgt(const vec16& a, const vec16& b) { OF_PARTS(ivec16, a.part[p] > b.part[p]); }
FPGA_INLINE ivec16 vge(const vec16& a, const vec16& b) { OF_PARTS(ivec16, a.part[p] >= b.part[p]); }
FPGA_INLINE ivec16 veq(const ivec16& a, const ivec16& b) { OF_PARTS(ivec16, a.part[p] == b.part[p]); }
FPGA_INLINE ivec16 vlt(const ivec16& a, const ivec16& b) { OF_PARTS(ivec16, a.part[p] < b.part[p]); }
FPGA_INLINE ivec16 vgt(const ivec16& a, const ivec16& b) { OF_PARTS(ivec16, a.part[p] > b.part[p]); }

// \tparam vector Vector of 16 lanes.
template <class vector>
FPGA_INLINE vector select(const ivec16& mask, const vector& a, const vector& b) {
    OF_PARTS(vector, mask.part[p] ? a.part[p] : b.part[p]);
}

FPGA_INLINE ivec16 lane_numbers() {
    ivec16 r;
    EACH_PART {
        for (int i = 0; i < NATIVE_LANES; i++) r.part[p][i] = p * NATIVE_LANES + i;
    }
    return r;
}
FPGA_INLINE bool any(const ivec16& mask) {
    native_int parts = mask.part[0];
    UNROLL for (int p = 1; p < PARTS; p++) parts |= mask.part[p];
#if defined(__aarch64__)
    return vmaxvq_u32((uint32x4_t)parts) != 0;
#else
    int32_t set = 0;
    for (int i = 0; i < NATIVE_LANES; i++) set |= parts[i];
    return set != 0;
#endif
}

// A part whose lane i is lane first + i * halves / 2 of x and then y, which go round. They lie in two parts at most.
// \tparam native Vector of one CPU register.
// \tparam vector Vector of 16 lanes.
template <class native, class vector>
FPGA_INLINE native lanes_from(const vector& x, const vector& y, int first, int halves) {
    native_int from;
    for (int i = 0; i < NATIVE_LANES; i++) from[i] = first % NATIVE_LANES + i * halves / 2;
    const int low = first / NATIVE_LANES, high = low + 1;
    const native& a = low / PARTS % 2 ? y.part[low % PARTS] : x.part[low % PARTS];
    const native& b = high / PARTS % 2 ? y.part[high % PARTS] : x.part[high % PARTS];
    return __builtin_shuffle(a, b, from);
}

// \tparam BY Number of lanes, 0 to 15.
template <int BY>
FPGA_INLINE vec16 rotate_lanes(const vec16& x) {
    OF_PARTS(vec16, lanes_from<native_float>(x, x, p * NATIVE_LANES + BY, 2));
}
// \tparam HALF Which half, 0 or 1.
template <int HALF>
FPGA_INLINE ivec16 doubled_lanes(const ivec16& x) {
    OF_PARTS(ivec16, lanes_from<native_int>(x, x, VEC / 2 * HALF + p * NATIVE_LANES / 2, 1));
}
FPGA_INLINE ivec16 even_lanes(const ivec16& a, const ivec16& b) {
    OF_PARTS(ivec16, lanes_from<native_int>(a, b, 2 * p * NATIVE_LANES, 4));
}

FPGA_INLINE ivec16 odd_lanes(const ivec16& a, const ivec16& b) {
    OF_PARTS(ivec16, lanes_from<native_int>(a, b, 2 * p * NATIVE_LANES + 1, 4));
}

FPGA_INLINE ivec16 bits_of(const vec16& x) { OF_PARTS(ivec16, (native_int)x.part[p]); }
FPGA_INLINE vec16 from_bits(const ivec16& x) { OF_PARTS(vec16, (native_float)x.part[p]); }
FPGA_INLINE vec16 to_float(const ivec16& x) { OF_PARTS(vec16, __builtin_convertvector(x.part[p], native_float)); }
FPGA_INLINE ivec16 to_int(const vec16& x) { OF_PARTS(ivec16, __builtin_convertvector(x.part[p], native_int)); }

// g++ makes one instruction of each part with -fno-math-errno.
FPGA_INLINE vec16 vsqrt(const vec16& x) {
    vec16 r = x;
    EACH_PART {
        for (int i = 0; i < NATIVE_LANES; i++) r.part[p][i] = __builtin_sqrtf(x.part[p][i]);
    }
    return r;
}

// x, computed once: g++ 12 would rather repeat a load in every operation that uses it, and load ports are scarce.
FPGA_INLINE vec16 in_register(const vec16& value) {
    vec16 x = value;
#ifdef __AVX512F__
    asm("" : "+v"(x.part[0]));
#endif
    return x;
}

// x, of which the compiler does not know where it comes from.
FPGA_INLINE vec16 opaque(const vec16& value) {
    vec16 x = value;
#if defined(__AVX512F__)
    EACH_PART asm("" : "+v"(x.part[p]));
#elif defined(__x86_64__)
    EACH_PART asm("" : "+x"(x.part[p]));
#elif defined(__aarch64__)
    EACH_PART asm("" : "+w"(x.part[p]));
#endif
    return x;
}
FPGA_INLINE float opaque(float x) {
#if defined(__AVX512F__)
    asm("" : "+v"(x));
#elif defined(__x86_64__)
    asm("" : "+x"(x));
#elif defined(__aarch64__)
    asm("" : "+w"(x));
#endif
    return x;
}

FPGA_INLINE const memory_float* floats(const vec16* region) { return reinterpret_cast<const memory_float*>(region); }
FPGA_INLINE memory_float* floats(vec16* region) { return reinterpret_cast<memory_float*>(region); }

FPGA_INLINE vec16 load(const memory_native* parts) { OF_PARTS(vec16, (native_float)parts[p]); }

FPGA_INLINE void store(memory_native* parts, const vec16& x) { EACH_PART parts[p] = x.part[p]; }

// A part of patterns of 16 bits, one a lane. Without being told the instruction, g++ 12 widens halves and joins them.
FPGA_INLINE native_int load_part_of_halves(const memory_halves* from) {
#if defined(__aarch64__)
    return (native_int)vmovl_u16((uint16x4_t)*from);
#elif defined(__clang__) || !defined(__SSE4_1__)
    return __builtin_convertvector(*from, native_int);
#elif defined(__AVX512F__)
    typedef int16_t operand __attribute__((vector_size(32)));
    return __builtin_ia32_pmovzxwd512_mask((operand)*from, native_int{}, -1);
#elif defined(__AVX2__)
    typedef int16_t operand __attribute__((vector_size(16)));
    return __builtin_ia32_pmovzxwd256((operand)*from);
#else
    typedef int16_t operand __attribute__((vector_size(16)));
    typedef int64_t pair __attribute__((vector_size(16)));
    int64_t low;
    std::memcpy(&low, from, sizeof low);
    return __builtin_ia32_pmovzxwd128((operand)pair{low, 0});
#endif
}

// 16 patterns of 16 bits, one a lane.
FPGA_INLINE ivec16 load_halves(const memory_half* from) {
    const memory_halves* parts = reinterpret_cast<const memory_halves*>(from);
    OF_PARTS(ivec16, load_part_of_halves(parts + p));
}

// 16 numbers of bfloat16: one shuffle brings the bytes of a part to their places, which takes less than a widening and a
// shift.
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__clang__)
#define FPGA_LOAD_BF16
FPGA_INLINE vec16 load_bf16(const memory_half* from) {
    typedef long long patterns __attribute__((vector_size(16), aligned(2), may_alias));
    typedef long long pair __attribute__((vector_size(16)));
    typedef char bytes __attribute__((vector_size(32)));
    const bytes places = {-1, -1, 0, 1, -1, -1, 2,  3,  -1, -1, 4,  5,  -1, -1, 6,  7,
                          -1, -1, 8, 9, -1, -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15};
    const patterns* parts = reinterpret_cast<const patterns*>(from);
    OF_PARTS(vec16,
             (native_float)__builtin_ia32_pshufb256((bytes)__builtin_ia32_vbroadcastsi256((pair)parts[p]), places));
}
#endif

// 16 numbers of binary16, where an instruction widens them.
#if defined(__AVX512F__) || defined(__F16C__) || defined(__aarch64__)
#define FPGA_LOAD_F16
FPGA_INLINE vec16 load_f16(const memory_half* from) {
    typedef int16_t patterns __attribute__((vector_size(2 * NATIVE_LANES), aligned(2), may_alias));
    typedef int16_t operand __attribute__((vector_size(2 * NATIVE_LANES)));
    const patterns* parts = reinterpret_cast<const patterns*>(from);
#if defined(__AVX512F__)
    constexpr int CURRENT_ROUNDING = 4;
    OF_PARTS(vec16, __builtin_ia32_vcvtph2ps512_mask((operand)parts[p], native_float{}, -1, CURRENT_ROUNDING));
#elif defined(__aarch64__)
    OF_PARTS(vec16, (native_float)vcvt_f32_f16((float16x4_t)(operand)parts[p]));
#else
    OF_PARTS(vec16, __builtin_ia32_vcvtph2ps256((operand)parts[p]));
#endif
}
#endif

FPGA_INLINE vec16 load(const float* local, int64_t at) {
    return load(reinterpret_cast<const memory_native*>(local + at));
}
FPGA_INLINE void store(float* local, int64_t at, const vec16& x) {
    store(reinterpret_cast<memory_native*>(local + at), x);
}
FPGA_INLINE vec16 load(const vec16* region, int64_t at) {
    return load(reinterpret_cast<const memory_native*>(floats(region) + at));
}
FPGA_INLINE void store(vec16* region, int64_t at, const vec16& x) {
    store(reinterpret_cast<memory_native*>(floats(region) + at), x);
}
FPGA_INLINE vec16 load_aligned(const vec16* region, int64_t at) {
    return *reinterpret_cast<const vec16*>(floats(region) + at);
}
FPGA_INLINE void store_aligned(vec16* region, int64_t at, const vec16& x) {
    *reinterpret_cast<vec16*>(floats(region) + at) = x;
}

// Asks the cache for what will be read; any address will do.
FPGA_INLINE void prefetch(const memory_float* from, int64_t at) { __builtin_prefetch(from + at); }

FPGA_INLINE float scalar_at(const vec16* region, int64_t at) { return floats(region)[at]; }
FPGA_INLINE void store_scalar(vec16* region, int64_t at, float x) { floats(region)[at] = x; }

FPGA_INLINE int32_t int_at(const vec16* region, int64_t at) {
    int32_t x;
    std::memcpy(&x, floats(region) + at, sizeof x);
    return x;
}

// g++ makes one masked load or store of either loop, unless it unrolls it before it looks.
FPGA_INLINE vec16 load_lanes(const vec16* region, int64_t at, int lanes) {
    const memory_float* from = floats(region) + at;
    alignas(64) float lane[VEC];
    _Pragma("GCC unroll 1") for (int i = 0; i < VEC; i++) lane[i] = i < lanes ? from[i] : 0.0f;
    return load(lane, 0);
}
FPGA_INLINE void store_lanes(vec16* region, int64_t at, const vec16& x, int lanes) {
    memory_float* to = floats(region) + at;
    alignas(64) float lane[VEC];
    store(lane, 0, x);
    _Pragma("GCC unroll 1") for (int i = 0; i < VEC; i++) if (i < lanes) to[i] = lane[i];
}

// One round of a transposition: swaps, for every pair of rows (i, i + step), the off-diagonal blocks of step x step.
// \tparam STEP Distance of the rows, a power of two.
template <int STEP>
FPGA_INLINE void swap_blocks(vec16 (&rows)[VEC]) {
    native_int low, high;
    UNROLL for (int lane = 0; lane < NATIVE_LANES; lane++) {
        low[lane] = lane & STEP ? lane - STEP + NATIVE_LANES : lane;
        high[lane] = lane & STEP ? lane + NATIVE_LANES : lane + STEP;
    }
    UNROLL for (int i = 0; i < VEC; i++) {
        if (i & STEP) continue;
        const vec16 upper = rows[i], lower = rows[i + STEP];
        EACH_PART {
            constexpr int AWAY = STEP / NATIVE_LANES;  // parts, where whole ones are swapped
            if (AWAY == 0) {
                rows[i].part[p] = __builtin_shuffle(upper.part[p], lower.part[p], low);
                rows[i + STEP].part[p] = __builtin_shuffle(upper.part[p], lower.part[p], high);
            } else if (p & AWAY) {
                rows[i].part[p] = lower.part[p - AWAY];
            } else {
                rows[i + STEP].part[p] = upper.part[p + AWAY];
            }
        }
    }
}
FPGA_INLINE void transpose(vec16 (&rows)[VEC]) {
    swap_blocks<1>(rows);
    swap_blocks<2>(rows);
    swap_blocks<4>(rows);
    swap_blocks<8>(rows);
}

FPGA_INLINE void copy_in(float* local, int64_t to, const vec16* region, int64_t at, int64_t count) {
    std::memcpy(local + to, floats(region) + at, sizeof(float) * count);
}
FPGA_INLINE void fill(float* local, int64_t to, int64_t count, float value) {
    for (int64_t i = 0; i < count; i++) local[to + i] = value;
}

#undef EACH_PART
#undef OF_PARTS

}  // namespace fpga
