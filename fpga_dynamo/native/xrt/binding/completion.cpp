#include "completion.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <thread>

#include "checked.hpp"
#include "cpu.hpp"
#include "emulation.hpp"

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto SPIN = microseconds(30);  // about what sleeping and waking cost
constexpr auto SHORTEST_SLEEP = microseconds(20), LONGEST_SLEEP = microseconds(500);
constexpr int SLEEP_SHARE = 32;                 // of what the command has taken so far: what polling may add to it
constexpr auto LOOK_AGAIN = milliseconds(100);  // at the card, though the driver has no news

using exec_wait = int (*)(void* handle, int timeout_ms);

// The driver's call that returns when a command has ended; null for a driver without a waiting call.
exec_wait driver_call() {
    static const auto function = reinterpret_cast<exec_wait>(dlsym(RTLD_DEFAULT, "xclExecWait"));
    return is_stock_sw_emu() ? nullptr : function;
}

}  // namespace

ert_cmd_state state_of(const ert_packet* packet) {
    return static_cast<ert_cmd_state>(__atomic_load_n(&packet->header, __ATOMIC_ACQUIRE) & 0xf);
}

bool is_end(ert_cmd_state state) { return state >= ERT_CMD_STATE_COMPLETED && state != ERT_CMD_STATE_SUBMITTED; }

bool completion_waiter::wait(const ert_packet* packet, clock::time_point deadline) {
    const auto begin = clock::now();
    if (card_model::spinning_pays())
        while (!is_end(state_of(packet)) && clock::now() < begin + SPIN) card_model::cpu_relax();
    if (is_end(state_of(packet))) return true;
    return driver_call() ? wait_for_news(packet, deadline) : poll(packet, begin, deadline);
}

bool completion_waiter::wait_for_news(const ert_packet* packet, clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    while (!is_end(state_of(packet))) {
        const auto now = clock::now();
        if (now >= deadline) return false;
        check_card();
        const auto slice = std::min<clock::duration>(deadline - now, LOOK_AGAIN);
        if (asked_) {
            news_.wait_for(lock, slice);
            continue;
        }
        asked_ = true;
        lock.unlock();
        driver_call()(handle_, static_cast<int>(std::chrono::ceil<milliseconds>(slice).count()));
        lock.lock();
        asked_ = false;
        news_.notify_all();
    }
    return true;
}

bool completion_waiter::poll(const ert_packet* packet, clock::time_point begin, clock::time_point deadline) {
    while (!is_end(state_of(packet))) {
        const auto now = clock::now();
        if (now >= deadline) return false;
        check_card();
        const auto share = std::chrono::duration_cast<microseconds>((now - begin) / SLEEP_SHARE);
        const auto nap = std::min(std::max(share, SHORTEST_SLEEP), LONGEST_SLEEP);
        std::this_thread::sleep_for(std::min<clock::duration>(nap, deadline - now));
    }
    return true;
}
