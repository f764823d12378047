// Kernel code is foreign code: it may crash, throw, want to end the process, or never end. A guarded call of it returns
// in any case; what happens elsewhere in the process goes to whoever handled it before.
#pragma once
#include <pthread.h>
#include <setjmp.h>

#include <atomic>
#include <string>

#include "exceptions.hpp"

namespace card_model {

// `left`: by an exception, or by what would have ended the process.
enum class outcome { returned, crashed, left, cancelled };

struct fault {
    int signal = 0;
    int code = 0;
    void* address = nullptr;  // null if it is not known
    char text[400];           // how it left, written only then: "threw std::runtime_error: ..."
    fault() {}                // NOLINT(modernize-use-equals-default): and not cleared at each call
};
std::string describe(const fault& what);  // of a crash: "segmentation fault at 0x..."

// How often somebody has asked a run to end. Kernel code runs on while the level is not above what it tolerates.
using cancel_level = std::atomic<int>;

// Once before kernel code is loaded, and again with every load: somebody may have put handlers in front of ours.
void install_handlers();
// Once per thread before its first guarded call: an alternate stack, the signals unblocked.
void prepare_thread();
// For the card's own threads: leaves every other signal to the threads of the program.
void block_foreign_signals();
// Ends the kernel code that the calling thread is in, with the end of a sentence about it ("called exit(3)"). Returns
// if it is in none. No destructors are run: kernels are compiled to expect no exception from exit and its like.
void leave(const char* what);
// Makes the thread look at the cancel level of the kernel code that it is in; without effect elsewhere.
void interrupt(pthread_t thread);

namespace detail {

struct guard {
    sigjmp_buf resume;
    const cancel_level* level = nullptr;
    int tolerated = 0;
    exception_state exceptions{};  // before the call
    fault what;
};

// Read by signal handlers, so they must not be allocated lazily.
extern thread_local guard* active __attribute__((tls_model("initial-exec")));
extern thread_local exception_state* exceptions __attribute__((tls_model("initial-exec")));

// Within the handler of an exception of kernel code, whose what() is kernel code, too.
void note_exception(guard& g);

inline bool cancelled(const guard& g) { return g.level->load(std::memory_order_seq_cst) > g.tolerated; }

}  // namespace detail

// Calls kernel code. An exception unwinds to here; a fault or cancellation jumps here and runs no destructors.
template <typename Call>
[[gnu::noinline]] outcome guarded(const cancel_level& level, int tolerated, fault& what, Call&& call) {
    detail::guard guard;
    guard.level = &level;
    guard.tolerated = tolerated;
    guard.exceptions = *detail::exceptions;
    const int reason = sigsetjmp(guard.resume, 0);  // the mask needs no saving: the handlers block nothing
    if (reason != 0) {
        *detail::exceptions = guard.exceptions;  // the jump may have passed a handler
        what = guard.what;
        return static_cast<outcome>(reason);
    }
    detail::active = &guard;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (detail::cancelled(guard)) {  // an interrupt that came before `active` was set has had no effect
        detail::active = nullptr;
        return outcome::cancelled;
    }
    outcome result = outcome::returned;
    try {
        call();
    } catch (...) {
        detail::note_exception(guard);
        result = outcome::left;
    }
    std::atomic_signal_fence(std::memory_order_seq_cst);
    detail::active = nullptr;
    if (result == outcome::left) what = guard.what;
    return result;
}

// Around what kernel code calls back, which holds locks and must not be interrupted. `resume` leaves by a jump when a
// cancellation came in between.
inline detail::guard* suspend() {
    detail::guard* guard = detail::active;
    detail::active = nullptr;
    return guard;
}
void resume(detail::guard* guard);

}  // namespace card_model
