// How direct calls and a scheduler keep out of each other's way.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>

// One per scheduler, guarded by the GIL. A direct call may begin while the scheduler has no frame and no other direct
// call runs: then every work-conserving policy would start its task at once. A frame that comes later finds it here, and
// enters it into the scheduler's books.
class bypass {
public:
    bool begin(nanobind::object owner);  // false: go through the scheduler
    int64_t end();                       // nanoseconds since begin

    void enter() { ++frames_; }
    void leave() { frames_ -= frames_ > 0; }
    nanobind::object call() const;          // (owner, start in seconds) of the direct call in flight, or None
    bool adopt(nanobind::callable on_end);  // false: no call in flight, or somebody's already
    void reset();                           // in a forked child

    static int observers;  // who wants to see every task, so that there are no direct calls

private:
    int64_t frames_ = 0;
    bool running_ = false;
    int64_t start_ns_ = 0;
    nanobind::object owner_, on_end_;
};
