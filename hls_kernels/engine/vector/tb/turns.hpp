// What interleave and gather have to leave in memory, by plain loops.
#pragma once
#include "../../tb/tensors.hpp"
#include "../record.hpp"

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
                    const bool turned = c.operation == engine::VECTOR_TRANSPOSE;
                    uint8_t& result = turned ? byte_of(memory, begins, to - to % 16 + k, to % 16)
                                             : byte_of(memory, begins, to, k);
                    result = begin >> 30 == 1 ? entries.byte[n % 4 * 16 + 8 + k % 4]
                                              : byte_of(source, 0, from + int64_t{begin & 0x3fffffff} + w, k);
                }
        }
    }
}

}  // namespace bench
