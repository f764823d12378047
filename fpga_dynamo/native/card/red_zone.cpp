#include "red_zone.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace card_model {

namespace {

// As far as a stray burst of 16 memory beats goes; more would cost each run more to look at.
constexpr uint64_t MOST_BYTES = 1024;

// Nothing that a kernel would write.
constexpr std::array<uint8_t, MOST_BYTES> PATTERN = [] {
    std::array<uint8_t, MOST_BYTES> bytes{};
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(0xa5 + 0x3d * i);
    return bytes;
}();

uint64_t zone_bytes(uint64_t buffer_bytes) {
    const uint64_t in_last_page = buffer_bytes % PAGE;
    return in_last_page ? std::min(MOST_BYTES, PAGE - in_last_page) : 0;
}

}  // namespace

void lay_red_zone(uint8_t* buffer, uint64_t bytes) { std::memcpy(buffer + bytes, PATTERN.data(), zone_bytes(bytes)); }

std::optional<stray_write> find_stray_write(const uint8_t* buffer, uint64_t bytes) {
    const uint8_t* zone = buffer + bytes;
    const uint64_t count = zone_bytes(bytes);
    if (std::memcmp(zone, PATTERN.data(), count) == 0) return std::nullopt;
    stray_write found{0, count - 1};
    while (zone[found.first] == PATTERN[found.first]) ++found.first;
    while (zone[found.last] == PATTERN[found.last]) --found.last;
    return found;
}

}  // namespace card_model
