#include "checksum.hpp"

#include <array>
#include <cstring>

namespace fd {

namespace {

constexpr size_t STEP = 16;  // bytes that a turn of the loop takes
using tables = std::array<std::array<uint32_t, 256>, STEP>;

tables make_tables() {
    tables made{};
    for (uint32_t i = 0; i < 256; ++i) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
        made[0][i] = value;
    }
    for (size_t t = 1; t < STEP; ++t)
        for (size_t i = 0; i < 256; ++i) made[t][i] = made[t - 1][i] >> 8 ^ made[0][made[t - 1][i] & 0xff];
    return made;
}

}  // namespace

// "Slicing": the tables of 16 bytes are independent look-ups, so that a turn takes as long as one of them.
uint32_t crc32(const void* data, size_t bytes, uint32_t before) {
    static const tables table = make_tables();
    const auto* at = static_cast<const uint8_t*>(data);
    uint32_t value = ~before;
    for (; bytes >= STEP; bytes -= STEP, at += STEP) {
        uint8_t block[STEP];
        std::memcpy(block, at, STEP);
        for (size_t i = 0; i < 4; ++i) block[i] ^= static_cast<uint8_t>(value >> 8 * i);
        value = 0;
        for (size_t i = 0; i < STEP; ++i) value ^= table[STEP - 1 - i][block[i]];
    }
    for (; bytes; --bytes, ++at) value = value >> 8 ^ table[0][(value ^ *at) & 0xff];
    return ~value;
}

}  // namespace fd
