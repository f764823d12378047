// Kernel code is foreign code: it may crash or never end. A guarded call of it returns in any case; a crash elsewhere in
// the process goes to whoever handled it before.
#pragma once
#include <pthread.h>
#include <setjmp.h>

#include <atomic>
#include <string>

namespace card_model {

enum class outcome { returned, crashed, cancelled };

struct fault {
    int signal = 0;
    int code = 0;
    void* address = nullptr;
};
std::string describe(const fault& what);  // "segmentation fault at 0x..."

// How often somebody has asked a run to end. Kernel code runs on while the level is not above what it tolerates.
using cancel_level = std::atomic<int>;

// Once before kernel code is loaded, and again with every load: somebody may have put handlers in front of ours.
void install_handlers();
// Once per thread before its first guarded call: an alternate stack, the signals unblocked.
void prepare_thread();
// For the card's own threads: leaves every other signal to the threads of the program.
void block_foreign_signals();
// Makes the thread look at the cancel level of the kernel code that it is in; without effect elsewhere.
void interrupt(pthread_t thread);

namespace detail {

struct guard {
    sigjmp_buf resume;
    const cancel_level* level = nullptr;
    int tolerated = 0;
    fault what;
};

// Read by signal handlers, so it must not be allocated lazily.
extern thread_local guard* active __attribute__((tls_model("initial-exec")));

inline bool cancelled(const guard& g) { return g.level->load(std::memory_order_seq_cst) > g.tolerated; }

}  // namespace detail

// Calls kernel code. A crash or cancellation unwinds to here without running destructors of what it interrupts.
template <typename Call>
[[gnu::noinline]] outcome guarded(const cancel_level& level, int tolerated, fault& what, Call&& call) {
    detail::guard guard;
    guard.level = &level;
    guard.tolerated = tolerated;
    const int reason = sigsetjmp(guard.resume, 0);  // the mask needs no saving: the handlers block nothing
    if (reason != 0) {
        what = guard.what;
        return static_cast<outcome>(reason);
    }
    detail::active = &guard;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (detail::cancelled(guard)) {  // an interrupt that came before `active` was set has had no effect
        detail::active = nullptr;
        return outcome::cancelled;
    }
    call();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    detail::active = nullptr;
    return outcome::returned;
}

// Around what kernel code calls back, which holds locks and must not be interrupted. `resume` leaves by a jump when a
// cancellation came meanwhile.
inline detail::guard* suspend() {
    detail::guard* guard = detail::active;
    detail::active = nullptr;
    return guard;
}
void resume(detail::guard* guard);

}  // namespace card_model
