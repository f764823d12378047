// Many copies between host and card, shared by threads where that pays.
#pragma once
#include <cstdint>
#include <vector>

namespace card_model {

struct memory_copy {
    uint8_t* to;
    const uint8_t* from;
    uint64_t bytes;
};

// From so many bytes on the start of a thread is nothing beside them.
constexpr uint64_t SHARED_COPY_BYTES = 4 << 20;

// Does all of them in at most `threads` parts of equal bytes, one on the calling thread. No two targets may overlap.
void copy_shared(const std::vector<memory_copy>& copies, unsigned threads);

}  // namespace card_model
