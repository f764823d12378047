#include "register_file.hpp"

#include <chrono>
#include <cstring>
#include <limits>

namespace card_model {

namespace {

// Bits of the control register, as Vitis HLS lays it out.
constexpr uint32_t STARTED = 1, DONE = 2, IDLE = 4, AUTO_RESTART = 1 << 7;
constexpr uint32_t FOR_EVER = std::numeric_limits<uint32_t>::max();

uint32_t word(const uint8_t* map, uint32_t offset) {
    uint32_t value;
    std::memcpy(&value, map + offset, sizeof value);
    return value;
}
void set_word(uint8_t* map, uint32_t offset, uint32_t value) { std::memcpy(map + offset, &value, sizeof value); }

}  // namespace

uint32_t register_file::read(uint32_t offset, bool active) const {
    std::lock_guard lock(mutex_);
    if (offset == CONTROL) return active ? STARTED | (restarts_ ? AUTO_RESTART : 0) : DONE | IDLE;
    if (mailbox_ && offset == ARGUMENTS_CONTROL) return of_arguments_.control();
    if (mailbox_ && offset == RESULTS_CONTROL) return of_results_.control();
    return word(host_, offset);
}

void register_file::write(uint32_t offset, uint32_t value, const std::atomic<size_t>& load) {
    std::unique_lock lock(mutex_);
    if (!mailbox_ || (offset != ARGUMENTS_CONTROL && offset != RESULTS_CONTROL)) return set_word(host_, offset, value);
    side& own = offset == ARGUMENTS_CONTROL ? of_arguments_ : of_results_;
    const uint32_t before = own.released;
    own.released = value & RELEASED;
    // Where no run is under way, nobody takes the other side. A start that ends just now finds this lock.
    if (!own.released || before || load.load() == 0) return;
    own.busy = true;
    exchanged_.wait_for(lock, std::chrono::milliseconds(PATIENCE_MS), [&own] { return !own.busy; });
}

void register_file::begin_start(const uint8_t* own) {
    std::lock_guard lock(mutex_);
    if (mailbox_)
        std::memcpy(arguments_, host_, bytes_);
    else
        std::memcpy(host_ + fpga::CU_ARGUMENTS, own + fpga::CU_ARGUMENTS, bytes_ - fpga::CU_ARGUMENTS);
}

void register_file::begin_run(uint8_t* own) {
    if (!mailbox_) return;
    std::lock_guard lock(mutex_);
    if (of_arguments_.busy) {
        std::memcpy(arguments_, host_, bytes_);
        of_arguments_.busy = false;
        exchanged_.notify_all();
    }
    results_wanted_ = of_results_.busy;
    std::memcpy(own + fpga::CU_ARGUMENTS, arguments_ + fpga::CU_ARGUMENTS, bytes_ - fpga::CU_ARGUMENTS);
}

bool register_file::end_run(const uint8_t* own) {
    std::lock_guard lock(mutex_);
    uint32_t left = restarts_ ? word(host_, RESTARTS) : 0;
    if (left && left != FOR_EVER) set_word(host_, RESTARTS, --left);
    const bool last = left == 0;
    // A kernel changes its results only, and the host its arguments: each writes where the other does not.
    for (uint32_t at = fpga::CU_ARGUMENTS; at < bytes_; at += 4) {
        bool& is_result = is_result_[at / 4];
        is_result = is_result || word(own, at) != word(mailbox_ ? arguments_ : host_, at);
        const bool shown = !mailbox_ || results_wanted_ || last;
        if (is_result && shown && !(restarts_ && at == RESTARTS)) set_word(host_, at, word(own, at));
    }
    if (results_wanted_) {
        of_results_.busy = results_wanted_ = false;
        exchanged_.notify_all();
    }
    return !last;
}

void register_file::end_start() {
    std::lock_guard lock(mutex_);
    of_arguments_.busy = of_results_.busy = results_wanted_ = false;
    exchanged_.notify_all();
}

}  // namespace card_model
