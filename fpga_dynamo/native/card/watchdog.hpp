// Ends runs that are past their time-out when the thread that could is busy executing them.
#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace card_model {

class compute_unit;
class ert_command;

class watchdog {
public:
    static watchdog& instance();

    // From arm to disarm both must live; after disarm neither is touched any more.
    void arm(compute_unit& unit, ert_command& command, unsigned timeout_ms);
    void disarm(ert_command& command);

private:
    using clock = std::chrono::steady_clock;
    struct alarm {
        clock::time_point deadline;
        compute_unit* unit;
        ert_command* command;
    };

    void serve();

    std::mutex mutex_;
    std::condition_variable earlier_;
    std::vector<alarm> alarms_;
    // When the thread looks again. Disarming leaves it, so of many short runs with long time-outs only one wakes it.
    clock::time_point next_look_ = clock::time_point::max();
    bool started_ = false;
};

}  // namespace card_model
