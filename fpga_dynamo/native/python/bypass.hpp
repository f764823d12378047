// How direct calls and a scheduler keep out of each other's way.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>

class critical_section;

// One per scheduler, guarded by the GIL. A direct call may begin while the scheduler has no frame and no other direct
// call runs: then every work-conserving policy would start its task at once. A frame that comes later finds it here, and
// enters it into the scheduler's books.
class bypass {
public:
    bool begin(nanobind::object owner);  // false: go through the scheduler
    // Nanoseconds since begin. A Python error may be set then: an interrupt of the scheduler's part in it.
    int64_t end();

    void enter() { ++frames_; }
    void leave() { frames_ -= frames_ > 0; }
    nanobind::object call() const;  // (owner, start in seconds) of the direct call in flight, or None
    // on_end runs in the section when the call ends. false: no call in flight, or somebody's already
    bool adopt(nanobind::object section, nanobind::callable on_end);
    bool adopted() const { return on_end_.is_valid() && !over_; }
    void reset();  // in a forked child

    static int observers;  // who wants to see every task, so that there are no direct calls

private:
    int64_t frames_ = 0;
    bool running_ = false, over_ = false;  // over: the call has ended, and the scheduler is being told
    int64_t start_ns_ = 0;
    nanobind::object owner_, section_, on_end_;
};
