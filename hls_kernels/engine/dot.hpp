// The CPU schedule's inner product: a line of packed weights (16 output channels of 4 bytes) times 4 bytes of activations.
//
// In int8, activations have their sign bit flipped, because vpdpbusd requires an unsigned operand. This adds 128 to each
// activation. The sums of the weights correct it (cpu.hpp).
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__AVX512VNNI__) || (defined(__AVXVNNI__) && defined(__AVX2__))
#include <immintrin.h>
#endif

#include "elements.hpp"

namespace engine {

#if ENGINE_ELEMENT == 0
typedef uint8_t cpu_act_t;
inline cpu_act_t cpu_act(element_t x) { return static_cast<uint8_t>(x) ^ 0x80; }
#else
typedef element_t cpu_act_t;
inline cpu_act_t cpu_act(element_t x) { return x; }
#endif

struct alignas(64) cpu_sums_t {
    sum_t v[CHANNELS];
};

inline void dot_line(cpu_sums_t& sums, const cpu_act_t* a, const uint8_t* line) {
#if ENGINE_ELEMENT == 0 && defined(__AVX512VNNI__)
    int32_t four;
    std::memcpy(&four, a, 4);
    __m512i all = _mm512_load_si512(sums.v);
    all = _mm512_dpbusd_epi32(all, _mm512_set1_epi32(four), _mm512_loadu_si512(line));
    _mm512_store_si512(sums.v, all);
#elif ENGINE_ELEMENT == 0
    int8_t w[64];
    std::memcpy(w, line, 64);
    for (int o = 0; o < CHANNELS; o++)
        sums.v[o] += a[0] * w[4 * o] + a[1] * w[4 * o + 1] + a[2] * w[4 * o + 2] + a[3] * w[4 * o + 3];
#elif ENGINE_ELEMENT == 1
    uint16_t w[32];
    std::memcpy(w, line, 64);
    for (int o = 0; o < CHANNELS; o++)
        sums.v[o] += elements::widen(a[0]) * elements::widen(w[2 * o]) +
                     elements::widen(a[1]) * elements::widen(w[2 * o + 1]);
#else
    float w[16];
    std::memcpy(w, line, 64);
    for (int o = 0; o < CHANNELS; o++) sums.v[o] += a[0] * w[o];
#endif
}

}  // namespace engine
