#include "allocator.hpp"

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

namespace fpga_device {

namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t ROUNDING = 512;                   // of a block: sizes and addresses are multiples
constexpr size_t LARGEST_SMALL = size_t{1} << 20;  // a request up to here shares a small segment
constexpr size_t SMALL_SEGMENT = size_t{2} << 20;
constexpr size_t LARGE_SEGMENT = size_t{20} << 20;    // of requests up to half of it
constexpr size_t SEGMENT_ROUNDING = size_t{2} << 20;  // of segments for a single larger request
constexpr size_t PAGE = 4096;

enum pool : size_t { SMALL, LARGE, POOLS };

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Neighbours are those of one segment, in the order of their addresses.
struct block {
    c10::DeviceIndex device;
    pool of;
    uint8_t* address;
    size_t bytes;
    bool used;
    block *before, *behind;
};

struct smaller {
    bool operator()(const block* a, const block* b) const {
        return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
    }
};

struct segment {
    c10::DeviceIndex device;
    size_t bytes;
};

class caching_allocator final : public c10::DeviceAllocator {
public:
    c10::DataPtr allocate(size_t bytes) override { return allocate_on(current_device(), bytes); }

    c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

    void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

    bool initialized() override { return source_ != nullptr; }

    void emptyCache(c10::MempoolId_t) override {
        for (c10::DeviceIndex index = 0; index < device_count(); ++index) release_unused(index);
    }

    // A launch has ended when its call returns, so that no stream uses a block that was given back.
    void recordStream(const c10::DataPtr&, c10::Stream) override {}

    DeviceStats getDeviceStats(c10::DeviceIndex index) override {
        check_process();
        const std::lock_guard lock(mutex_);
        return stats_[position_of(resolved(c10::Device(TYPE, index)).index())];
    }

    void resetAccumulatedStats(c10::DeviceIndex index) override {
        for_each_stat(index, [](c10::CachingAllocator::Stat& stat) { stat.allocated = stat.freed = 0; });
    }

    void resetPeakStats(c10::DeviceIndex index) override {
        for_each_stat(index, [](c10::CachingAllocator::Stat& stat) { stat.peak = stat.current; });
    }

    std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
        return source_->capacity(resolved(c10::Device(TYPE, index)).index());
    }

    void set_source(memory_source* source) { source_ = source; }

    void* take(c10::DeviceIndex index, size_t requested) {
        check_process();
        if (requested == 0) return nullptr;
        const size_t bytes = round_up(requested, ROUNDING);
        const pool of = bytes <= LARGEST_SMALL ? SMALL : LARGE;
        {
            const std::lock_guard lock(mutex_);
            if (block* found = best_fit(index, of, bytes)) return claim(found, bytes)->address;
        }
        size_t span = of == SMALL                  ? SMALL_SEGMENT
                      : bytes <= LARGE_SEGMENT / 2 ? LARGE_SEGMENT
                                                   : round_up(bytes, SEGMENT_ROUNDING);
        std::string why;
        void* memory = source_->acquire(index, span, &why);
        if (!memory) {  // what is cached may make room, and less may fit
            release_unused(index);
            memory = source_->acquire(index, span, &why);
        }
        if (!memory) memory = source_->acquire(index, span = round_up(bytes, PAGE), &why);
        const std::lock_guard lock(mutex_);
        DeviceStats& stats = stats_[position_of(index)];
        if (!memory) {
            ++stats.num_ooms;
            C10_THROW_ERROR(OutOfMemoryError, "fpga:" + std::to_string(index) + " is out of memory for a tensor of " +
                                                  std::to_string(requested) + " bytes: " + why);
        }
        segments_.emplace(static_cast<uint8_t*>(memory), segment{index, span});
        increase(stats.segment, of, 1);
        increase(stats.reserved_bytes, of, span);
        ++stats.num_device_alloc;
        auto* fresh = new block{index, of, static_cast<uint8_t*>(memory), span, false, nullptr, nullptr};
        free_[position_of(index)][of].insert(fresh);
        return claim(fresh, bytes)->address;
    }

    void give(void* address) {
        if (is_forked()) return;  // the lock may have been held when the process was forked
        const std::lock_guard lock(mutex_);
        const auto found = used_.find(address);
        if (found == used_.end()) return;
        block* gone = found->second;
        used_.erase(found);
        gone->used = false;
        DeviceStats& stats = stats_[position_of(gone->device)];
        decrease(stats.allocation, gone->of, 1);
        decrease(stats.allocated_bytes, gone->of, gone->bytes);
        decrease(stats.active, gone->of, 1);
        decrease(stats.active_bytes, gone->of, gone->bytes);
        auto& pieces = free_[position_of(gone->device)][gone->of];
        if (block* behind = gone->behind; behind && !behind->used) {
            pieces.erase(behind);
            absorb(gone, behind);
        }
        if (block* before = gone->before; before && !before->used) {
            pieces.erase(before);
            absorb(before, gone);
            gone = before;
        }
        pieces.insert(gone);
    }

    std::optional<c10::DeviceIndex> device_of(const void* address) const {
        check_process();
        const std::lock_guard lock(mutex_);
        auto found = segments_.upper_bound(static_cast<uint8_t*>(const_cast<void*>(address)));
        if (found == segments_.begin()) return std::nullopt;
        --found;
        if (address >= found->first + found->second.bytes) return std::nullopt;
        return found->second.device;
    }

private:
    static void give_back(void* address);

    static void increase(StatArray& stat, pool of, size_t amount) {
        stat[static_cast<size_t>(StatType::AGGREGATE)].increase(amount);
        stat[static_cast<size_t>(of == SMALL ? StatType::SMALL_POOL : StatType::LARGE_POOL)].increase(amount);
    }

    static void decrease(StatArray& stat, pool of, size_t amount) {
        stat[static_cast<size_t>(StatType::AGGREGATE)].decrease(amount);
        stat[static_cast<size_t>(of == SMALL ? StatType::SMALL_POOL : StatType::LARGE_POOL)].decrease(amount);
    }

    template <typename Function>
    void for_each_stat(c10::DeviceIndex index, Function change) {
        check_process();
        const std::lock_guard lock(mutex_);
        DeviceStats& s = stats_[position_of(resolved(c10::Device(TYPE, index)).index())];
        for (StatArray* each : {&s.allocation, &s.segment, &s.active, &s.allocated_bytes, &s.reserved_bytes,
                                &s.active_bytes, &s.requested_bytes})
            for (auto& stat : *each) change(stat);
    }

    block* best_fit(c10::DeviceIndex index, pool of, size_t bytes) const {
        const auto& pieces = free_[position_of(index)][of];
        block least{index, of, nullptr, bytes, false, nullptr, nullptr};
        const auto found = pieces.lower_bound(&least);
        return found == pieces.end() ? nullptr : *found;
    }

    // Has the first `bytes` of a free block used; what is left of it stays free.
    block* claim(block* found, size_t bytes) {
        auto& pieces = free_[position_of(found->device)][found->of];
        pieces.erase(found);
        const size_t left = found->bytes - bytes;
        if (left >= (found->of == SMALL ? ROUNDING : LARGEST_SMALL)) {
            auto* rest = new block{found->device, found->of, found->address + bytes, left, false, found, found->behind};
            if (found->behind) found->behind->before = rest;
            found->behind = rest;
            found->bytes = bytes;
            pieces.insert(rest);
        }
        found->used = true;
        used_.emplace(found->address, found);
        DeviceStats& stats = stats_[position_of(found->device)];
        increase(stats.allocation, found->of, 1);
        increase(stats.allocated_bytes, found->of, found->bytes);
        increase(stats.active, found->of, 1);
        increase(stats.active_bytes, found->of, found->bytes);
        return found;
    }

    static void absorb(block* into, block* next) {
        into->bytes += next->bytes;
        into->behind = next->behind;
        if (next->behind) next->behind->before = into;
        delete next;
    }

    void release_unused(c10::DeviceIndex index) {
        check_process();
        std::vector<void*> whole;
        {
            const std::lock_guard lock(mutex_);
            for (auto& pieces : free_[position_of(index)])
                for (auto piece = pieces.begin(); piece != pieces.end();) {
                    block* b = *piece;
                    if (b->before || b->behind) {
                        ++piece;
                        continue;
                    }
                    DeviceStats& stats = stats_[position_of(index)];
                    decrease(stats.segment, b->of, 1);
                    decrease(stats.reserved_bytes, b->of, b->bytes);
                    segments_.erase(b->address);
                    whole.push_back(b->address);
                    piece = pieces.erase(piece);
                    delete b;
                }
        }
        for (void* memory : whole) source_->release(index, memory);
    }

    memory_source* source_ = nullptr;
    mutable std::mutex mutex_;
    std::map<uint8_t*, segment> segments_;
    std::unordered_map<void*, block*> used_;
    std::array<std::array<std::set<block*, smaller>, POOLS>, MOST_DEVICES> free_;
    std::array<DeviceStats, MOST_DEVICES> stats_;
};

// Never destroyed: tensors of other static objects may end after it.
caching_allocator& the_allocator() {
    static auto& only = *new caching_allocator;
    return only;
}

void caching_allocator::give_back(void* address) { the_allocator().give(address); }

// Of the linker's order PyTorch needs no more than that this runs when the extension is loaded.
[[maybe_unused]] const bool registered = [] {
    c10::SetAllocator(TYPE, &the_allocator());
    return true;
}();

}  // namespace

void set_memory_source(memory_source* source) { the_allocator().set_source(source); }

c10::DeviceAllocator& allocator() { return the_allocator(); }

c10::DataPtr allocate_on(c10::DeviceIndex index, size_t bytes) {
    void* memory = the_allocator().take(index, bytes);
    return {memory, memory, the_allocator().raw_deleter(), c10::Device(TYPE, index)};
}

std::optional<c10::DeviceIndex> device_of(const void* address) { return the_allocator().device_of(address); }

}  // namespace fpga_device
