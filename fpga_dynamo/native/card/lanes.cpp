#include "lanes.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "borrowed_threads.hpp"
#include "cpu.hpp"
#include "error.hpp"
#include "faults.hpp"

namespace card_model {

namespace {

// A parked thread takes about 100 us to come back, a spinning one 0.2 us. Steps of one run follow each other closely, and
// between two calls of a model Dynamo's guards alone take up to half a millisecond.
constexpr int RELAXED_SPINS = 500;
constexpr auto SPIN_TIME = std::chrono::milliseconds(1);

}  // namespace

lane_team::lane_team(unsigned lanes, size_t boards) : lanes_(lanes), boards_(new board[boards]), board_count_(boards) {
    for (size_t i = 0; i < boards; ++i) boards_[i].ranges = std::make_unique<range[]>(lanes);
}

lane_team::~lane_team() {
    {
        std::lock_guard lock(mutex_);
        stopping_.store(true);
    }
    wake_.notify_all();
    for (kernel_thread& helper : helpers_) helper.join();
}

void lane_team::start_helpers() {
    helpers_.reserve(lanes_ - 1);
    try {
        for (unsigned i = 1; i < lanes_; ++i) helpers_.emplace_back(stack_, [this, i] { serve(i); });
    } catch (const out_of_memory&) {  // fewer lanes do the same work
    }
    helper_count_.store(helpers_.size(), std::memory_order_release);
}

bool lane_team::claim(board& b, unsigned lane, uint32_t* slice) const {
    for (unsigned i = 0; i < lanes_; ++i) {
        std::atomic<uint64_t>& left = b.ranges[(lane + i) % lanes_].left;
        uint64_t seen = left.load(std::memory_order_acquire);
        for (;;) {
            const uint64_t next = seen & 0xffff, end = seen >> 16 & 0xffff;
            if (next >= end) break;
            const uint64_t rest = i == 0 ? seen + 1 : seen - 0x10000;
            if (!left.compare_exchange_weak(seen, rest, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
            *slice = static_cast<uint32_t>(i == 0 ? next : end - 1);
            return true;
        }
    }
    return false;
}

void lane_team::run(size_t index, uint32_t count, slice_task task) {
    if (count == 1 || lanes_ == 1) {
        for (uint32_t slice = 0; slice < count; ++slice) task.run(task.context, slice);
        return;
    }
    board& b = boards_[index];
    if (!b.borrowed) std::call_once(started_, [this] { start_helpers(); });
    b.finished.store(0, std::memory_order_relaxed);
    b.task = task;
    ++b.epoch;
    for (unsigned lane = 0; lane < lanes_; ++lane) {
        const uint64_t next = uint64_t{count} * lane / lanes_, end = uint64_t{count} * (lane + 1) / lanes_;
        b.ranges[lane].left.store(uint64_t{b.epoch} << 32 | end << 16 | next, std::memory_order_release);
    }
    if (!b.borrowed) wake();
    uint32_t slice = 0, mine = 0;
    for (; claim(b, 0, &slice); ++mine) task.run(task.context, slice);
    for (int spins = 0; b.finished.load(std::memory_order_acquire) != count - mine; ++spins)
        if (spins < RELAXED_SPINS)
            cpu_relax();
        else
            sched_yield();
}

bool lane_team::run_with_borrowed(size_t index, const std::function<void()>& steps) {
    if (lanes_ == 1 || !threads_to_borrow(lanes_ - 1)) return false;
    struct loan {
        lane_team& team;
        board& b;
        const std::function<void()>& steps;
        pthread_t borrower = pthread_self();
        std::atomic<unsigned> lane{1};
        std::atomic<bool> over{false};
    } all{*this, boards_[index], steps};
    all.b.borrowed = true;
    on_borrowed_threads(
        [](void* context) {
            loan& l = *static_cast<loan*>(context);
            if (!pthread_equal(pthread_self(), l.borrower)) {
                const unsigned lane = l.lane.fetch_add(1);
                if (lane < l.team.lanes_) l.team.lend(l.b, lane, l.over);
                return;
            }
            l.steps();
            l.over.store(true, std::memory_order_release);
        },
        &all);
    all.b.borrowed = false;
    return true;
}

void lane_team::lend(board& b, unsigned lane, const std::atomic<bool>& over) {
    if (!stack_has(stack_)) return;
    prepare_thread();
    {
        std::lock_guard lock(lent_mutex_);
        lent_.push_back(pthread_self());
    }
    for (int spins = 0; !over.load(std::memory_order_acquire);)
        if (help(b, lane))
            spins = 0;
        else if (++spins < RELAXED_SPINS)
            cpu_relax();
        else
            sched_yield();
    std::lock_guard lock(lent_mutex_);
    lent_.erase(std::find(lent_.begin(), lent_.end(), pthread_self()));
}

void lane_team::announce() {
    if (lanes_ > 1 && !threads_to_borrow(lanes_ - 1)) wake();
}

void lane_team::wake() {
    published_.fetch_add(1, std::memory_order_seq_cst);
    // A helper counts itself as parked before it looks at published_ for the last time, so one of us sees the other.
    if (parked_.load(std::memory_order_seq_cst) == 0) return;
    { std::lock_guard lock(mutex_); }
    wake_.notify_all();
}

bool lane_team::help(board& b, unsigned lane) {
    uint32_t slice = 0;
    if (!claim(b, lane, &slice)) return false;
    b.task.run(b.task.context, slice);
    b.finished.fetch_add(1, std::memory_order_acq_rel);
    return true;
}

void lane_team::serve(unsigned lane) {
    block_foreign_signals();
    prepare_thread();
    using clock = std::chrono::steady_clock;
    while (!stopping_.load(std::memory_order_relaxed)) {
        const uint32_t seen = published_.load(std::memory_order_seq_cst);
        bool worked = false;
        for (size_t i = 0; i < board_count_; ++i)
            while (help(boards_[i], lane)) worked = true;
        if (worked) continue;
        const auto idle_since = clock::now();
        const auto news = [&] {
            return published_.load(std::memory_order_seq_cst) != seen || stopping_.load(std::memory_order_relaxed);
        };
        for (int spins = 0; !news() && (spins < RELAXED_SPINS || clock::now() - idle_since < SPIN_TIME); ++spins)
            if (spins < RELAXED_SPINS)
                cpu_relax();
            else
                sched_yield();
        if (news()) continue;
        std::unique_lock lock(mutex_);
        parked_.fetch_add(1, std::memory_order_seq_cst);
        wake_.wait(lock, news);
        parked_.fetch_sub(1, std::memory_order_seq_cst);
    }
}

void lane_team::interrupt() {
    const size_t count = helper_count_.load(std::memory_order_acquire);
    for (size_t i = 0; i < count; ++i) card_model::interrupt(helpers_[i].native_handle());
    std::lock_guard lock(lent_mutex_);
    for (const pthread_t thread : lent_) card_model::interrupt(thread);
}

}  // namespace card_model
