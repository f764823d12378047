// vector_int8.hpp for synthesis.
#pragma once
#include <cstdint>

namespace fpga {

typedef ivec16 dot_inputs;
typedef ivec16 dot_weights;

// The byte-th byte of a lane.
FPGA_INLINE int32_t unsigned_byte(int32_t lane, int byte) { return (lane >> (8 * byte)) & 0xff; }
FPGA_INLINE int32_t signed_byte(int32_t lane, int byte) {
    return static_cast<int8_t>(static_cast<uint8_t>(unsigned_byte(lane, byte)));
}

inline ivec16 dot4(const ivec16& sum, const dot_inputs& x, const dot_weights& w) {
    ivec16 r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        int32_t s = 0;
    bytes:
        for (int b = 0; b < 4; b++) {
#pragma HLS unroll
            s += unsigned_byte(x[i], b) * signed_byte(w[i], b);
        }
        r[i] = s;
    }
    return sum + r;
}

// Four bytes, the first of them the lowest.
FPGA_INLINE int32_t join_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return static_cast<int32_t>(a | b << 8 | c << 16 | d << 24);
}

inline int32_t quad_at(const uint8_t* local, int64_t at) {
    return join_bytes(local[at], local[at + 1], local[at + 2], local[at + 3]);
}

inline ivec16 load_quads(const uint8_t* local, int64_t at) {
    ivec16 r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = quad_at(local, at + 4 * i);
    }
    return r;
}

inline ivec16 quads_of(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d) {
    ivec16 r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = join_bytes(a[i], b[i], c[i], d[i]);
    }
    return r;
}

inline int32_t byte_at(const vec16* region, int64_t at) {
    return unsigned_byte(int_at(region, at / 4), static_cast<int>(at % 4));
}

inline ivec16 load_bytes(const vec16* region, int64_t at, int lanes, bool is_signed) {
    ivec16 r;
each_lane:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        const int32_t x = i < lanes ? byte_at(region, at + i) : 0;
        r[i] = is_signed ? signed_byte(x, 0) : x;
    }
    return r;
}

// Beats are read, changed and written back, one or two of them: no other slice may store to these at the same time.
inline void store_bytes(vec16* region, int64_t at, const ivec16& x, int lanes) {
    constexpr int BEAT = 4 * VEC;
    const int64_t last = (at + lanes - 1) / BEAT;
beats:
    for (int64_t beat = at / BEAT; beat <= last; beat++) {
#pragma HLS loop_tripcount min = 1 max = 2
        ivec16 words = bits_of(region[beat]);
    each_byte:
        for (int i = 0; i < BEAT; i++) {
#pragma HLS unroll
            const int64_t lane = beat * BEAT + i - at;
            if (lane < 0 || lane >= lanes) continue;
            const int shift = 8 * (i % 4);
            const uint32_t kept = static_cast<uint32_t>(words[i / 4]) & ~(0xffu << shift);
            words[i / 4] = static_cast<int32_t>(kept | (static_cast<uint32_t>(x[lane]) & 0xff) << shift);
        }
        region[beat] = from_bits(words);
    }
}
inline void store_byte(vec16* region, int64_t at, int32_t x) { store_bytes(region, at, ivec16(x), 1); }

typedef hls::vector<uint8_t, 4 * VEC> bvec64;

inline bvec64 vmax(const bvec64& a, const bvec64& b, bool is_signed) {
    const uint8_t flip = is_signed ? 0x80 : 0;
    bvec64 r;
bytes:
    for (int i = 0; i < 4 * VEC; i++) {
#pragma HLS unroll
        r[i] = (a[i] ^ flip) > (b[i] ^ flip) ? a[i] : b[i];
    }
    return r;
}

inline bvec64 load_beat(const vec16* region, int64_t at, int lanes) {
    bvec64 r;
bytes:
    for (int i = 0; i < 4 * VEC; i++) {
#pragma HLS unroll
        r[i] = static_cast<uint8_t>(i < lanes ? byte_at(region, at + i) : 0);
    }
    return r;
}

inline void store_beat(vec16* region, int64_t at, const bvec64& x, int lanes) {
quarters:
    for (int quarter = 0; quarter < 4; quarter++) {
#pragma HLS unroll
        ivec16 lane;
    bytes:
        for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
            lane[i] = x[VEC * quarter + i];
        }
        const int left = lanes - VEC * quarter;
        if (left > 0) store_bytes(region, at + VEC * quarter, lane, left < VEC ? left : VEC);
    }
}

inline void copy_bytes_in(uint8_t* local, int64_t to, const vec16* region, int64_t at, int64_t count) {
    constexpr int BEAT = 4 * VEC;
beats:
    for (int64_t beat = at / BEAT; beat * BEAT < at + count; beat++) {
#pragma HLS pipeline
#pragma HLS loop_tripcount min = 1 max = 32
        const ivec16 words = bits_of(region[beat]);
    each_byte:
        for (int i = 0; i < BEAT; i++) {
#pragma HLS unroll
            const int64_t from = beat * BEAT + i - at;
            if (from >= 0 && from < count) local[to + from] = static_cast<uint8_t>(unsigned_byte(words[i / 4], i % 4));
        }
    }
}

inline void fill_bytes(uint8_t* local, int64_t to, int64_t count, int32_t value) {
each:
    for (int64_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 2048
        local[to + i] = static_cast<uint8_t>(value);
    }
}

struct byte_table {
    const vec16* region;
    int64_t at;
    int32_t flip;
    byte_table(const vec16* region, int64_t at, int32_t flip) : region(region), at(at), flip(flip) {}
};

inline ivec16 lookup(const byte_table& table, const ivec16& x) {
    ivec16 r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = byte_at(table.region, table.at + ((x[i] & 0xff) ^ table.flip));
    }
    return r;
}

inline bvec64 lookup(const byte_table& table, const bvec64& x) {
    bvec64 r;
bytes:
    for (int i = 0; i < 4 * VEC; i++) {
#pragma HLS unroll
        r[i] = static_cast<uint8_t>(byte_at(table.region, table.at + (x[i] ^ table.flip)));
    }
    return r;
}

// Adding and taking off 1.5 * 2^23 rounds what is at most 2^22; the rest has no fraction that a byte's range would need.
inline ivec16 to_nearest(const vec16& x) {
    ivec16 r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        const float shift = 12582912.0f;
        r[i] = lane_bits(x[i] + shift) - lane_bits(shift);
    }
    return r;
}

}  // namespace fpga
