// A start of a compute unit as the card's scheduler sees it: the latched registers, the state, who waits for it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "card_abi.hpp"
#include "faults.hpp"

namespace card_model {

// Values of XRT's ert_cmd_state.
enum class ert_state : uint32_t {
    created = 1,
    queued = 2,
    running = 3,
    completed = 4,
    error = 5,
    abort = 6,
    submitted = 7,
    timeout = 8,
    no_response = 9,
    sk_error = 10,
    sk_crashed = 11,
};
const char* to_string(ert_state state);  // "ERT_CMD_STATE_COMPLETED"

// When a step began and ended, on CLOCK_MONOTONIC.
struct step_time {
    int64_t start_ns;
    int64_t stop_ns;
};

class ert_command {
public:
    using callback = std::function<void(ert_state)>;

    ert_state state() const { return state_.load(std::memory_order_acquire); }
    bool busy() const { return is_busy(state()); }

    // Waits for the end; false when timeout_ms (0: none) has passed before it.
    bool wait(unsigned timeout_ms) const;
    // Called with the final state at each end, on the thread that ran the command; at once if it has ended already.
    void add_callback(const callback& function);

    // Valid once the command has ended.
    std::string error() const;

    // For compute units.
    void set_state(ert_state state) { state_.store(state, std::memory_order_release); }
    void finish(ert_state state, std::string error);

    alignas(64) uint8_t registers[fpga::CU_REGISTER_BYTES] = {};
    std::vector<fpga::cu_window> windows;  // of this start
    cancel_level cancelled{0};
    std::atomic<ert_state> cancel_state{ert_state::abort};  // what a cancelled command ends as
    std::atomic<uint32_t> status{0};                        // what the kernel returned
    std::atomic<int64_t> start_ns{0}, stop_ns{0};           // CLOCK_MONOTONIC
    std::atomic<const std::string*> compute_unit{nullptr};  // the name of the one that took it
    std::atomic<bool> sliced{false};                        // whether lanes have shared a step of it
    bool trace_steps = false;                               // whether `steps` is written
    std::vector<step_time> steps;                           // those that ran; valid once the command has ended
    std::string counters;                                   // JSON of a kernel that counts; the same

private:
    static bool is_busy(ert_state state) {
        return state == ert_state::queued || state == ert_state::running || state == ert_state::submitted;
    }

    std::atomic<ert_state> state_{ert_state::created};
    mutable std::mutex mutex_;
    mutable std::condition_variable ended_;
    std::string error_;
    std::vector<callback> callbacks_;
};

int64_t monotonic_ns();

}  // namespace card_model
