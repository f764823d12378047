// What the benches of the int8 cores share: maps of bytes in a memory, random epilogues and their reference, runs in slices.
#pragma once
#include "lib/int8/epilogue.hpp"
#include "tb/tb.hpp"

namespace tb {

inline uint8_t* bytes_in(memory& region) { return reinterpret_cast<uint8_t*>(region.region()); }
inline const uint8_t* bytes_in(const memory& region) { return reinterpret_cast<const uint8_t*>(region.region()); }

// Offset in bytes of a new buffer.
inline int64_t allocate_bytes(memory& region, int64_t bytes) { return 4 * int64_t{region.allocate((bytes + 3) / 4)}; }

inline int64_t random_bytes(memory& region, random_source& random, int64_t bytes) {
    const int64_t at = allocate_bytes(region, bytes);
    const bool extreme = random.chance(0.2);
    for (int64_t i = 0; i < bytes; i++)
        bytes_in(region)[at + i] = static_cast<uint8_t>(extreme ? random.pick({0, 127, 128, 255})
                                                                : random.integer(0, 255));
    return at;
}

// Multiple of 64.
inline int64_t aligned_bytes(memory& region, int64_t bytes) {
    const int64_t at = allocate_bytes(region, bytes + 64);
    return (at + 63) / 64 * 64;
}

inline int32_t value_of(uint8_t byte, int32_t format) {
    return format == fpga::FORMAT_I8 ? static_cast<int8_t>(byte) : byte;
}
inline int32_t random_format(random_source& random) { return random.pick({fpga::FORMAT_U8, fpga::FORMAT_I8}); }
inline int32_t random_value(random_source& random, int32_t format) {
    const int32_t least = fpga::least_of(format);
    return least + (random.chance(0.3) ? random.pick({0, 128, 255}) : random.integer(0, 255));
}

inline int32_t word_at(const memory& region, size_t at) {
    int32_t x;
    std::memcpy(&x, &region.region()[0], 0);
    std::memcpy(&x, bytes_in(region) + 4 * at, sizeof x);
    return x;
}
inline void set_word(memory& region, size_t at, int32_t x) { std::memcpy(bytes_in(region) + 4 * at, &x, sizeof x); }

// Fills in what a record's epilogue is, parameters of `panels` panels of `width` channels and tables among it. `greatest` is
// what sums may come to. `residual`: the command has one, whose place and format are set already.
template <class COMMAND>
void random_epilogue(COMMAND& c, memory& weights, random_source& random, int panels, int width, double greatest) {
    const bool floats = fpga::is_wide(c.out_format);
    c.activation = floats || (c.residual == fpga::ABSENT && random.chance(0.15))
                       ? random.pick({fpga::ACT_RELU, fpga::ACT_GELU, fpga::ACT_HARDSWISH, fpga::ACT_SIGMOID})
                       : fpga::ACT_NONE;
    if (floats && random.chance(0.5)) c.activation = fpga::ACT_NONE;
    c.act_a = 0;
    c.act_b = 6;
    c.inverse_scale = random.real(5, 60);
    c.out_zero = floats ? 0 : random_value(random, c.out_format);
    const int32_t least = fpga::least_of(c.out_format);
    c.out_low = random.chance(0.5) || floats ? least : random.integer(least, c.out_zero);
    c.out_high = random.chance(0.5) || floats ? least + 255 : random.integer(c.out_zero, least + 255);
    c.middle = c.activation == fpga::ACT_NONE && !floats && random.chance(0.2);
    c.middle_zero = random.integer(-128, 127);
    c.middle_factor = fpga::make_factor(random.real(0.1f, 1.5f));
    c.residual_factor = fpga::make_factor(random.real(0.1f, 1.5f));
    c.residual_zero = random_value(random, c.residual_format);
    c.table = !floats && random.chance(0.2) ? static_cast<uint32_t>(random_bytes(weights, random, 256)) : fpga::ABSENT;
    c.middle_table = c.middle && random.chance(0.4) ? static_cast<uint32_t>(random_bytes(weights, random, 256))
                                                    : fpga::ABSENT;
    const bool in_floats = floats || c.activation != fpga::ACT_NONE;
    c.parameters = static_cast<uint32_t>(aligned_bytes(weights, int64_t{4} * panels * 3 * width) / 4);
    for (int p = 0; p < panels; p++)
        for (int i = 0; i < width; i++) {
            const size_t at = c.parameters + static_cast<size_t>(p) * 3 * width + i;
            const float scale = random.real(20, 300) / static_cast<float>(greatest + 1);
            if (in_floats) {
                const float value = scale / 40, bias = random.real(-1, 1);
                set_word(weights, at, random.integer(-1000, 1000));
                std::memcpy(bytes_in(weights) + 4 * (at + width), &value, 4);
                std::memcpy(bytes_in(weights) + 4 * (at + 2 * width), &bias, 4);
                continue;
            }
            const fpga::requantize_channel channel = fpga::make_channel(scale, random.real(-60, 60), greatest + 1000,
                                                                        random.integer(-1000, 1000), 4096);
            set_word(weights, at, channel.offset);
            set_word(weights, at + width, channel.scale);
            set_word(weights, at + 2 * width, channel.bias);
        }
}

// What `sum` becomes; `residual` is its value. In floats: a double, with the scale of its row and `times` the offset.
template <class COMMAND>
double reference_result(const COMMAND& c, const memory& weights, int panel, int lane, int width, int32_t sum,
                        int32_t residual, double row_scale = 1, int32_t times = 1) {
    const size_t at = c.parameters + static_cast<size_t>(panel) * 3 * width + lane;
    const bool floats = c.out_format == fpga::FORMAT_F32 || c.activation != fpga::ACT_NONE;
    const int32_t least = fpga::least_of(c.out_format);
    int32_t result;
    if (floats) {
        float scale, bias;
        std::memcpy(&scale, bytes_in(weights) + 4 * (at + width), 4);
        std::memcpy(&bias, bytes_in(weights) + 4 * (at + 2 * width), 4);
        const double x =
            reference_activation(static_cast<double>(sum + times * word_at(weights, at)) * row_scale * scale + bias,
                                 c.activation, c.act_a, c.act_b);
        if (c.out_format == fpga::FORMAT_F32) return x;
        const double r = std::nearbyint(x * c.inverse_scale) + c.out_zero;
        result = static_cast<int32_t>(r < c.out_low ? c.out_low : r > c.out_high ? c.out_high : r);
    } else {
        const fpga::requantize_channel channel = {word_at(weights, at), word_at(weights, at + width),
                                                  word_at(weights, at + 2 * width)};
        fpga::requantize_tensor t = {};
        t.zero = c.out_zero;
        t.low = c.out_low;
        t.high = c.out_high;
        t.middle = c.middle != 0;
        t.middle_zero = c.middle_zero;
        t.middle_factor = c.middle_factor;
        t.residual_factor = c.residual == fpga::ABSENT ? 0 : c.residual_factor;
        t.residual_zero = c.residual_zero;
        const int8_t* table = c.middle_table == fpga::ABSENT
                                  ? nullptr
                                  : reinterpret_cast<const int8_t*>(bytes_in(weights) + c.middle_table);
        result = fpga::requantize(sum, channel, residual, t, table);
    }
    if (c.table != fpga::ABSENT) result = bytes_in(weights)[c.table + result - least];
    return result & 0xff;
}

// Runs a core in 1, 3 and 8 slices, which must give the same bytes. `each_row(visit)` names the rows of its output
// by the offset of their first byte. A run may change `stored` bytes of a row and nothing else. compare() then looks at the results.
template <class COMMAND, class CORE, class ROWS, class COMPARE>
void run_bytes_sliced(report& report, const COMMAND& c, CORE core, memory& arena, const memory& weights, int64_t stored,
                      ROWS each_row, COMPARE compare) {
    const size_t size = 4 * arena.size();
    std::vector<uint8_t> first;
    std::vector<bool> allowed(size, false);
    each_row([&](size_t at) {
        for (int64_t i = 0; i < stored; i++) allowed[at + i] = true;
    });
    for (uint32_t slices : {1u, 3u, 8u}) {
        for (size_t i = 0; i < size; i++)
            if (allowed[i]) bytes_in(arena)[i] = 0xa5;
        const std::vector<uint8_t> before(bytes_in(arena), bytes_in(arena) + size);
        for (uint32_t slice = 0; slice < slices; slice++) {
            const uint32_t status = core(c, nullptr, arena.region(), weights.region(), slice, slices);
            report.check(status == fpga::STATUS_OK, "status " + std::to_string(status));
        }
        for (size_t i = 0; i < size; i++)
            if (!allowed[i] && bytes_in(arena)[i] != before[i]) {
                report.fail("stray store at byte " + std::to_string(i));
                break;
            }
        if (slices == 1) {
            first.assign(bytes_in(arena), bytes_in(arena) + size);
            compare();
        } else {
            report.check(std::equal(first.begin(), first.end(), bytes_in(arena)),
                         "other bytes in " + std::to_string(slices) + " slices");
        }
    }
}

}  // namespace tb
