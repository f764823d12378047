// Waiting for the end of a command, in one place for all threads.
#pragma once
#include <ert.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

ert_cmd_state state_of(const ert_packet* packet);
bool is_end(ert_cmd_state state);

// Ends of commands on one card. Of the waiting threads one asks the driver, and the others wait for that thread, because
// the driver reports each end once, to whoever asks. xrt::run::wait uses the same driver call, but its time-out restarts
// whenever another command ends. Also, a thread that waits without a time-out makes all others wait without one.
class completion_waiter {
public:
    using clock = std::chrono::steady_clock;

    explicit completion_waiter(void* handle) : handle_(handle) {}

    // False when the deadline comes first. Throws device_error if the card is lost before the end.
    bool wait(const ert_packet* packet, clock::time_point deadline);

private:
    bool wait_for_news(const ert_packet* packet, clock::time_point deadline);
    static bool poll(const ert_packet* packet, clock::time_point begin, clock::time_point deadline);

    void* const handle_;
    std::mutex mutex_;
    std::condition_variable news_;
    bool asked_ = false;  // a thread is asking the driver
};
