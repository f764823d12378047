// Operands in the host's own memory, on the software card. A start may come with windows: device addresses that stand
// for memory of the host instead of the arena's. A core takes part by a specialisation of `redirection` for its record,
// whose offsets then are `place_t`; a command of any other core that reaches into a window is refused before the start.
#pragma once
#ifndef __SYNTHESIS__
#include <cstdint>

#include "card_abi.hpp"
#include "command.hpp"

namespace fpga {

// The windows of a start as offsets into the arena, in floats.
class windows {
public:
    windows() = default;
    // arena: host pointer of the device address `address`.
    windows(const cu_window* first, uint32_t count, uint64_t address, const void* arena)
        : first_(first), count_(count), address_(address), arena_(reinterpret_cast<uintptr_t>(arena)) {}

    bool empty() const { return count_ == 0; }

    // Has each operand that lies in a window read or written in the host's memory.
    template <class... Places>
    void redirect(Places&... place) const {
        ((place = place == ABSENT ? ABSENT : redirected(place)), ...);
    }

    // Where, seen from the arena's first float, what is at `offset` is to be read or written.
    int64_t redirected(int64_t offset) const {
        for (uint32_t i = 0; i < count_; i++) {
            const uint64_t into = address_ + static_cast<uint64_t>(offset) * 4 - first_[i].address;
            if (into < first_[i].bytes)
                return static_cast<int64_t>(reinterpret_cast<uintptr_t>(first_[i].host) + into - arena_) / 4;
        }
        return offset;
    }

    // How the floats [low, high), of an operand at `offset`, lie to the windows.
    enum relation { APART, INSIDE, ACROSS };
    relation of(int64_t offset, int64_t low, int64_t high) const {
        for (uint32_t i = 0; i < count_; i++) {
            const int64_t begin = static_cast<int64_t>(first_[i].address - address_) / 4;
            const int64_t end = begin + static_cast<int64_t>(first_[i].bytes) / 4;
            if (high <= begin || low >= end) continue;
            const bool all = low >= begin && high <= end && offset >= begin && offset < end;
            return all && redirected(offset) != ABSENT ? INSIDE : ACROSS;
        }
        return APART;
    }

private:
    const cu_window* first_ = nullptr;
    uint32_t count_ = 0;
    uint64_t address_ = 0;
    uintptr_t arena_ = 0;
};

// How a record's operands follow windows: not at all, unless specialised.
template <class Command>
struct redirection {
    static constexpr bool POSSIBLE = false;
    static void apply(Command&, const windows&) {}
};

}  // namespace fpga
#endif
