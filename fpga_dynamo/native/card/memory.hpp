// A memory bank of the card: a reserved range of addresses, of which only what buffers occupy is backed by memory.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <utility>

#include "address_space.hpp"
#include "red_zone.hpp"
#include "xclbin.hpp"

namespace card_model {

class bank;

// A piece of a bank, given back when it goes. Zeroed, aligned to 4 KiB, between pages that nobody may touch; what is
// left of its last page is a red zone.
class allocation {
public:
    allocation(std::shared_ptr<bank> owner, uint64_t offset, uint64_t bytes);
    ~allocation();
    allocation(const allocation&) = delete;
    allocation& operator=(const allocation&) = delete;

    uint64_t address() const;  // on the card
    uint64_t bytes() const { return bytes_; }
    uint8_t* data() const;  // the same memory as the host sees it
    const bank* owner() const { return owner_.get(); }

private:
    std::shared_ptr<bank> owner_;
    uint64_t offset_, bytes_;
};

class bank : public std::enable_shared_from_this<bank> {
public:
    bank(const memory_info& info, uint32_t index);
    ~bank();
    bank(const bank&) = delete;
    bank& operator=(const bank&) = delete;

    // Best fit. Throws out_of_memory naming the bank, what was wanted and what is free.
    std::shared_ptr<allocation> allocate(uint64_t bytes);

    // As address_space has them.
    void* translate(uint64_t address, uint64_t* bytes) const;
    bool find(uint64_t address, buffer_extent* found) const;
    bool find_near(const void* host, buffer_extent* found) const;
    std::string describe(const void* host) const;

    const std::string& tag() const { return info_.tag; }
    uint32_t index() const { return index_; }
    uint64_t base() const { return info_.base; }
    uint64_t bytes() const { return info_.bytes; }
    uint64_t used() const;  // with guard pages
    size_t buffers() const;

private:
    friend class allocation;
    void release(uint64_t offset, uint64_t bytes);
    buffer_extent extent(const std::pair<const uint64_t, uint64_t>& live) const {
        return {info_.base + live.first, live.second, host_ + live.first};
    }
    bool take(uint64_t span, uint64_t alignment, uint64_t* offset);
    void insert_hole(uint64_t offset, uint64_t span);
    void erase_hole(uint64_t offset, uint64_t span);

    const memory_info info_;
    const uint32_t index_;
    uint8_t* reservation_ = nullptr;
    uint64_t reserved_ = 0;
    uint8_t* host_ = nullptr;  // of the bank's first byte, aligned to a huge page
    mutable std::shared_mutex mutex_;
    std::map<uint64_t, uint64_t> holes_;                     // offset -> span
    std::set<std::pair<uint64_t, uint64_t>> holes_by_span_;  // (span, offset)
    std::map<uint64_t, uint64_t> live_;                      // offset -> bytes asked for
    uint64_t used_ = 0;
};

}  // namespace card_model
