#include "process.hpp"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "error.hpp"

namespace card_model {

namespace {
std::atomic<bool> is_child{false};
}

void watch_forks() {
    static std::once_flag once;
    std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { is_child.store(true); }); });
}

bool forked() { return is_child.load(std::memory_order_relaxed); }

void check_process() {
    if (forked())
        throw error("this process was forked after a card had been opened, and cards do not work after a fork: open "
                    "cards only in the child, or start processes with the method 'spawn'");
}

}  // namespace card_model
