// A function of a rounded bfloat16 result, such as SiLU: a table where the function is curved, and a tail on each side of the table.
//
// A rounded result has 65,536 values, so the result of eager mode can be looked up for each. Most entries would follow a
// simple rule: towards 0 and far from 0 an activation is a constant or a line through 0. So a table has the numbers of
// FUNCTION_EXPONENTS neighbouring exponents. Smaller and larger numbers have a tail for their sign. The code that makes a
// table compares all results (fpga_dynamo/lowering/ops/engine/floats/functions.py).
//
// In memory a function begins with a line, 16 words of 32 bits:
//   `word 0`        the table's first exponent.
//   `word 1`        the results of the infinities, that of +inf in the lower half.
//   `words 2 to 5`  the slope of each tail, a float32.
//   `words 6 to 9`  the constant of each tail in the lower half, with bit 16 if the tail is a line.
// Tails are those below the table of positive and negative numbers, then those above it. The entries follow: [sign][exponent]
// [mantissa].
#pragma once
#include "elements.hpp"

namespace engine {

#if ENGINE_FUNCTIONS
struct tail_t {
    float slope;
    element_t constant;
    bool linear;
};
struct tails_t {
    int32_t first;          // exponent of the table, as bits have it
    element_t infinite[2];  // by sign
    tail_t of[4];           // 2 * above + sign
};

inline tails_t tails_of(const line_t& line) {
#pragma HLS inline
    tails_t tails;
    tails.first = static_cast<int32_t>(bits32_of(line, 0) & 0xff);
    tails.infinite[0] = static_cast<element_t>(bits32_of(line, 1));
    tails.infinite[1] = static_cast<element_t>(bits32_of(line, 1) >> 16);
    for (int k = 0; k < 4; k++) {
#pragma HLS unroll
        const uint32_t constant = bits32_of(line, 6 + k);
        tails.of[k].slope = float_of_bits(bits32_of(line, 2 + k));
        tails.of[k].constant = static_cast<element_t>(constant);
        tails.of[k].linear = (constant >> 16 & 1) != 0;
    }
    return tails;
}

// `entry_of` answers an entry of the table by its index.
// \tparam LOOKUP Function from an index to a table entry.
template <class LOOKUP>
element_t function_of(element_t x, const tails_t& tails, const LOOKUP& entry_of) {
#pragma HLS inline
    const int sign = x >> 15, exponent = x >> 7 & 0xff, mantissa = x & 0x7f;
    const int place = exponent - tails.first;
    const bool below = place < 0, above = place >= FUNCTION_EXPONENTS;
    const tail_t tail = tails.of[2 * above + sign];
    const element_t entry = entry_of(sign << 11 | (place & (FUNCTION_EXPONENTS - 1)) << 7 | mantissa);
    const element_t line = elements::rounded(bits_of(elements::widen(x) * tail.slope));
    const element_t beside = tail.linear ? line : tail.constant;
    if (exponent == 0xff) return mantissa != 0 ? static_cast<element_t>(x | 0x40) : tails.infinite[sign];
    return below || above ? beside : entry;
}
#endif

}  // namespace engine
