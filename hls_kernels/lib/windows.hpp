// Operands in host memory, on the emulator. A start may come with windows: device addresses that refer to memory of the host
// instead of the arena. A core supports windows by a specialisation of `redirection` for its record, whose offsets then are
// `place_t`. A command of any other core that accesses a window is rejected before the start.
#pragma once
#ifndef __SYNTHESIS__
#include <cstdint>

#include "card_abi.hpp"
#include "command.hpp"

namespace fpga {

// The windows of a start, seen from the arena's base.
class windows {
public:
    windows() = default;
    // arena: host pointer of the device address `address`.
    windows(const cu_window* first, uint32_t count, uint64_t address, const void* arena)
        : first_(first), count_(count), address_(address), arena_(reinterpret_cast<uintptr_t>(arena)) {}

    bool empty() const { return count_ == 0; }

    // Redirects each operand in a window to host memory. Elements of 4 bytes; others:
    // \tparam Places Types of the offsets.
    template <class... Places>
    void redirect(Places&... place) const {
        (redirect_elements(4, place), ...);
    }
    void redirect_elements(int32_t bytes, place_t& place) const {
        place = place == ABSENT ? ABSENT : redirected(place, bytes);
    }

    // How the bytes [low, high), of an operand whose first element is at byte `first`, lie to the windows.
    enum relation { APART, INSIDE, ACROSS };
    relation of(int64_t first, int64_t low, int64_t high) const {
        for (uint32_t i = 0; i < count_; i++) {
            const int64_t begin = static_cast<int64_t>(first_[i].address - address_);
            const int64_t end = begin + static_cast<int64_t>(first_[i].bytes);
            if (high <= begin || low >= end) continue;
            const bool all = low >= begin && high <= end && first >= begin && first < end;
            return all && aligned(i) && !meets_absent(i, first) ? INSIDE : ACROSS;
        }
        return APART;
    }

private:
    // Where, in elements from the arena's base, what is at `offset` is to be read or written.
    int64_t redirected(int64_t offset, int32_t bytes) const {
        const int64_t at = offset * bytes;
        for (uint32_t i = 0; i < count_; i++) {
            const uint64_t into = address_ + static_cast<uint64_t>(at) - first_[i].address;
            if (into < first_[i].bytes) return (distance(i) + static_cast<int64_t>(into)) / bytes;
        }
        return offset;
    }

    // Bytes from the arena to a window's memory.
    int64_t distance(uint32_t i) const {
        return static_cast<int64_t>(reinterpret_cast<uintptr_t>(first_[i].host) - arena_);
    }
    bool aligned(uint32_t i) const { return distance(i) % 4 == 0; }
    // Whether a redirected offset may be the one that stands for no operand, in elements of any width.
    bool meets_absent(uint32_t i, int64_t first) const {
        const int64_t there = distance(i) + first - static_cast<int64_t>(first_[i].address - address_);
        for (const int64_t bytes : {1, 2, 4})
            if (there == int64_t{ABSENT} * bytes) return true;
        return false;
    }

    const cu_window* first_ = nullptr;
    uint32_t count_ = 0;
    uint64_t address_ = 0;
    uintptr_t arena_ = 0;
};

// How a record's operands follow windows: not at all, unless specialised.
// \tparam Command Command record of the core.
template <class Command>
struct redirection {
    static constexpr bool POSSIBLE = false;
    static void apply(Command&, const windows&) {}
};

}  // namespace fpga
#endif
