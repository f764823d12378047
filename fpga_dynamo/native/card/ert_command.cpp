#include "ert_command.hpp"

#include <chrono>

#include "cpu.hpp"

namespace card_model {

namespace {
constexpr int64_t WAIT_SPIN_NS = 20000;  // about what parking and waking cost
}

int64_t monotonic_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

const char* to_string(ert_state state) {
    switch (state) {
        case ert_state::created: return "ERT_CMD_STATE_NEW";
        case ert_state::queued: return "ERT_CMD_STATE_QUEUED";
        case ert_state::running: return "ERT_CMD_STATE_RUNNING";
        case ert_state::completed: return "ERT_CMD_STATE_COMPLETED";
        case ert_state::error: return "ERT_CMD_STATE_ERROR";
        case ert_state::abort: return "ERT_CMD_STATE_ABORT";
        case ert_state::submitted: return "ERT_CMD_STATE_SUBMITTED";
        case ert_state::timeout: return "ERT_CMD_STATE_TIMEOUT";
        case ert_state::no_response: return "ERT_CMD_STATE_NORESPONSE";
        case ert_state::sk_error: return "ERT_CMD_STATE_SKERROR";
        case ert_state::sk_crashed: return "ERT_CMD_STATE_SKCRASHED";
    }
    return "unknown";
}

bool ert_command::wait(unsigned timeout_ms) const {
    if (spinning_pays())
        for (const int64_t stop = monotonic_ns() + WAIT_SPIN_NS; busy() && monotonic_ns() < stop;) cpu_relax();
    if (!busy()) return true;
    std::unique_lock lock(mutex_);
    const auto ended = [this] { return !busy(); };
    if (timeout_ms == 0) return ended_.wait(lock, ended), true;
    return ended_.wait_for(lock, std::chrono::milliseconds(timeout_ms), ended);
}

void ert_command::add_callback(const callback& function) {
    ert_state now = ert_state::created;
    {
        std::lock_guard lock(mutex_);
        callbacks_.push_back(function);
        now = state();
    }
    if (now != ert_state::created && !is_busy(now)) function(now);
}

std::string ert_command::error() const {
    std::lock_guard lock(mutex_);
    return error_;
}

void ert_command::finish(ert_state state, std::string error) {
    std::vector<callback> callbacks;
    {
        std::lock_guard lock(mutex_);
        error_ = std::move(error);
        set_state(state);
        callbacks = callbacks_;
    }
    ended_.notify_all();
    for (const callback& function : callbacks) function(state);
}

}  // namespace card_model
