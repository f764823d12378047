// Buffer objects (xrt::bo): memory of the card and, for most kinds, the host's copy of it.
#pragma once
#include <cstdint>
#include <memory>

#include "card.hpp"
#include "memory.hpp"

namespace card_model {

// Values of XRT's xrt::bo::flags.
enum class buffer_flags : uint32_t {
    normal = 0,
    cacheable = 1u << 24,
    device_only = 1u << 28,
    host_only = 1u << 29,
    p2p = 1u << 30,
    svm = 1u << 27,
};

enum class direction { to_device = 0, from_device = 1 };

// Memory of the host that takes up room only where it has been touched.
class staging {
public:
    explicit staging(uint64_t bytes);
    ~staging();
    staging(const staging&) = delete;
    staging& operator=(const staging&) = delete;
    uint8_t* data() const { return data_; }

private:
    uint8_t* data_;
    uint64_t bytes_;
};

// Copies are cheap handles of the same memory. All members throw error on a range outside the buffer, and on the host
// side of a device_only one. Two threads may use a buffer at once as long as their ranges are disjoint.
class buffer {
public:
    buffer(std::shared_ptr<card> card, uint64_t bytes, buffer_flags flags, uint32_t group);
    buffer(const buffer& parent, uint64_t bytes, uint64_t offset);  // a part of the parent, sharing its memory

    uint64_t size() const { return size_; }
    uint64_t address() const { return memory_->address() + offset_; }
    uint8_t* map() const;

    void write(const void* source, uint64_t bytes, uint64_t seek) const;
    void read(void* target, uint64_t bytes, uint64_t skip) const;
    void sync(direction way, uint64_t bytes, uint64_t offset) const;
    // Between the cards' sides of two buffers; 0 bytes: all of the source that fits.
    void copy(const buffer& source, uint64_t bytes, uint64_t source_offset, uint64_t offset) const;
    // Straight to and from the card, past the host's copy: a write and a sync in one.
    void upload(const void* source, uint64_t bytes, uint64_t offset) const;
    void download(void* target, uint64_t bytes, uint64_t offset) const;
    // Has the host give the card's side real memory now, beside what the caller does: the first touch of fresh memory may
    // take longer than what is then done with it.
    void populate() const;
    // The content of a range is of no use any more: the host has its whole pages back, and they are zeros from now on.
    void discard(uint64_t bytes, uint64_t offset) const;
    // The card's memory itself, for a caller that moves the bytes on its own; counted as moved.
    uint8_t* window(direction way, uint64_t bytes, uint64_t offset) const;
    void check_range(const char* what, uint64_t bytes, uint64_t offset) const;

    const std::shared_ptr<allocation>& memory() const { return memory_; }
    const std::shared_ptr<card>& owner() const { return card_; }

private:
    uint8_t* device() const { return memory_->data() + offset_; }
    bool one_memory() const { return flags_ == buffer_flags::host_only || flags_ == buffer_flags::p2p; }
    void count(direction way, uint64_t bytes) const;

    std::shared_ptr<card> card_;
    std::shared_ptr<allocation> memory_;
    std::shared_ptr<staging> host_;  // null for one_memory() and device_only
    buffer_flags flags_;
    uint64_t size_ = 0, offset_ = 0;
};

}  // namespace card_model
