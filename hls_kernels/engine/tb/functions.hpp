// Functions of bfloat16 results for benches: random ones, as they lie in memory, and what they give, without the engine's sources.
#pragma once
#include "tensors.hpp"

namespace bench {

#if ENGINE_FUNCTIONS
constexpr int TABLE_EXPONENTS = 16;

struct tail {
    bool linear = false;
    float slope = 0;
    element_t constant = 0;
};
struct function {
    int first = 0;            // exponent of the table, from 0 to 254
    tail below[2], above[2];  // by sign
    element_t infinite[2] = {0, 0};
    std::vector<element_t> entries;  // [sign][exponent][mantissa]
};

inline element_t result_of(const function& f, element_t x) {
    const double value = number_of(x), size = std::fabs(value);
    const int sign = std::signbit(value) ? 1 : 0;
    if (std::isnan(value)) return x;
    if (std::isinf(value)) return f.infinite[sign];
    const int exponent = size < 0x1p-126 ? 0 : std::ilogb(size) + 127;
    if (exponent >= f.first && exponent < f.first + TABLE_EXPONENTS) {
        const double unit = std::ldexp(1, (exponent ? exponent : 1) - 127 - 7);
        const int mantissa = static_cast<int>(size / unit) - (exponent ? 128 : 0);
        return f.entries[static_cast<std::size_t>((sign * TABLE_EXPONENTS + exponent - f.first) * 128 + mantissa)];
    }
    const tail& l = exponent < f.first ? f.below[sign] : f.above[sign];
    return l.linear ? element_from(static_cast<double>(static_cast<float>(value * l.slope))) : l.constant;
}

// first: from which exponent on it has a table. All that it gives is finite.
inline function random_function(int first, random_source& random) {
    function f;
    f.first = first;
    const auto random_law = [&] {
        tail l;
        l.linear = random.chance(0.5);
        l.slope = static_cast<float>(random.real(-1, 1));
        l.constant = random_element(random);
        return l;
    };
    for (int sign = 0; sign < 2; sign++) {
        f.below[sign] = random_law();
        f.above[sign] = random_law();
        f.infinite[sign] = random_element(random);
    }
    f.entries.resize(2 * TABLE_EXPONENTS * 128);
    for (element_t& x : f.entries) x = random_element(random);
    return f;
}

inline std::vector<line_t> lines_of(const function& f) {
    std::vector<line_t> lines(1 + f.entries.size() * 2 / engine::LINE_BYTES, line_t());
    line_t& head = lines[0];
    engine::set_bits32(head, 0, static_cast<uint32_t>(f.first));
    engine::set_bits32(head, 1, f.infinite[0] | static_cast<uint32_t>(f.infinite[1]) << 16);
    for (int k = 0; k < 4; k++) {
        const tail& l = k < 2 ? f.below[k] : f.above[k - 2];
        engine::set_bits32(head, 2 + k, engine::bits_of(l.slope));
        engine::set_bits32(head, 6 + k, l.constant | static_cast<uint32_t>(l.linear) << 16);
    }
    std::memcpy(static_cast<void*>(&lines[1]), f.entries.data(), f.entries.size() * 2);
    return lines;
}
#endif

}  // namespace bench
