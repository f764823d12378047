// From sums to elements: the arithmetic of record.hpp, once, for the hardware and the CPU schedule.
//
// int8 is integers (lib/requantize.hpp). Of floats products and sums round each for itself: compilers must not contract them
// (-ffp-contract=off), or the results are others than a card's, which has separate operators.
#pragma once
#include <cstdint>

#include "elements.hpp"
#include "function.hpp"
#include "lib/requantize.hpp"
#include "record.hpp"

namespace engine {

// The result of the epilogue for one sum: an element, and 32 bits for a command that stores these, the sum or where MAC_WIDE the result.
struct epilogue_result_t {
    element_t element;
    uint32_t bits;
};

// `middle_of` and `last_of` look up the table, where the command has one.
#if ENGINE_ELEMENT == 0
// \tparam LOOKUP Function from an index to a table entry.
template <class LOOKUP>
epilogue_result_t finish(sum_t sum, const factor_t& scale, const factor_t& bias, element_t residual,
                         const mac_command& c, const LOOKUP& middle_of, const LOOKUP& last_of) {
#pragma HLS inline
    const fpga::requantize_channel channel = {0, scale, bias};
    const fpga::requantize_tensor tensor = {
        c.zero,          c.low,           c.high,        has_residual(c) ? c.residual_factor : 0,
        c.residual_zero, c.middle_factor, c.middle_zero, (c.flags & MAC_MIDDLE) != 0};
    const int32_t result = fpga::requantize_with(sum, channel, residual, tensor, [&](int32_t middle) {
        return c.flags & MAC_MIDDLE_TABLE ? static_cast<int32_t>(middle_of(middle)) : middle;
    });
    return {c.flags & MAC_TABLE ? last_of(result) : static_cast<element_t>(result), bits_of_sum(sum)};
}
#else
// \tparam LOOKUP Function from an index to a table entry.
template <class LOOKUP>
epilogue_result_t finish(sum_t sum, const factor_t& scale, const factor_t& bias, element_t residual,
                         const mac_command& c, const LOOKUP&, const LOOKUP& last_of) {
#pragma HLS inline
    const float product = sum * scale;
    float y = product + bias;
    if (has_residual(c)) y = y + elements::widen(residual);
    const float low = float_of_bits(static_cast<uint32_t>(c.low)), high = float_of_bits(static_cast<uint32_t>(c.high));
    y = y < low ? low : y;  // in this order a NaN stays
    y = y > high ? high : y;
    const uint32_t bits = is_wide(c) ? bits_of(y) : bits_of_sum(sum);
    const element_t result = elements::narrow(y);
#if ENGINE_FUNCTIONS
    return {c.flags & MAC_TABLE ? last_of(result) : result, bits};
#else
    (void)last_of;
    return {result, bits};
#endif
}
#endif

constexpr int TABLE_ENTRIES = 256;

// A command's table as it lies in memory, for the CPU schedule.
#if ENGINE_FUNCTIONS
struct plain_table {
    tails_t tails;
    const element_t* entry;
    element_t operator()(element_t x) const {
        return function_of(x, tails, [&](int at) { return entry[at]; });
    }
};
inline plain_table table_of(const mac_command& c, const line_t* weights) {
    if (!has_table(c)) return plain_table();
    return {tails_of(weights[c.table]), reinterpret_cast<const element_t*>(weights + c.table + 1)};
}
#else
struct plain_table {
    const element_t* entry;
    element_t operator()(int32_t x) const { return entry[x + 128]; }
};
inline plain_table table_of(const mac_command& c, const line_t* weights) {
    return {reinterpret_cast<const element_t*>(weights + c.params + int64_t{c.out_blocks} * 3)};
}
#endif

}  // namespace engine
