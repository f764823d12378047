// vec16 on hls::vector, for synthesis. See vector.hpp for the meaning of the names.
#pragma once
#include <cmath>
#include <cstdint>

#include <hls_vector.h>

namespace fpga {

typedef hls::vector<float, VEC> vec16;
typedef hls::vector<int32_t, VEC> ivec16;
typedef float memory_float;

union float_or_bits {
    float as_float;
    int32_t as_bits;
};

// hls::vector compares whole vectors, so comparisons lane by lane have names of their own.
#define FPGA_COMPARE(name, type, op)                               \
    inline ivec16 name(const type& a, const type& b) {             \
        ivec16 mask;                                               \
    lanes:                                                         \
        for (int i = 0; i < VEC; i++) {                            \
            _Pragma("HLS unroll") mask[i] = a[i] op b[i] ? -1 : 0; \
        }                                                          \
        return mask;                                               \
    }
FPGA_COMPARE(veq, vec16, ==)
FPGA_COMPARE(vne, vec16, !=)
FPGA_COMPARE(vlt, vec16, <)
FPGA_COMPARE(vle, vec16, <=)
FPGA_COMPARE(vgt, vec16, >)
FPGA_COMPARE(vge, vec16, >=)
FPGA_COMPARE(veq, ivec16, ==)
FPGA_COMPARE(vlt, ivec16, <)
FPGA_COMPARE(vgt, ivec16, >)
#undef FPGA_COMPARE

// \tparam T Type of the value.
template <class T>
inline hls::vector<T, VEC> select(const ivec16& mask, const hls::vector<T, VEC>& a, const hls::vector<T, VEC>& b) {
    hls::vector<T, VEC> r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = mask[i] ? a[i] : b[i];
    }
    return r;
}

inline ivec16 lane_numbers() {
    ivec16 r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = i;
    }
    return r;
}

inline bool any(const ivec16& mask) {
    int32_t set = 0;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        set |= mask[i];
    }
    return set != 0;
}

inline vec16 opaque(const vec16& x) { return x; }
inline float opaque(float x) { return x; }

inline vec16 vsqrt(const vec16& x) {
    vec16 r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = std::sqrt(x[i]);
    }
    return r;
}

// \tparam BY Number of lanes, 0 to 15.
template <int BY>
inline vec16 rotate_lanes(const vec16& x) {
    vec16 r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = x[(i + BY) % VEC];
    }
    return r;
}

// \tparam HALF Which half, 0 or 1.
template <int HALF>
inline ivec16 doubled_lanes(const ivec16& x) {
    ivec16 r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = x[VEC / 2 * HALF + i / 2];
    }
    return r;
}

// \tparam FIRST First lane, 0 or 1.
template <int FIRST>
inline ivec16 every_other_lane(const ivec16& a, const ivec16& b) {
    ivec16 r;
lanes:
    for (int i = 0; i < VEC / 2; i++) {
#pragma HLS unroll
        r[i] = a[2 * i + FIRST];
        r[VEC / 2 + i] = b[2 * i + FIRST];
    }
    return r;
}
inline ivec16 even_lanes(const ivec16& a, const ivec16& b) { return every_other_lane<0>(a, b); }
inline ivec16 odd_lanes(const ivec16& a, const ivec16& b) { return every_other_lane<1>(a, b); }

FPGA_INLINE int32_t lane_bits(float x) {
    float_or_bits u;
    u.as_float = x;
    return u.as_bits;
}

FPGA_INLINE float lane_value(int32_t x) {
    float_or_bits u;
    u.as_bits = x;
    return u.as_float;
}

#define FPGA_CONVERT(name, from, to, lane_of)           \
    inline to name(const from& x) {                     \
        to r;                                           \
    lanes:                                              \
        for (int i = 0; i < VEC; i++) {                 \
            _Pragma("HLS unroll") r[i] = lane_of(x[i]); \
        }                                               \
        return r;                                       \
    }
FPGA_CONVERT(bits_of, vec16, ivec16, lane_bits)
FPGA_CONVERT(from_bits, ivec16, vec16, lane_value)
FPGA_CONVERT(to_float, ivec16, vec16, static_cast<float>)
FPGA_CONVERT(to_int, vec16, ivec16, static_cast<int32_t>)
#undef FPGA_CONVERT

inline vec16 load_aligned(const vec16* region, int64_t at) { return region[at / VEC]; }
inline void store_aligned(vec16* region, int64_t at, const vec16& x) { region[at / VEC] = x; }
inline float scalar_at(const vec16* region, int64_t at) { return region[at / VEC][at % VEC]; }

inline int32_t int_at(const vec16* region, int64_t at) { return lane_bits(scalar_at(region, at)); }

inline vec16 load_lanes(const vec16* region, int64_t at, int lanes) {
    const int64_t beat = at / VEC;
    const int shift = at % VEC;
    const vec16 low = region[beat];
    vec16 high = low;
    if (shift + lanes > VEC) high = region[beat + 1];
    vec16 r;
each_lane:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        const int from = shift + i;
        r[i] = i >= lanes ? 0.0f : from < VEC ? low[from] : high[from - VEC];
    }
    return r;
}

// The store reads the beat that it changes in part: no other slice may store to that beat at the same time.
inline void store_lanes(vec16* region, int64_t at, const vec16& x, int lanes) {
    const int64_t beat = at / VEC;
    const int shift = at % VEC;
    vec16 low = region[beat];
first_beat:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        if (i >= shift && i < shift + lanes) low[i] = x[i - shift];
    }
    region[beat] = low;
    if (shift + lanes > VEC) {
        vec16 high = region[beat + 1];
    second_beat:
        for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
            if (i + VEC < shift + lanes) high[i] = x[i + VEC - shift];
        }
        region[beat + 1] = high;
    }
}

inline vec16 load(const vec16* region, int64_t at) { return load_lanes(region, at, VEC); }
inline void store(vec16* region, int64_t at, const vec16& x) {
    if (at % VEC == 0)
        region[at / VEC] = x;
    else
        store_lanes(region, at, x, VEC);
}
inline void store_scalar(vec16* region, int64_t at, float x) { store_lanes(region, at, vec16(x), 1); }

inline vec16 load(const float* local, int64_t at) {
    vec16 r;
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = local[at + i];
    }
    return r;
}

inline void store(float* local, int64_t at, const vec16& x) {
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        local[at + i] = x[i];
    }
}

inline void transpose(vec16 (&rows)[VEC]) {
    vec16 turned[VEC];
#pragma HLS array_partition variable = turned complete
turn_rows:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
    turn_lanes:
        for (int j = 0; j < VEC; j++) {
#pragma HLS unroll
            turned[i][j] = rows[j][i];
        }
    }
put_rows:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        rows[i] = turned[i];
    }
}

inline void copy_in(float* local, int64_t to, const vec16* region, int64_t at, int64_t count) {
beats:
    for (int64_t i = 0; i < count; i += VEC) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 128
        const int lanes = count - i < VEC ? count - i : VEC;
        const vec16 x = load_lanes(region, at + i, lanes);
    each_lane:
        for (int j = 0; j < VEC; j++) {
#pragma HLS unroll
            if (j < lanes) local[to + i + j] = x[j];
        }
    }
}

inline void fill(float* local, int64_t to, int64_t count, float value) {
each:
    for (int64_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 2048
        local[to + i] = value;
    }
}

}  // namespace fpga
