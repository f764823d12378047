// vec16 on GNU vector extensions, for software emulation. See vector.hpp for the meaning of the names.
#pragma once
#include <cstdint>
#include <cstring>

namespace fpga {

typedef float native_float16 __attribute__((vector_size(64)));
typedef int32_t native_int16 __attribute__((vector_size(64)));
typedef uint32_t native_uint16 __attribute__((vector_size(64)));
// As they lie in memory: at any float's address, whatever type the host wrote there.
typedef float memory_float16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float memory_float __attribute__((may_alias));

struct vec16 {
    native_float16 v;
    FPGA_INLINE vec16() {}
    FPGA_INLINE vec16(float x) : v(x - native_float16{}) {}
    FPGA_INLINE explicit vec16(native_float16 x) : v(x) {}
    FPGA_INLINE float operator[](int lane) const { return v[lane]; }
    FPGA_INLINE vec16& operator+=(const vec16& o) { v += o.v; return *this; }
    FPGA_INLINE vec16& operator-=(const vec16& o) { v -= o.v; return *this; }
    FPGA_INLINE vec16& operator*=(const vec16& o) { v *= o.v; return *this; }
    FPGA_INLINE friend vec16 operator+(const vec16& a, const vec16& b) { return vec16(a.v + b.v); }
    FPGA_INLINE friend vec16 operator-(const vec16& a, const vec16& b) { return vec16(a.v - b.v); }
    FPGA_INLINE friend vec16 operator*(const vec16& a, const vec16& b) { return vec16(a.v * b.v); }
    FPGA_INLINE friend vec16 operator/(const vec16& a, const vec16& b) { return vec16(a.v / b.v); }
};

struct ivec16 {
    native_int16 v;
    FPGA_INLINE ivec16() {}
    FPGA_INLINE ivec16(int32_t x) : v(x - native_int16{}) {}
    FPGA_INLINE explicit ivec16(native_int16 x) : v(x) {}
    FPGA_INLINE explicit ivec16(native_uint16 x) : v((native_int16)x) {}
    FPGA_INLINE native_uint16 u() const { return (native_uint16)v; }
    FPGA_INLINE int32_t operator[](int lane) const { return v[lane]; }
    FPGA_INLINE ivec16& operator+=(const ivec16& o) { return *this = *this + o; }
    FPGA_INLINE ivec16& operator-=(const ivec16& o) { return *this = *this - o; }
    FPGA_INLINE ivec16& operator*=(const ivec16& o) { return *this = *this * o; }
    // Unsigned, because only that may wrap around.
    FPGA_INLINE friend ivec16 operator+(const ivec16& a, const ivec16& b) { return ivec16(a.u() + b.u()); }
    FPGA_INLINE friend ivec16 operator-(const ivec16& a, const ivec16& b) { return ivec16(a.u() - b.u()); }
    FPGA_INLINE friend ivec16 operator*(const ivec16& a, const ivec16& b) { return ivec16(a.u() * b.u()); }
    FPGA_INLINE friend ivec16 operator/(const ivec16& a, const ivec16& b) { return ivec16(a.v / b.v); }
    FPGA_INLINE friend ivec16 operator&(const ivec16& a, const ivec16& b) { return ivec16(a.v & b.v); }
    FPGA_INLINE friend ivec16 operator|(const ivec16& a, const ivec16& b) { return ivec16(a.v | b.v); }
    FPGA_INLINE friend ivec16 operator^(const ivec16& a, const ivec16& b) { return ivec16(a.v ^ b.v); }
    FPGA_INLINE friend ivec16 operator<<(const ivec16& a, const ivec16& b) { return ivec16(a.u() << b.u()); }
    FPGA_INLINE friend ivec16 operator>>(const ivec16& a, const ivec16& b) { return ivec16(a.v >> b.v); }
};

FPGA_INLINE ivec16 veq(const vec16& a, const vec16& b) { return ivec16(a.v == b.v); }
FPGA_INLINE ivec16 vne(const vec16& a, const vec16& b) { return ivec16(a.v != b.v); }
FPGA_INLINE ivec16 vlt(const vec16& a, const vec16& b) { return ivec16(a.v < b.v); }
FPGA_INLINE ivec16 vle(const vec16& a, const vec16& b) { return ivec16(a.v <= b.v); }
FPGA_INLINE ivec16 vgt(const vec16& a, const vec16& b) { return ivec16(a.v > b.v); }
FPGA_INLINE ivec16 vge(const vec16& a, const vec16& b) { return ivec16(a.v >= b.v); }
FPGA_INLINE ivec16 veq(const ivec16& a, const ivec16& b) { return ivec16(a.v == b.v); }
FPGA_INLINE ivec16 vlt(const ivec16& a, const ivec16& b) { return ivec16(a.v < b.v); }
FPGA_INLINE ivec16 vgt(const ivec16& a, const ivec16& b) { return ivec16(a.v > b.v); }

FPGA_INLINE vec16 select(const ivec16& mask, const vec16& a, const vec16& b) { return vec16(mask.v ? a.v : b.v); }
FPGA_INLINE ivec16 select(const ivec16& mask, const ivec16& a, const ivec16& b) { return ivec16(mask.v ? a.v : b.v); }

FPGA_INLINE ivec16 lane_numbers() { return ivec16(native_int16{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}); }
FPGA_INLINE bool any(const ivec16& mask) {
    int32_t set = 0;
    for (int i = 0; i < VEC; i++) set |= mask.v[i];
    return set != 0;
}

template <int BY>
FPGA_INLINE vec16 rotate_lanes(const vec16& x) {
    native_int16 from;
    for (int i = 0; i < VEC; i++) from[i] = (i + BY) % VEC;
    return vec16(__builtin_shuffle(x.v, from));
}

template <int HALF>
FPGA_INLINE ivec16 doubled_lanes(const ivec16& x) {
    native_int16 from;
    for (int i = 0; i < VEC; i++) from[i] = VEC / 2 * HALF + i / 2;
    return ivec16(__builtin_shuffle(x.v, from));
}
template <int FIRST>
FPGA_INLINE ivec16 every_other_lane(const ivec16& a, const ivec16& b) {
    native_int16 from;
    for (int i = 0; i < VEC; i++) from[i] = 2 * i + FIRST;
    return ivec16(__builtin_shuffle(a.v, b.v, from));
}
FPGA_INLINE ivec16 even_lanes(const ivec16& a, const ivec16& b) { return every_other_lane<0>(a, b); }
FPGA_INLINE ivec16 odd_lanes(const ivec16& a, const ivec16& b) { return every_other_lane<1>(a, b); }

FPGA_INLINE ivec16 bits_of(const vec16& x) { return ivec16((native_int16)x.v); }
FPGA_INLINE vec16 from_bits(const ivec16& x) { return vec16((native_float16)x.v); }
FPGA_INLINE vec16 to_float(const ivec16& x) { return vec16(__builtin_convertvector(x.v, native_float16)); }
FPGA_INLINE ivec16 to_int(const vec16& x) { return ivec16(__builtin_convertvector(x.v, native_int16)); }

// x, computed once: g++ 12 would rather repeat a load in every operation that uses it, and load ports are scarce.
FPGA_INLINE vec16 in_register(vec16 x) {
#ifdef __AVX512F__
    asm("" : "+v"(x.v));
#endif
    return x;
}

FPGA_INLINE const memory_float* floats(const vec16* region) { return reinterpret_cast<const memory_float*>(region); }
FPGA_INLINE memory_float* floats(vec16* region) { return reinterpret_cast<memory_float*>(region); }

FPGA_INLINE vec16 load(const float* local, int64_t at) {
    return vec16((native_float16) * reinterpret_cast<const memory_float16*>(local + at));
}
FPGA_INLINE void store(float* local, int64_t at, const vec16& x) {
    *reinterpret_cast<memory_float16*>(local + at) = x.v;
}
FPGA_INLINE vec16 load(const vec16* region, int64_t at) {
    return vec16((native_float16) * reinterpret_cast<const memory_float16*>(floats(region) + at));
}
FPGA_INLINE void store(vec16* region, int64_t at, const vec16& x) {
    *reinterpret_cast<memory_float16*>(floats(region) + at) = x.v;
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
    _Pragma("GCC unroll 1") for (int i = 0; i < VEC; i++)
        if (i < lanes) to[i] = lane[i];
}

// One round of a transposition: swaps, for every pair of rows (i, i + step), the off-diagonal blocks of step x step.
template <int STEP>
FPGA_INLINE void swap_blocks(vec16 (&rows)[VEC]) {
    native_int16 low, high;
    UNROLL for (int lane = 0; lane < VEC; lane++) {
        low[lane] = lane & STEP ? lane - STEP + VEC : lane;
        high[lane] = lane & STEP ? lane + VEC : lane + STEP;
    }
    UNROLL for (int i = 0; i < VEC; i++) {
        if (i & STEP) continue;
        const native_float16 upper = rows[i].v, lower = rows[i + STEP].v;
        rows[i].v = __builtin_shuffle(upper, lower, low);
        rows[i + STEP].v = __builtin_shuffle(upper, lower, high);
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

}  // namespace fpga
