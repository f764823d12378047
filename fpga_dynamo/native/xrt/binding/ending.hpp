// Waiting for the end of a command, in one place for all threads.
#pragma once
#include <ert.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

ert_cmd_state state_of(const ert_packet* packet);
bool is_end(ert_cmd_state state);

// Of one card. One of the threads that wait asks the driver for news, the others wait for that one: the driver tells of
// each end once, to whoever asks. xrt::run::wait is built on the same call, but its time-out begins anew whenever any
// other command ends, and a thread that waits without one makes all others do so too.
class ending {
public:
    using clock = std::chrono::steady_clock;

    explicit ending(void* handle) : handle_(handle) {}

    // False when the deadline comes first. Throws device_error if the card is lost meanwhile.
    bool wait(const ert_packet* packet, clock::time_point deadline);

private:
    bool wait_for_news(const ert_packet* packet, clock::time_point deadline);
    static bool poll(const ert_packet* packet, clock::time_point begin, clock::time_point deadline);

    void* const handle_;
    std::mutex mutex_;
    std::condition_variable news_;
    bool asked_ = false;  // a thread is asking the driver
};
