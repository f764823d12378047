#include "memory.hpp"

#include <sys/mman.h>

#include "error.hpp"
#include "process.hpp"

namespace card_model {

namespace {

constexpr uint64_t HUGE_PAGE = uint64_t{2} << 20;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Pages of a buffer and the guard page behind it.
uint64_t span_of(uint64_t bytes) { return round_up(bytes, PAGE) + PAGE; }

}  // namespace

allocation::allocation(std::shared_ptr<bank> owner, uint64_t offset, uint64_t bytes)
    : owner_(std::move(owner)), offset_(offset), bytes_(bytes) {}

allocation::~allocation() { owner_->release(offset_, bytes_); }

uint64_t allocation::address() const { return owner_->base() + offset_; }

uint8_t* allocation::data() const { return owner_->host_ + offset_; }

bank::bank(const memory_info& info, uint32_t index) : info_(info), index_(index) {
    reserved_ = PAGE + info_.bytes + HUGE_PAGE;  // the first page guards the bank's begin
    void* range = mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        throw out_of_memory("no address space for bank '" + info_.tag + "' of " + std::to_string(info_.bytes) +
                            " bytes (" + system_reason("mmap") + "); raise the limit (ulimit -v) or shrink the bank");
    reservation_ = static_cast<uint8_t*>(range);
    host_ = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<uint64_t>(range) + PAGE, HUGE_PAGE));
    if (info_.bytes) insert_hole(0, info_.bytes);
}

bank::~bank() {
    if (!forked()) munmap(reservation_, reserved_);
}

void bank::insert_hole(uint64_t offset, uint64_t span) {
    holes_.emplace(offset, span);
    holes_by_span_.emplace(span, offset);
}

void bank::erase_hole(uint64_t offset, uint64_t span) {
    holes_.erase(offset);
    holes_by_span_.erase({span, offset});
}

bool bank::take(uint64_t span, uint64_t alignment, uint64_t* offset) {
    for (auto hole = holes_by_span_.lower_bound({span, 0}); hole != holes_by_span_.end(); ++hole) {
        const auto [hole_span, start] = *hole;
        const uint64_t aligned = round_up(start, alignment);
        if (aligned + span > start + hole_span) continue;
        erase_hole(start, hole_span);
        if (aligned > start) insert_hole(start, aligned - start);
        if (start + hole_span > aligned + span) insert_hole(aligned + span, start + hole_span - aligned - span);
        *offset = aligned;
        return true;
    }
    return false;
}

std::shared_ptr<allocation> bank::allocate(uint64_t bytes) {
    if (bytes == 0) throw error("a buffer must have at least one byte");
    const auto describe_want = [&] {
        return "bank '" + info_.tag + "': a buffer of " + std::to_string(bytes) + " bytes";
    };
    std::unique_lock lock(mutex_);
    const uint64_t free = info_.bytes - used_;
    const uint64_t span = bytes > info_.bytes ? 0 : span_of(bytes);
    uint64_t offset = 0;
    // Large buffers start on a huge page, so that the kernel may back them with huge pages.
    const bool placed = span && ((bytes >= HUGE_PAGE && take(span, HUGE_PAGE, &offset)) || take(span, PAGE, &offset));
    if (!placed) {
        const uint64_t largest = holes_by_span_.empty() ? 0 : holes_by_span_.rbegin()->first;
        throw out_of_memory(describe_want() + " does not fit: " + std::to_string(free) + " of " +
                            std::to_string(info_.bytes) + " bytes are free (largest hole " + std::to_string(largest) +
                            "); free buffers, or use another bank or a smaller batch");
    }
    // The holes hold whole pages from the bank's start: its size is a multiple of 1 KiB, the last page may be short.
    if (mprotect(host_ + offset, span - PAGE, PROT_READ | PROT_WRITE) != 0) {
        const std::string reason = system_reason("mprotect");
        insert_hole(offset, span);  // not merged with its neighbours, which only costs a little fragmentation
        throw out_of_memory(describe_want() + " cannot be backed by host memory (" + reason + ")");
    }
    if (bytes >= HUGE_PAGE) madvise(host_ + offset, span - PAGE, MADV_HUGEPAGE);  // advice only
    lay_red_zone(host_ + offset, bytes);
    live_.emplace(offset, bytes);
    used_ += span;
    lock.unlock();
    return std::make_shared<allocation>(shared_from_this(), offset, bytes);
}

void bank::release(uint64_t offset, uint64_t bytes) {
    if (forked()) return;  // the lock may be held by a thread that this process does not have
    uint64_t span = span_of(bytes);
    std::unique_lock lock(mutex_);
    // A fresh mapping gives the pages back and makes the next buffer here start out as zeros.
    (void)mmap(host_ + offset, span - PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    live_.erase(offset);
    used_ -= span;
    const auto next = holes_.lower_bound(offset);
    if (next != holes_.end() && next->first == offset + span) {
        const auto [start, length] = *next;
        erase_hole(start, length);
        span += length;
    }
    const auto after = holes_.lower_bound(offset);
    if (after != holes_.begin()) {
        const auto [start, length] = *std::prev(after);
        if (start + length == offset) {
            erase_hole(start, length);
            offset = start;
            span += length;
        }
    }
    insert_hole(offset, span);
}

bool bank::find(uint64_t address, buffer_extent* found) const {
    if (address < info_.base || address - info_.base >= info_.bytes) return false;
    const uint64_t offset = address - info_.base;
    std::shared_lock lock(mutex_);
    auto buffer = live_.upper_bound(offset);
    if (buffer == live_.begin()) return false;
    --buffer;
    if (offset - buffer->first >= buffer->second) return false;
    *found = extent(*buffer);
    return true;
}

void* bank::translate(uint64_t address, uint64_t* bytes) const {
    buffer_extent buffer;
    if (!find(address, &buffer)) return nullptr;
    const uint64_t within = address - buffer.address;
    *bytes = buffer.bytes - within;
    return buffer.host + within;
}

bool bank::find_near(const void* host, buffer_extent* found) const {
    const auto* at = static_cast<const uint8_t*>(host);
    if (at < host_ - PAGE || at >= host_ + info_.bytes) return false;
    std::shared_lock lock(mutex_);
    const auto behind = at < host_ ? live_.begin() : live_.upper_bound(static_cast<uint64_t>(at - host_));
    uint64_t least = PAGE;
    const auto consider = [&](const buffer_extent& buffer) {
        if (const uint64_t away = distance(host, buffer); away < least) least = away, *found = buffer;
    };
    if (behind != live_.begin()) consider(extent(*std::prev(behind)));
    if (behind != live_.end()) consider(extent(*behind));
    return least < PAGE;
}

std::string bank::describe(const void* host) const {
    const auto* at = static_cast<const uint8_t*>(host);
    if (at < host_ || at >= host_ + info_.bytes) return "";
    return "card address " + hex(info_.base + static_cast<uint64_t>(at - host_)) + " in bank '" + info_.tag + "'";
}

uint64_t bank::used() const {
    std::shared_lock lock(mutex_);
    return used_;
}

size_t bank::buffers() const {
    std::shared_lock lock(mutex_);
    return live_.size();
}

}  // namespace card_model
