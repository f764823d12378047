// The lanes of a card: host threads that help its compute units with the slices of a step.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "kernel_thread.hpp"

namespace card_model {

// One slice of a step; must not throw.
struct slice_task {
    void (*run)(void* context, uint32_t slice) = nullptr;
    void* context = nullptr;
};

// `lanes - 1` helper threads, shared by all compute units of a card so that they never ask for more CPUs than there
// are; the thread that runs the step is the other lane. Helpers spin for a moment after the last slice, then park.
class lane_team {
public:
    lane_team(unsigned lanes, size_t boards);
    ~lane_team();
    lane_team(const lane_team&) = delete;
    lane_team& operator=(const lane_team&) = delete;

    unsigned lanes() const { return lanes_; }
    // What slices will take of a thread's stack; before the first run.
    void need_stack(size_t bytes) { stack_ = std::max(stack_, bytes); }

    // Runs the task for slices 0 .. count - 1 and returns when all have ended. One caller per board at a time;
    // never waits for a helper that has not claimed a slice.
    void run(size_t index, uint32_t count, slice_task task);

    // Runs `steps`, which call run() for this board alone, with PyTorch's threads as helpers if these spin; false if they do
    // not, and nothing has happened.
    bool run_with_borrowed(size_t index, const std::function<void()>& steps);

    // Has the lanes ready for a run that is about to begin.
    void announce();

    // Makes the helpers look at the cancel level of the slice that they are in.
    void interrupt();

private:
    // The slices of a step that a lane has not claimed yet: epoch << 32 | end << 16 | next. The epoch keeps a helper that
    // slept between reading the range and claiming from taking a slice of a later step.
    struct alignas(64) range {
        std::atomic<uint64_t> left{0};
    };

    // Where slices of a step are claimed. Neighbouring slices share operands, so each lane has a range of its own, in
    // order; one that is through with it takes from the ends of the others'.
    struct alignas(64) board {
        std::unique_ptr<range[]> ranges;  // of each lane
        std::atomic<uint32_t> finished{0};
        slice_task task;        // published by the ranges, stays until all claimed slices have finished
        uint32_t epoch = 0;     // the caller's
        bool borrowed = false;  // the caller's: its helpers are PyTorch's threads
    };

    bool claim(board& b, unsigned lane, uint32_t* slice) const;
    bool help(board& b, unsigned lane);
    void lend(board& b, unsigned lane, const std::atomic<bool>& over);
    void serve(unsigned lane);
    void start_helpers();
    void wake();  // parked helpers come back, those that spin go on for as long again

    const unsigned lanes_;
    std::unique_ptr<board[]> boards_;
    const size_t board_count_;
    std::once_flag started_;
    size_t stack_ = 0;
    std::vector<kernel_thread> helpers_;
    std::atomic<size_t> helper_count_{0};  // of helpers_ that interrupt may look at
    std::mutex lent_mutex_;
    std::vector<pthread_t> lent_;  // threads that help for the time of a run
    alignas(64) std::atomic<uint32_t> published_{0};
    std::atomic<uint32_t> parked_{0};
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    std::condition_variable wake_;
};

}  // namespace card_model
