// Packed weights of a bench: floats, or numbers of 16 or 8 bits side by side.
#pragma once
#include "lib/narrow.hpp"
#include "tb/tb.hpp"

namespace tb {

class packed {
public:
    packed(memory& region, int64_t count, int32_t format)
        : region_(region), count_(count), format_(format), offset_(region.allocate(count / in_word())) {}

    // In elements.
    uint32_t offset() const { return in_word() * offset_; }

    // The number of the format that is the nearest to x (of bytes, to 127 x), as element i.
    void set(int64_t i, float x) {
        if (in_word() == 1) {
            region_[offset_ + i] = x;
            return;
        }
        if (in_word() == 4) {
            bytes()[i] = static_cast<char>(std::lrint(127 * x));
            return;
        }
        const fpga::vec16 v(x);
        const fpga::ivec16 pattern = format_ == fpga::FORMAT_BF16 ? fpga::bf16_pattern(v) : fpga::f16_pattern(v);
        const uint16_t bits = static_cast<uint16_t>(pattern[0]);
        std::memcpy(bytes() + 2 * i, &bits, sizeof bits);
    }

    // Element i, by the formats' definition.
    float operator[](int64_t i) const {
        if (in_word() == 1) return region_[offset_ + i];
        if (in_word() == 4) return static_cast<signed char>(bytes()[i]);
        uint16_t bits;
        std::memcpy(&bits, bytes() + 2 * i, sizeof bits);
        const int fraction_bits = format_ == fpga::FORMAT_BF16 ? 7 : 10, bias = format_ == fpga::FORMAT_BF16 ? 127 : 15;
        const int exponent = (bits & 0x7fff) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
        const int significand = exponent ? fraction + (1 << fraction_bits) : fraction;
        const double value = std::ldexp(significand, (exponent ? exponent : 1) - bias - fraction_bits);
        return static_cast<float>(bits >> 15 ? -value : value);
    }

    // Where a copy of them as floats begins.
    uint32_t widened() const {
        const uint32_t copy = region_.allocate(count_);
        for (int64_t i = 0; i < count_; i++) region_[copy + i] = (*this)[i];
        return copy;
    }

private:
    int in_word() const { return format_ == fpga::FORMAT_F32 ? 1 : format_ == fpga::FORMAT_I8 ? 4 : 2; }
    char* bytes() const { return reinterpret_cast<char*>(&region_[offset_]); }

    memory& region_;
    int64_t count_;
    int32_t format_;
    uint32_t offset_;
};

// Narrow weights give what the same numbers as floats do, to the bit: `wide` is command `c` with those, and each_row(visit)
// names the rows of the output that both write, of `stored` floats.
template <class COMMAND, class CORE, class ROWS>
void compare_with_floats(report& report, const COMMAND& c, const COMMAND& wide, CORE core, memory& arena,
                         const memory& weights, int stored, ROWS each_row) {
    std::vector<float> results;
    core(wide, nullptr, arena.region(), weights.region(), 0, 1);
    each_row([&](size_t at) {
        for (int i = 0; i < stored; i++) results.push_back(arena[at + i]);
    });
    core(c, nullptr, arena.region(), weights.region(), 0, 1);
    size_t next = 0;
    each_row([&](size_t at) {
        for (int i = 0; i < stored; i++)
            if (!same(arena[at + i], results[next++]))
                report.fail("float " + std::to_string(at + i) + " is another than with weights that are floats");
    });
}

}  // namespace tb
