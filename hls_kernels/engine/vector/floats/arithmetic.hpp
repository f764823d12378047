// The arithmetic of ../record.hpp on floats, once, for the hardware and the CPU schedule. Products and sums round each for
// themselves, as in ../../epilogue.hpp.
#pragma once
#include <cmath>

#include "../plan.hpp"
#include "exponential.hpp"

namespace engine {

// Of a part of a row, the channels that pass in the same cycle of each block: its greatest element, and its sum.
struct row_part_t {
    int32_t greatest;
    float sum;
};

// Of gamma and beta.
typedef float param_t;
inline param_t param_of_bits(uint32_t bits) { return float_of_bits(bits); }

// An integer that is as a number to others, and the number again. A NaN is more, or less, than any number.
constexpr int32_t LEAST_KEY = INT32_MIN;
inline int32_t key_of(float x) {
#pragma HLS inline
    const int32_t bits = static_cast<int32_t>(bits_of(x));
    return bits ^ (bits >> 31 & 0x7fffffff);
}
inline float float_of_key(int32_t key) {
#pragma HLS inline
    return float_of_bits(static_cast<uint32_t>(key ^ (key < 0 ? 0x7fffffff : 0)));
}

// What an element of a row is counted from in the row's sum: of float32 the first one, as sums of numbers that are large beside
// their differences would lose these. Sums of a few thousand bfloat16 numbers of one size are exact.
constexpr bool FROM_FIRST = ELEMENT == ELEMENT_FLOAT32;
inline float term_of(float x, float origin) {
#pragma HLS inline
    return FROM_FIRST ? x - origin : x;
}
// A row's mean by that of its terms; a softmax's center is what it is.
inline float centered(float center, float origin, const vector_command& c) {
#pragma HLS inline
    const float mean = FROM_FIRST ? origin + center : center;
    return c.operation == VECTOR_SOFTMAX ? center : mean;
}

// x - infinity.
inline float masked(float x) {
#pragma HLS inline
    const uint32_t bits = bits_of(x);
    const bool is_none = (bits & 0x7fffffff) > 0x7f800000 || bits == 0x7f800000;
    return float_of_bits(is_none ? 0x7fc00000 : 0xff800000);
}

// A sum of N floats, pair by pair.
// \tparam N Number of terms, a power of two.
template <int N>
float sum_of(float t[N]) {
#pragma HLS inline
    for (int n = N / 2; n > 0; n /= 2) {
#pragma HLS unroll
        for (int i = 0; i < n; i++) {
#pragma HLS unroll
            t[i] = t[2 * i] + t[2 * i + 1];
        }
    }
    return t[0];
}

// Of all parts of a row: what each element's distance is taken from, the greatest one or the mean.
inline float center_of(const row_part_t parts[VECTOR_PARTS], const vector_command& c) {
#pragma HLS inline
    int32_t greatest = LEAST_KEY;
    float sums[VECTOR_PARTS];
    for (int q = 0; q < VECTOR_PARTS; q++) {
#pragma HLS unroll
        greatest = larger(greatest, parts[q].greatest);
        sums[q] = parts[q].sum;
    }
    // A quotient, since that of equal elements is the element: none of them then has a distance.
    const float mean = sum_of<VECTOR_PARTS>(sums) / static_cast<float>(c.channels);
    return c.operation == VECTOR_SOFTMAX ? float_of_key(greatest) : mean;
}

// A row's element: its value (of softmax the exponential, else the distance), and what it adds to the row's sum.
struct weighted_element_t {
    float value;
    float weight;
};
// \tparam LOOKUP Function from an index to a table entry.
template <class LOOKUP>
weighted_element_t weigh_element(float x, float center, const vector_command& c, const LOOKUP& entry_of) {
#pragma HLS inline
    const float v = x - center;
    const float e = exponential(v, entry_of), square = v * v;
    const bool softmax = c.operation == VECTOR_SOFTMAX;
    return {softmax ? e : v, softmax ? e : square};
}

// What a row's values are multiplied by.
inline float scale_of_row(float sum, const vector_command& c) {
#pragma HLS inline
    const float spread = sum * c.row_scale;
    const float root = sqrtf(spread + c.epsilon);
    return 1.0f / (c.operation == VECTOR_SOFTMAX ? sum : root);
}

inline element_t vector_result(float value, float scale, float gamma, float beta, const vector_command& c) {
#pragma HLS inline
    const float y = value * scale;
    const float product = y * gamma;
    const float shifted = product + beta;
    const float result = c.operation == VECTOR_SOFTMAX ? y : shifted;
    // Which NaN an operation gives is the compiler's choice; this one is the same everywhere.
    return elements::narrow(result != result ? float_of_bits(0x7fc00000) : result);
}

}  // namespace engine
