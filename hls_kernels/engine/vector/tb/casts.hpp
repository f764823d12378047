// Random commands that quantize and dequantize, and what they have to leave in memory.
#pragma once
#include <cmath>
#include <cstring>

#include "../../tb/tensors.hpp"
#include "../record.hpp"

namespace bench {

// Float32 numbers, as heads of so many words of int8.
struct real_map {
    int words, heads;
    uint32_t at;
    int producer;
};

// A number that quantize rounds by 1 / scale: between two integers, just beside that, far away, or none.
inline float random_real(float factor, random_source& random) {
    const float tie = (static_cast<float>(random.integer(-300, 300)) + 0.5f) / factor;
    const float inf = HUGE_VALF;
    switch (random.integer(0, 5)) {
        case 0: return tie;
        case 1: return std::nextafterf(tie, random.chance(0.5) ? inf : -inf);
        case 2: {
            const float special[] = {inf, -inf, NAN, -NAN, 3e38f, -3e38f, 0.0f, -0.0f, 1e-42f, 2147483648.0f};
            return special[random.integer(0, 9)];
        }
        default: return static_cast<float>(random.real(-300, 300)) / factor;
    }
}

inline real_map new_reals(int words, int heads, float factor, region& maps, random_source& random) {
    const real_map made = {words, heads, maps.allocate(int64_t{words} * heads), -1};
    for (int64_t i = 0; i < int64_t{words} * heads * 16; i++) {
        const float x = random_real(factor, random);
        std::memcpy(reinterpret_cast<char*>(maps.lines().data() + made.at) + i * 4, &x, sizeof x);
    }
    return made;
}

// All but addresses: a cast of heads of so many words of int8.
inline engine::vector_command random_cast(bool quantizes, int words, int heads, random_source& random) {
    engine::vector_command c = {};
    c.opcode = engine::ENGINE_VECTOR;
    c.slices = 1;
    c.operation = quantizes ? engine::VECTOR_QUANTIZE : engine::VECTOR_DEQUANTIZE;
    c.channels = 16;
    c.other = engine::NO_OPERAND;
    c.pixels = quantizes ? words : 4 * words;
    c.taken[0] = quantizes ? 4 * words : words;
    c.heads[0] = 1;
    c.heads[1] = heads;
    const int lines = (words + 3) / 4;
    c.input_head[1] = quantizes ? words : lines;
    c.output_head[1] = quantizes ? lines : words;
    c.row_scale = static_cast<float>(std::ldexp(random.real(0.5, 1), random.integer(-8, 8)));
    if (random.chance(0.3)) c.row_scale = 8;
    c.zero = random.chance(0.4) ? 0 : random.integer(-128, 127);
    c.input_zero = random.chance(0.4) ? 0 : random.integer(-128, 127);
    c.low = random.chance(0.7) ? -128 : random.integer(-128, 0);
    c.high = random.chance(0.7) ? 127 : random.integer(0, 127);
    return c;
}

// Number by number, in double.
inline void reference_of_cast(const engine::vector_command& c, std::vector<line_t>& memory) {
    const bool quantizes = c.operation == engine::VECTOR_QUANTIZE;
    for (int head = 0; head < c.heads[1]; head++) {
        uint8_t* from =
            memory[static_cast<std::size_t>(c.input) + static_cast<std::size_t>(head * c.input_head[1])].byte;
        uint8_t* to =
            memory[static_cast<std::size_t>(c.output) + static_cast<std::size_t>(head * c.output_head[1])].byte;
        const int numbers = (quantizes ? c.pixels : c.taken[0]) * 16;
        for (int i = 0; i < numbers; i++) {
            float real;
            if (quantizes) {
                std::memcpy(&real, from + 4 * i, sizeof real);
                const float product = real * c.row_scale;
                const double limited = std::fmin(std::fmax(product, c.low - c.zero), c.high - c.zero);
                to[i] = std::isnan(product) ? 0
                                            : static_cast<uint8_t>(static_cast<int>(std::nearbyint(limited)) + c.zero);
            } else {
                real = static_cast<float>(static_cast<int8_t>(from[i]) - c.input_zero) * c.row_scale;
                std::memcpy(to + 4 * i, &real, sizeof real);
            }
        }
    }
}

}  // namespace bench
