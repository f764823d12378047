#include "copies.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>

#include "faults.hpp"

namespace card_model {

namespace {

// Bytes [begin, end) of the copies, one behind the other.
void copy_range(const std::vector<memory_copy>& copies, uint64_t begin, uint64_t end) {
    uint64_t first = 0;
    for (const memory_copy& c : copies) {
        const uint64_t low = std::clamp(begin, first, first + c.bytes) - first;
        const uint64_t high = std::clamp(end, first, first + c.bytes) - first;
        std::memcpy(c.to + low, c.from + low, high - low);
        first += c.bytes;
    }
}

}  // namespace

void copy_shared(const std::vector<memory_copy>& copies, unsigned threads) {
    uint64_t bytes = 0;
    for (const memory_copy& c : copies) bytes += c.bytes;
    const auto begin = [&](unsigned part) { return bytes * part / threads; };
    std::vector<std::thread> team;
    unsigned part = 1;
    try {
        for (; part < threads; ++part)
            team.emplace_back([&copies, low = begin(part), high = begin(part + 1)] {
                block_foreign_signals();
                copy_range(copies, low, high);
            });
    } catch (const std::system_error&) {  // no more threads: the rest is the caller's, too
        copy_range(copies, begin(part), bytes);
    }
    copy_range(copies, 0, begin(1));
    for (std::thread& helper : team) helper.join();
}

}  // namespace card_model
