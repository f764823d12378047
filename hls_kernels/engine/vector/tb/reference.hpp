// What a command of the vector side has to leave in memory, by plain loops.
#pragma once
#include <cmath>
#include <utility>

#include "../../tb/tensors.hpp"
#include "../record.hpp"
#include "casts.hpp"

namespace bench {

using engine::line_t;
using engine::vector_command;

// Words in turn, one by one.
inline void reference_of_turns(const vector_command& c, std::vector<line_t>& memory) {
    const std::vector<line_t> before = memory;
    for (int block = 0; block < c.heads[1]; block++) {
        int64_t taken[2] = {0, 0};
        for (int row = 0; row < c.pixels / c.row; row++)
            for (int at = 0, map = 0, turn = 0; at < c.row; at++, turn++) {
                if (turn == c.turns[map]) map = 1 - map, turn = 0;
                const int64_t from = map ? c.other + int64_t{block} * c.other_head[1]
                                         : c.input + int64_t{block} * c.input_head[1];
                const int64_t word = taken[map]++, to = int64_t{row} * c.row + at;
                for (int k = 0; k < 16; k++)
                    memory[static_cast<std::size_t>(c.output + int64_t{block} * c.output_head[1] + to / 4)]
                        .byte[static_cast<std::size_t>(to % 4 * 16 + k)] =
                        before[static_cast<std::size_t>(from + word / 4)]
                            .byte[static_cast<std::size_t>(word % 4 * 16 + k)];
            }
    }
}

// Words as a table of runs names them, one by one.
inline void reference_of_runs(const vector_command& c, const std::vector<line_t>& params, std::vector<line_t>& memory) {
    const std::vector<line_t> before = memory;
    const auto byte_of = [](std::vector<line_t>& of, int64_t line, int64_t word, int k) -> uint8_t& {
        return of[static_cast<std::size_t>(line + word / 4)].byte[static_cast<std::size_t>(word % 4 * 16 + k)];
    };
    std::vector<line_t> source = before;
    for (int head = 0; head < c.heads[0] * c.heads[1]; head++) {
        const int64_t h0 = head / c.heads[1], h1 = head % c.heads[1];
        const int64_t from = int64_t{c.input} + h0 * c.input_head[0] + h1 * c.input_head[1];
        const int64_t begins = int64_t{c.output} + h0 * c.output_head[0] + h1 * c.output_head[1];
        int64_t to = 0;
        for (int n = 0; n < c.runs; n++) {
            const line_t& entries = params[static_cast<std::size_t>(c.params + n / 4)];
            const uint32_t begin = engine::bits32_of(entries, n % 4 * 4),
                           words = engine::bits32_of(entries, n % 4 * 4 + 1);
            for (uint32_t w = 0; w < words && to < c.pixels; w++, to++)
                for (int k = 0; k < 16; k++) {
                    const bool transposed = c.operation == engine::VECTOR_TRANSPOSE;
                    uint8_t& result = transposed ? byte_of(memory, begins, to - to % 16 + k, to % 16)
                                                 : byte_of(memory, begins, to, k);
                    result = begin >> 30 == 1 ? entries.byte[n % 4 * 16 + 8 + k % 4]
                                              : byte_of(source, 0, from + int64_t{begin & 0x3fffffff} + w, k);
                }
        }
    }
}

// Mantissa and places of a row's scale: as many of 22 + 4 k as leave 26 bits.
inline std::pair<int64_t, int> row_scale(float x) {
    int places = 22;
    while (places < 50 && std::ldexp(static_cast<double>(x), places + 4) < 0x1p26) places += 4;
    const double scaled = std::ldexp(static_cast<double>(x), places);
    return {scaled < 0x1p26 ? static_cast<int64_t>(scaled) : (1 << 26) - 1, places};
}
template <class NUMBER>
void row_results(const vector_command& c, const std::vector<int>& x, const std::vector<int>& r,
                 std::vector<long double>& y, NUMBER number) {
    const std::size_t n = static_cast<std::size_t>(c.channels);
    if (c.operation == engine::VECTOR_SOFTMAX) {
        int greatest = -1000;
        for (std::size_t k = 0; k < n; k++)
            if (r[k] == 0 && x[k] > greatest) greatest = x[k];
        std::vector<uint32_t> e(n, 0);
        uint64_t sum = 0;
        for (std::size_t k = 0; k < n; k++) {
            if (r[k] == 0) e[k] = number(c.params, greatest - x[k]);
            sum += e[k];
        }
        if (sum == 0) return;
        const auto [mantissa, places] = row_scale(c.row_scale / static_cast<float>(sum));
        for (std::size_t k = 0; k < n; k++) y[k] = ldexpl(static_cast<long double>(e[k]) * mantissa, -places);
    } else if (c.operation == engine::VECTOR_NORM) {
        int64_t sum = 0, squares = 0;
        for (std::size_t k = 0; k < n; k++) {
            if (!(c.flags & engine::VECTOR_UNCENTERED)) sum += x[k];
            squares += x[k] * x[k];
        }
        const float variance = static_cast<float>(c.channels * squares - sum * sum) + c.epsilon;
        const auto [mantissa, places] = row_scale(1.0f / std::sqrt(variance));
        for (std::size_t k = 0; k < n; k++) {
            const long double exact = ldexpl((c.channels * x[k] - sum) * mantissa, 22 - places);
            const std::size_t at = k / 16 * 32 + k % 16;
            const auto gamma = static_cast<int32_t>(number(c.params, static_cast<int64_t>(at)));
            const auto beta = static_cast<int32_t>(number(c.params, static_cast<int64_t>(at + 16)));
            y[k] = ldexpl(floorl(exact) * gamma, -39) + ldexpl(beta, -22);
        }
    } else {
        const long double scale = ldexpl(c.input_scale >> 5, -22 - 4 * (c.input_scale & 7));
        for (std::size_t k = 0; k < n; k++) {
            const int left = x[k] - c.input_zero, right = r[k] - c.other_zero;
            if (c.operation == engine::VECTOR_MULTIPLY)
                y[k] = left * right * scale;
            else
                y[k] = left * scale + (has_other(c) ? right * ldexpl(c.other_factor, -22) : 0);
        }
    }
}

// record.hpp's definition, word for word.
inline void reference_of(const vector_command& c, const std::vector<line_t>& params, std::vector<line_t>& memory) {
    if (c.operation == engine::VECTOR_INTERLEAVE) return reference_of_turns(c, memory);
    if (c.operation == engine::VECTOR_GATHER || c.operation == engine::VECTOR_TRANSPOSE)
        return reference_of_runs(c, params, memory);
    if (c.operation == engine::VECTOR_QUANTIZE || c.operation == engine::VECTOR_DEQUANTIZE)
        return reference_of_cast(c, memory);
    if (c.operation == engine::VECTOR_CONSTANT) {
        for (int64_t word = 0; word < int64_t{c.heads[1]} * c.output_head[1] * 4; word++)
            if (word % (c.output_head[1] * 4) < c.pixels)
                std::memcpy(memory[static_cast<std::size_t>(c.output + word / 4)].byte + word % 4 * 16,
                            params[static_cast<std::size_t>(c.params + word / 4)].byte + word % 4 * 16, 16);
        return;
    }
    const std::vector<line_t> before = memory;  // the output may be an input
    auto element = [&](const std::vector<line_t>& of, int64_t line, int64_t rows, int row, int channel) {
        const int64_t at = engine::map_index(rows, row, channel);
        return static_cast<int>(
            static_cast<int8_t>(of[static_cast<std::size_t>(line + at / 64)].byte[static_cast<std::size_t>(at % 64)]));
    };
    auto number = [&](int64_t line, int64_t at) {
        return engine::bits32_of(params[static_cast<std::size_t>(line + at / 16)], static_cast<int>(at % 16));
    };
    const int padded = (c.channels + 15) / 16 * 16;
    int64_t params_lines = 0;
    if (c.operation == engine::VECTOR_SOFTMAX) params_lines = 16;
    if (c.operation == engine::VECTOR_NORM) params_lines = padded / 8;
    for (int h0 = 0; h0 < c.heads[0]; h0++)
        for (int h1 = 0; h1 < c.heads[1]; h1++)
            for (int row = 0; row < c.pixels; row++) {
                std::vector<int> x(static_cast<std::size_t>(padded)), r(x.size(), 0);
                for (int k = 0; k < padded; k++) {
                    const std::size_t i = static_cast<std::size_t>(k);
                    x[i] = element(before, c.input + int64_t{h0} * c.input_head[0] + int64_t{h1} * c.input_head[1],
                                   c.pixels, row, k);
                    const int64_t other = c.other + int64_t{h0} * c.other_head[0] + int64_t{h1} * c.other_head[1];
                    if (has_other(c))
                        r[i] = is_shared(c) ? element(before, other, 1, 0, k)
                                            : element(before, other, c.pixels, row, k);
                }
                std::vector<long double> y(x.size(), 0.0L);
                row_results(c, x, r, y, number);
                for (int k = 0; k < padded; k++) {
                    const long double limited = fminl(fmaxl(y[static_cast<std::size_t>(k)], -1e6L), 1e6L);
                    int64_t value = static_cast<int64_t>(nearbyintl(limited)) + c.zero;
                    value = value < c.low ? c.low : value > c.high ? c.high : value;
                    if (c.flags & engine::VECTOR_TABLE) {
                        const int64_t line = c.params + params_lines + (value + 128) / 64;
                        value =
                            params[static_cast<std::size_t>(line)].byte[static_cast<std::size_t>((value + 128) % 64)];
                    }
                    const int64_t at = engine::map_index(c.pixels, row, k);
                    const int64_t line = c.output + int64_t{h0} * c.output_head[0] + int64_t{h1} * c.output_head[1];
                    memory[static_cast<std::size_t>(line + at / 64)].byte[static_cast<std::size_t>(at % 64)] =
                        static_cast<uint8_t>(value);
                }
            }
}

}  // namespace bench
