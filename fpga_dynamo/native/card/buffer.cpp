#include "buffer.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>

#include "error.hpp"
#include "faults.hpp"
#include "process.hpp"
#include "red_zone.hpp"

namespace card_model {

// In whole pages, as the kernel maps them: ThreadSanitizer forgets of an unmapped range no more than the pages that it is told
// of, and would find a race with whoever's library is loaded there next.
staging::staging(uint64_t bytes) : bytes_((bytes + PAGE - 1) / PAGE * PAGE) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        throw out_of_memory("no host memory for a buffer of " + std::to_string(bytes) + " bytes (" +
                            system_reason("mmap") + ")");
    data_ = static_cast<uint8_t*>(memory);
}

staging::~staging() { munmap(data_, bytes_); }

buffer::buffer(std::shared_ptr<card> card, uint64_t bytes, buffer_flags flags, uint32_t group)
    : card_(std::move(card)), flags_(flags), size_(bytes) {
    check_process();
    if (flags == buffer_flags::svm)
        throw error("buffers of kind svm need a card with shared virtual memory; use normal or host_only");
    card_->release_ended();
    const auto image = card_->loaded();
    const auto& banks = image->banks();
    if (group >= banks.size() || !banks[group])
        throw error("memory group " + std::to_string(group) + " is not in use by xclbin '" + image->file().name() +
                    "'; take the group from kernel.group_id(argument)");
    memory_ = banks[group]->allocate(bytes);
    if (!one_memory() && flags != buffer_flags::device_only) host_ = std::make_shared<staging>(bytes);
}

buffer::buffer(const buffer& parent, uint64_t bytes, uint64_t offset) : buffer(parent) {
    parent.check_range("a sub-buffer", bytes, offset);
    if (bytes == 0) throw error("a sub-buffer must have at least one byte");
    size_ = bytes;
    offset_ += offset;
}

void buffer::check_range(const char* what, uint64_t bytes, uint64_t offset) const {
    check_process();
    if (offset > size_ || bytes > size_ - offset)
        throw error(std::string(what) + " of " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                    " lies outside a buffer of " + std::to_string(size_) + " bytes");
}

uint8_t* buffer::map() const {
    check_process();
    if (flags_ == buffer_flags::device_only)
        throw error("a device_only buffer has no host mapping; copy it to a normal one (bo.copy) or allocate it "
                    "as normal");
    return one_memory() ? device() : host_->data() + offset_;
}

void buffer::count(direction way, uint64_t bytes) const {
    auto& counter = way == direction::to_device ? card_->counters().to_device : card_->counters().from_device;
    counter.fetch_add(bytes, std::memory_order_relaxed);
}

void buffer::write(const void* source, uint64_t bytes, uint64_t seek) const {
    check_range("a write", bytes, seek);
    std::memcpy(map() + seek, source, bytes);
}

void buffer::read(void* target, uint64_t bytes, uint64_t skip) const {
    check_range("a read", bytes, skip);
    std::memcpy(target, map() + skip, bytes);
}

void buffer::sync(direction way, uint64_t bytes, uint64_t offset) const {
    check_range("a sync", bytes, offset);
    uint8_t* host = map();
    if (one_memory()) return;
    if (way == direction::to_device)
        std::memcpy(device() + offset, host + offset, bytes);
    else
        std::memcpy(host + offset, device() + offset, bytes);
    count(way, bytes);
}

void buffer::copy(const buffer& source, uint64_t bytes, uint64_t source_offset, uint64_t offset) const {
    if (bytes == 0 && source_offset <= source.size_) bytes = source.size_ - source_offset;
    source.check_range("a copy", bytes, source_offset);
    check_range("a copy", bytes, offset);
    std::memmove(device() + offset, source.device() + source_offset, bytes);
}

void buffer::populate() const {
    check_process();
#ifdef MADV_POPULATE_WRITE
    try {
        std::thread([memory = memory_] {
            block_foreign_signals();
            madvise(memory->data(), memory->bytes(), MADV_POPULATE_WRITE);  // advice only
        }).detach();
    } catch (const std::system_error&) {  // no more threads: then the pages come when they are touched
    }
#endif
}

void buffer::discard(uint64_t bytes, uint64_t offset) const {
    check_range("a discard", bytes, offset);
    const auto give_back = [&](const uint8_t* memory) {
        const auto begin = (reinterpret_cast<uintptr_t>(memory) + offset + PAGE - 1) / PAGE * PAGE;
        const auto end = (reinterpret_cast<uintptr_t>(memory) + offset + bytes) / PAGE * PAGE;
        if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    };
    give_back(device());
    if (host_) give_back(host_->data() + offset_);
}

uint8_t* buffer::window(direction way, uint64_t bytes, uint64_t offset) const {
    check_range(way == direction::to_device ? "an input" : "an output", bytes, offset);
    count(way, bytes);
    return device() + offset;
}

void buffer::upload(const void* source, uint64_t bytes, uint64_t offset) const {
    std::memcpy(window(direction::to_device, bytes, offset), source, bytes);
}

void buffer::download(void* target, uint64_t bytes, uint64_t offset) const {
    std::memcpy(target, window(direction::from_device, bytes, offset), bytes);
}

}  // namespace card_model
