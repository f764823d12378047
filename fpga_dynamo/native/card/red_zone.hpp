// The bytes behind a buffer, up to the end of its last page: they hold a pattern, by which a stray write shows. Where a
// buffer ends with its page there is no such byte, and the guard page behind it finds the write.
#pragma once
#include <cstdint>
#include <optional>

namespace card_model {

constexpr uint64_t PAGE = 4096;

// For a buffer that begins with a page and has all of its last one.
void lay_red_zone(uint8_t* buffer, uint64_t bytes);

// Changed bytes, as distances from the buffer's end; those between may be as they were.
struct stray_write {
    uint64_t first, last;
};
std::optional<stray_write> find_stray_write(const uint8_t* buffer, uint64_t bytes);

}  // namespace card_model
