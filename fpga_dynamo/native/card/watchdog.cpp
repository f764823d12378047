#include "watchdog.hpp"

#include <algorithm>
#include <thread>

#include "compute_unit.hpp"

namespace card_model {

namespace {
constexpr auto AGAIN = std::chrono::seconds(1);  // a kernel's `end` may hang too, which a second cancellation ends
}

watchdog& watchdog::instance() {
    static watchdog& only = *new watchdog;  // never destroyed: its thread ends with the process
    return only;
}

void watchdog::arm(compute_unit& unit, ert_command& command, unsigned timeout_ms) {
    const auto deadline = clock::now() + std::chrono::milliseconds(timeout_ms);
    std::lock_guard lock(mutex_);
    alarms_.push_back({deadline, &unit, &command});
    if (!started_) {
        std::thread([this] { serve(); }).detach();
        started_ = true;
    }
    if (deadline < next_look_) {
        next_look_ = deadline;
        earlier_.notify_one();
    }
}

void watchdog::disarm(ert_command& command) {
    std::lock_guard lock(mutex_);
    const auto mine = std::find_if(alarms_.begin(), alarms_.end(),
                                   [&](const alarm& a) { return a.command == &command; });
    if (mine == alarms_.end()) return;
    *mine = alarms_.back();
    alarms_.pop_back();
}

void watchdog::serve() {
    block_foreign_signals();
    std::unique_lock lock(mutex_);
    for (;;) {
        if (next_look_ == clock::time_point::max())
            earlier_.wait(lock);
        else
            earlier_.wait_until(lock, next_look_);
        const auto now = clock::now();
        next_look_ = clock::time_point::max();
        for (alarm& due : alarms_) {
            if (due.deadline <= now) {
                due.unit->cancel_running(*due.command, ert_state::timeout);
                due.deadline = now + AGAIN;
            }
            next_look_ = std::min(next_look_, due.deadline);
        }
    }
}

}  // namespace card_model
