// vector_int8.hpp on GNU vector extensions: bytes; rounding is in vector_nearest_gnu.hpp.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__clang__)
#define FPGA_DPBUSD_512 __builtin_ia32_vpdpbusd512
#define FPGA_DPBUSD_256 __builtin_ia32_vpdpbusd256
#else
#define FPGA_DPBUSD_512 __builtin_ia32_vpdpbusd_v16si
#define FPGA_DPBUSD_256 __builtin_ia32_vpdpbusd_v8si
#endif

namespace fpga {

#define EACH_PART UNROLL for (int p = 0; p < PARTS; p++)

// Whether the host multiplies and adds four bytes in one instruction.
#if (defined(__AVX512VNNI__) && defined(__AVX512F__)) || (defined(__AVXVNNI__) && defined(__AVX2__))
#define FPGA_DOT4
constexpr bool HAS_DOT4 = true;
#else
constexpr bool HAS_DOT4 = false;
#endif

#ifdef FPGA_DOT4

struct dot_inputs {
    ivec16 bytes;
    FPGA_INLINE dot_inputs() {}
    FPGA_INLINE explicit dot_inputs(const ivec16& x) : bytes(x) {}
};
struct dot_weights {
    ivec16 bytes;
    FPGA_INLINE dot_weights() {}
    FPGA_INLINE explicit dot_weights(const ivec16& w) : bytes(w) {}
};

FPGA_INLINE ivec16 dot4(const ivec16& sum, const dot_inputs& x, const dot_weights& w) {
    ivec16 r;
#if defined(__AVX512F__)
    EACH_PART r.part[p] = (native_int)FPGA_DPBUSD_512(sum.part[p], x.bytes.part[p], w.bytes.part[p]);
#else
    EACH_PART r.part[p] = (native_int)FPGA_DPBUSD_256(sum.part[p], x.bytes.part[p], w.bytes.part[p]);
#endif
    return r;
}

#else

typedef int16_t native_pairs __attribute__((vector_size(4 * NATIVE_LANES)));

// Bytes as 16 bits each, the even and the odd ones apart: products of pairs of these do not saturate, as those of pairs of
// bytes would (`vpmaddubsw`).
struct dot_inputs {
    ivec16 even, odd;
    FPGA_INLINE dot_inputs() {}
    FPGA_INLINE explicit dot_inputs(const ivec16& x) {
        EACH_PART {
            even.part[p] = x.part[p] & 0x00ff00ff;
            odd.part[p] = (native_int)(x.u(p) >> 8) & 0x00ff00ff;
        }
    }
};
struct dot_weights {
    ivec16 even, odd;
    FPGA_INLINE dot_weights() {}
    FPGA_INLINE explicit dot_weights(const ivec16& w) {
        EACH_PART {
            even.part[p] = (native_int)((native_pairs)((native_pairs)w.part[p] << 8) >> 8);
            odd.part[p] = (native_int)((native_pairs)w.part[p] >> 8);
        }
    }
};

// In each lane the sum of the products of two pairs of 16 bits.
FPGA_INLINE native_int multiply_pairs(const native_int& a, const native_int& b) {
#if defined(__AVX512BW__) && defined(__clang__)
    return (native_int)__builtin_ia32_pmaddwd512((native_pairs)a, (native_pairs)b);
#elif defined(__AVX512BW__)
    return (native_int)__builtin_ia32_pmaddwd512_mask((native_pairs)a, (native_pairs)b, native_int{}, -1);
#elif defined(__AVX2__) && !defined(__AVX512F__)
    return (native_int)__builtin_ia32_pmaddwd256((native_pairs)a, (native_pairs)b);
#elif defined(__SSE2__) && !defined(__AVX512F__)
    return (native_int)__builtin_ia32_pmaddwd128((native_pairs)a, (native_pairs)b);
#elif defined(__aarch64__)
    const int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
    return (native_int)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
#else
    return ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

FPGA_INLINE ivec16 dot4(const ivec16& sum, const dot_inputs& x, const dot_weights& w) {
    ivec16 r;
    EACH_PART {
        r.part[p] = sum.part[p] + multiply_pairs(x.even.part[p], w.even.part[p]) +
                    multiply_pairs(x.odd.part[p], w.odd.part[p]);
    }
    return r;
}

#endif

FPGA_INLINE const uint8_t* bytes_of_region(const vec16* region) { return reinterpret_cast<const uint8_t*>(region); }
FPGA_INLINE uint8_t* bytes_of_region(vec16* region) { return reinterpret_cast<uint8_t*>(region); }

FPGA_INLINE ivec16 load_quads(const uint8_t* local, int64_t at) {
    typedef int32_t memory_quads __attribute__((vector_size(4 * NATIVE_LANES), aligned(1), may_alias));
    ivec16 r;
    EACH_PART r.part[p] = (native_int) reinterpret_cast<const memory_quads*>(local + at)[p];
    return r;
}

FPGA_INLINE int32_t quad_at(const uint8_t* local, int64_t at) {
    int32_t x;
    std::memcpy(&x, local + at, sizeof x);
    return x;
}

// The first BYTES bytes of each of `count` quads, the bits of `flip` flipped; may write up to 15 bytes behind the last one.
// \tparam BYTES Bytes of an element.
template <int BYTES>
inline void join_quads(uint8_t* to, const uint8_t* from, int32_t count, uint8_t flip) {
    typedef uint8_t quads_t __attribute__((vector_size(16)));
    typedef uint8_t memory_quads __attribute__((vector_size(16), aligned(1), may_alias));
    constexpr auto at = [](int i) { return i < 4 * BYTES ? i / BYTES * 4 + i % BYTES : 0; };
    int32_t x = 0;
    for (; x + 4 <= count; x += 4) {
        const quads_t four = *reinterpret_cast<const memory_quads*>(from + 4 * x) ^ flip;
        *reinterpret_cast<memory_quads*>(to + BYTES * x) =
            __builtin_shufflevector(four, four, at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9),
                                    at(10), at(11), at(12), at(13), at(14), at(15));
    }
    for (; x < count; x++)
        for (int i = 0; i < BYTES; i++) to[BYTES * x + i] = from[4 * x + i] ^ flip;
}

typedef uint8_t native_bytes __attribute__((vector_size(NATIVE_LANES)));
typedef uint8_t memory_bytes __attribute__((vector_size(NATIVE_LANES), aligned(1), may_alias));

// A part of bytes, one a lane. Without being told the instruction, g++ 12 widens halves of halves and joins them.
FPGA_INLINE native_int widened_part(const uint8_t* from) {
#if defined(__aarch64__)
    uint32_t four;
    std::memcpy(&four, from, sizeof four);
    return (native_int)vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
#elif defined(__clang__) || !defined(__SSE4_1__)
    return __builtin_convertvector((native_bytes) * reinterpret_cast<const memory_bytes*>(from), native_int);
#else
    typedef char operand __attribute__((vector_size(16)));
    operand x = {};
    std::memcpy(&x, from, NATIVE_LANES);
#if defined(__AVX512F__)
    return __builtin_ia32_pmovzxbd512_mask(x, native_int{}, -1);
#elif defined(__AVX2__)
    return __builtin_ia32_pmovzxbd256(x);
#else
    return __builtin_ia32_pmovzxbd128(x);
#endif
#endif
}

FPGA_INLINE ivec16 unsigned_bytes(const uint8_t* from) {
    ivec16 r;
    EACH_PART r.part[p] = widened_part(from + p * NATIVE_LANES);
    return r;
}

FPGA_INLINE ivec16 widened_bytes(const uint8_t* from, bool is_signed) {
    const ivec16 x = unsigned_bytes(from), sign(is_signed ? 0x80 : 0);
    return (x ^ sign) - sign;
}

#if defined(__AVX512F__)
// Four rows of 16 bytes side by side, 4 bytes of each to one quarter, and there a transposition of 4 x 4 bytes.
FPGA_INLINE ivec16 quads_of(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d) {
    typedef int64_t row_t __attribute__((vector_size(16)));
    typedef int64_t memory_row __attribute__((vector_size(16), aligned(1), may_alias));
    typedef int64_t half_t __attribute__((vector_size(32)));
    typedef uint8_t rows_t __attribute__((vector_size(64)));
    const auto row = [](const uint8_t* from) { return (row_t) * reinterpret_cast<const memory_row*>(from); };
    const half_t low = __builtin_shufflevector(row(a), row(b), 0, 1, 2, 3);
    const half_t high = __builtin_shufflevector(row(c), row(d), 0, 1, 2, 3);
    const rows_t x = (rows_t)__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
    const native_int quarters = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    rows_t places;
    for (int i = 0; i < 64; i++) places[i] = i / 16 * 16 + i % 4 * 4 + i % 16 / 4;
    const rows_t quarter = (rows_t)__builtin_shuffle((native_int)x, quarters);
    ivec16 r;
    r.part[0] = (native_int)__builtin_shuffle(quarter, places);
    return r;
}
#else
FPGA_INLINE ivec16 quads_of(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d) {
    const ivec16 w = unsigned_bytes(a), x = unsigned_bytes(b), y = unsigned_bytes(c), z = unsigned_bytes(d);
    return w | (x << ivec16(8)) | (y << ivec16(16)) | (z << ivec16(24));
}
#endif

FPGA_INLINE ivec16 load_bytes(const vec16* region, int64_t at, int lanes, bool is_signed) {
    const uint8_t* from = bytes_of_region(region) + at;
    if (lanes >= VEC) return widened_bytes(from, is_signed);
    alignas(16) uint8_t lane[VEC] = {};
    for (int i = 0; i < lanes; i++) lane[i] = from[i];
    return widened_bytes(lane, is_signed);
}

FPGA_INLINE void narrow_bytes(uint8_t* to, const ivec16& x) {
#if defined(__AVX512F__) && !defined(__clang__)
    typedef char result __attribute__((vector_size(16)));
    const result r = __builtin_ia32_pmovdb512_mask(x.part[0], result{}, -1);
    std::memcpy(to, &r, sizeof r);
#elif defined(__aarch64__)
    const uint16x8_t low = vuzp1q_u16((uint16x8_t)x.part[0], (uint16x8_t)x.part[1]);
    const uint16x8_t high = vuzp1q_u16((uint16x8_t)x.part[2], (uint16x8_t)x.part[3]);
    vst1q_u8(to, vuzp1q_u8((uint8x16_t)low, (uint8x16_t)high));
#else
    EACH_PART {
        *reinterpret_cast<memory_bytes*>(to + p * NATIVE_LANES) = __builtin_convertvector((native_uint)x.part[p],
                                                                                          native_bytes);
    }
#endif
}

FPGA_INLINE void store_bytes(vec16* region, int64_t at, const ivec16& x, int lanes) {
    uint8_t* to = bytes_of_region(region) + at;
    if (lanes >= VEC) {
        narrow_bytes(to, x);
        return;
    }
    alignas(16) uint8_t lane[VEC];
    narrow_bytes(lane, x);
    for (int i = 0; i < lanes; i++) to[i] = lane[i];
}

FPGA_INLINE int32_t byte_at(const vec16* region, int64_t at) { return bytes_of_region(region)[at]; }
FPGA_INLINE void store_byte(vec16* region, int64_t at, int32_t x) {
    bytes_of_region(region)[at] = static_cast<uint8_t>(x);
}

FPGA_INLINE void copy_bytes_in(uint8_t* local, int64_t to, const vec16* region, int64_t at, int64_t count) {
    // A few vectors in line: a call for each pixel takes longer than its bytes.
    struct sixteen {
        uint8_t byte[16];
    };
    const uint8_t* from = bytes_of_region(region) + at;
    if (count < 16 || count > 256) {
        std::memcpy(local + to, from, static_cast<size_t>(count));
        return;
    }
    for (int64_t i = 0; i < count; i += 16) {
        const int64_t first = i + 16 > count ? count - 16 : i;
        sixteen x;
        std::memcpy(&x, from + first, sizeof x);
        std::memcpy(local + to + first, &x, sizeof x);
    }
}
FPGA_INLINE void fill_bytes(uint8_t* local, int64_t to, int64_t count, int32_t value) {
    std::memset(local + to, value, static_cast<size_t>(count));
}

// ---- beats of bytes

typedef uint8_t native_beat __attribute__((vector_size(4 * NATIVE_LANES)));
typedef uint8_t memory_beat __attribute__((vector_size(4 * NATIVE_LANES), aligned(1), may_alias));
typedef int8_t native_signed_beat __attribute__((vector_size(4 * NATIVE_LANES)));

typedef int32_t memory_lanes __attribute__((vector_size(4 * NATIVE_LANES), aligned(4), may_alias));

struct bvec64 {
    native_beat part[PARTS];
    FPGA_INLINE bvec64() {}
    FPGA_INLINE bvec64(uint8_t x) { EACH_PART part[p] = x - native_beat{}; }
};

FPGA_INLINE bvec64 vmax(const bvec64& a, const bvec64& b, bool is_signed) {
    bvec64 r;
    EACH_PART {
        if (is_signed) {
            const native_signed_beat x = (native_signed_beat)a.part[p], y = (native_signed_beat)b.part[p];
            r.part[p] = (native_beat)(x > y ? x : y);
        } else {
            r.part[p] = a.part[p] > b.part[p] ? a.part[p] : b.part[p];
        }
    }
    return r;
}

FPGA_INLINE bvec64 load_beat(const uint8_t* from) {
    bvec64 r;
    EACH_PART r.part[p] = (native_beat) reinterpret_cast<const memory_beat*>(from)[p];
    return r;
}
#if defined(__AVX512BW__) && !defined(__clang__)
typedef char native_masked_bytes __attribute__((vector_size(64)));
FPGA_INLINE uint64_t first_bytes(int lanes) { return lanes >= 4 * VEC ? ~0ull : (1ull << lanes) - 1; }
FPGA_INLINE bvec64 load_beat(const vec16* region, int64_t at, int lanes) {
    const uint8_t* from = bytes_of_region(region) + at;
    if (lanes >= 4 * VEC) return load_beat(from);
    bvec64 r;
    r.part[0] = (native_beat)__builtin_ia32_loaddquqi512_mask(reinterpret_cast<const char*>(from),
                                                              native_masked_bytes{}, first_bytes(lanes));
    return r;
}
FPGA_INLINE void store_beat(vec16* region, int64_t at, const bvec64& x, int lanes) {
    char* to = reinterpret_cast<char*>(bytes_of_region(region) + at);
    __builtin_ia32_storedquqi512_mask(to, (native_masked_bytes)x.part[0], first_bytes(lanes));
}
#else
FPGA_INLINE bvec64 load_beat(const vec16* region, int64_t at, int lanes) {
    const uint8_t* from = bytes_of_region(region) + at;
    if (lanes >= 4 * VEC) return load_beat(from);
    alignas(64) uint8_t lane[4 * VEC] = {};
    for (int i = 0; i < lanes; i++) lane[i] = from[i];
    return load_beat(lane);
}
FPGA_INLINE void store_beat(vec16* region, int64_t at, const bvec64& x, int lanes) {
    uint8_t* to = bytes_of_region(region) + at;
    alignas(64) uint8_t lane[4 * VEC];
    uint8_t* all = lanes >= 4 * VEC ? to : lane;
    EACH_PART reinterpret_cast<memory_beat*>(all)[p] = x.part[p];
    for (int i = 0; lanes < 4 * VEC && i < lanes; i++) to[i] = lane[i];
}
#endif

// ---- tables of bytes

#if defined(__AVX512VBMI__)

// In four registers: a byte's lowest seven bits choose among two of them, its highest one between the pairs.
struct byte_table {
    bvec64 quarter[4];
    native_beat flip;
    FPGA_INLINE byte_table(const vec16* region, int64_t at, int32_t flip) : flip((uint8_t)flip - native_beat{}) {
        for (int i = 0; i < 4; i++) quarter[i] = load_beat(bytes_of_region(region) + at + 64 * i);
    }
};

FPGA_INLINE native_beat among_128(const native_beat& index, const native_beat& low, const native_beat& high) {
    typedef char operand __attribute__((vector_size(64)));
#if defined(__clang__)
    return (native_beat)__builtin_ia32_vpermi2varqi512((operand)low, (operand)index, (operand)high);
#else
    return (native_beat)__builtin_ia32_vpermt2varqi512_mask((operand)index, (operand)low, (operand)high, ~0ull);
#endif
}

FPGA_INLINE bvec64 lookup(const byte_table& table, const bvec64& x) {
    const native_beat index = x.part[0] ^ table.flip;
    const native_beat low = among_128(index, table.quarter[0].part[0], table.quarter[1].part[0]);
    const native_beat high = among_128(index, table.quarter[2].part[0], table.quarter[3].part[0]);
    bvec64 r;
    r.part[0] = (native_signed_beat)index < 0 ? high : low;
    return r;
}

FPGA_INLINE ivec16 lookup(const byte_table& table, const ivec16& x) {
    bvec64 bytes;
    bytes.part[0] = (native_beat)x.part[0];
    ivec16 r;
    r.part[0] = (native_int)lookup(table, bytes).part[0] & 0xff;
    return r;
}

#else

struct byte_table {
    const uint8_t* bytes;
    int32_t flip;
    FPGA_INLINE byte_table(const vec16* region, int64_t at, int32_t flip)
        : bytes(bytes_of_region(region) + at), flip(flip) {}
};

FPGA_INLINE ivec16 lookup(const byte_table& table, const ivec16& x) {
    alignas(64) int32_t lane[VEC];
    EACH_PART reinterpret_cast<memory_lanes*>(lane)[p] = x.part[p];
    for (int i = 0; i < VEC; i++) lane[i] = table.bytes[(lane[i] & 0xff) ^ table.flip];
    ivec16 r;
    EACH_PART r.part[p] = reinterpret_cast<const memory_lanes*>(lane)[p];
    return r;
}

FPGA_INLINE bvec64 lookup(const byte_table& table, const bvec64& x) {
    alignas(64) uint8_t byte[4 * VEC];
    EACH_PART reinterpret_cast<memory_beat*>(byte)[p] = x.part[p];
    for (int i = 0; i < 4 * VEC; i++) byte[i] = table.bytes[byte[i] ^ table.flip];
    return load_beat(byte);
}

#endif

#undef EACH_PART

}  // namespace fpga
