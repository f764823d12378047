#include "faults.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "error.hpp"

namespace card_model {

namespace detail {
thread_local guard* active = nullptr;
thread_local exception_state* exceptions = nullptr;
}  // namespace detail

namespace {

constexpr int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
struct sigaction previous[NSIG];
std::terminate_handler previous_terminate = nullptr;

int cancel_signal() {
    static const int number = SIGRTMAX - 3;  // the ends of the range are what others take first
    return number;
}

[[noreturn]] void leave_kernel(detail::guard* guard, outcome reason) {
    detail::active = nullptr;
    siglongjmp(guard->resume, static_cast<int>(reason));
}

// Hands a signal that is not ours to whoever handled it before.
void forward(int signal, siginfo_t* info, void* context) {
    // A handler installed after ours may chain to us while we chain to it: the second time round ends that. A handler
    // before ours may jump out of it, so what tells a second time is that it lies deeper in the stack.
    static thread_local char* forwarding __attribute__((tls_model("initial-exec"))) = nullptr;
    char* const here = static_cast<char*>(__builtin_frame_address(0));
    const struct sigaction& before = previous[signal];
    const bool calls = (before.sa_flags & SA_SIGINFO) ? before.sa_sigaction != nullptr
                                                      : before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN;
    if ((forwarding && here < forwarding) || !calls) {
        if (signal == cancel_signal()) return;
        struct sigaction standard = {};
        standard.sa_handler = SIG_DFL;
        sigaction(signal, &standard, nullptr);
        if (info->si_code <= 0) raise(signal);  // sent by somebody; a true fault comes again by itself
        return;
    }
    forwarding = here;
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(signal, info, context);
    else
        before.sa_handler(signal);
    forwarding = nullptr;
}

void on_fault(int signal, siginfo_t* info, void* context) {
    detail::guard* guard = detail::active;
    const bool raised = info->si_code == SI_TKILL && info->si_pid == getpid();  // by this thread, as abort() does
    if (!guard || (info->si_code <= 0 && !raised)) return forward(signal, info, context);
    guard->what.signal = signal;
    guard->what.code = info->si_code;
    guard->what.address = raised ? nullptr : info->si_addr;
    leave_kernel(guard, outcome::crashed);
}

void on_cancel(int signal, siginfo_t* info, void* context) {
    detail::guard* guard = detail::active;
    if (!guard) return forward(signal, info, context);  // of another copy of this library
    if (detail::cancelled(*guard)) leave_kernel(guard, outcome::cancelled);
}

// The C++ runtime comes here when an exception finds no handler: where a function is noexcept, or in a destructor.
[[noreturn]] void on_terminate() {
    if (detail::active) {
        char text[sizeof fault::text];
        {
            const std::string because = describe_exception();
            std::snprintf(text, sizeof text, "ended in std::terminate()%s%s", because.empty() ? "" : " because of ",
                          because.c_str());
        }
        leave(text);
    }
    previous_terminate();
    std::abort();
}

using handler = void (*)(int, siginfo_t*, void*);

void install(int signal, handler function, struct sigaction* before) {
    struct sigaction current = {};
    sigaction(signal, nullptr, &current);
    if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == function) return;
    *before = current;
    struct sigaction ours = {};
    ours.sa_sigaction = function;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    sigaction(signal, &ours, nullptr);
}

sigset_t our_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : FAULTS) sigaddset(&set, signal);
    sigaddset(&set, cancel_signal());
    return set;
}

// A handler needs a stack of its own when the fault is that the thread's stack is full.
class signal_stack {
public:
    signal_stack() {
        stack_t current = {};
        if (sigaltstack(nullptr, &current) != 0 || !(current.ss_flags & SS_DISABLE)) return;  // somebody's: good enough
        memory_ = mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (memory_ == MAP_FAILED) {  // then only a full stack stays fatal
            memory_ = nullptr;
            return;
        }
        stack_t ours = {};
        ours.ss_sp = memory_;
        ours.ss_size = BYTES;
        sigaltstack(&ours, nullptr);
    }
    ~signal_stack() {
        if (!memory_) return;
        stack_t off = {}, current = {};
        off.ss_flags = SS_DISABLE;
        sigaltstack(nullptr, &current);
        if (current.ss_sp == memory_) sigaltstack(&off, nullptr);
        munmap(memory_, BYTES);
    }

private:
    static constexpr size_t BYTES = size_t{64} << 10;
    void* memory_ = nullptr;
};

}  // namespace

void install_handlers() {
    static std::mutex& mutex = *new std::mutex;
    std::lock_guard lock(mutex);
    for (const int signal : FAULTS) install(signal, on_fault, &previous[signal]);
    install(cancel_signal(), on_cancel, &previous[cancel_signal()]);
    // Once: whoever has put a handler in front of ours may chain to it.
    if (!previous_terminate) previous_terminate = std::set_terminate(on_terminate);
}

void prepare_thread() {
    static thread_local bool prepared = false;
    if (prepared) return;
    static thread_local signal_stack stack;
    static_cast<void>(stack);
    const sigset_t ours = our_signals();
    pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
    detail::exceptions = exceptions_of_this_thread();
    prepared = true;
}

void block_foreign_signals() {
    sigset_t others;
    sigfillset(&others);
    for (const int signal : FAULTS) sigdelset(&others, signal);
    sigdelset(&others, cancel_signal());
    pthread_sigmask(SIG_SETMASK, &others, nullptr);
}

void leave(const char* what) {
    detail::guard* guard = detail::active;
    if (!guard) return;
    std::snprintf(guard->what.text, sizeof guard->what.text, "%s", what);
    leave_kernel(guard, outcome::left);
}

void detail::note_exception(guard& g) {
    std::snprintf(g.what.text, sizeof g.what.text, "threw %s", describe_exception().c_str());
}

void interrupt(pthread_t thread) { pthread_kill(thread, cancel_signal()); }

void resume(detail::guard* guard) {
    detail::active = guard;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (guard && detail::cancelled(*guard)) leave_kernel(guard, outcome::cancelled);
}

std::string describe(const fault& what) {
    std::string name;
    switch (what.signal) {
        case SIGSEGV: name = "segmentation fault"; break;
        case SIGBUS: name = "bus error"; break;
        case SIGILL: name = "illegal instruction"; break;
        case SIGFPE: name = what.code == FPE_INTDIV ? "integer division by zero" : "arithmetic fault"; break;
        case SIGABRT: name = "SIGABRT of abort() or of a check of the C library"; break;
        default: name = "signal " + std::to_string(what.signal);
    }
    return what.code <= 0 ? name : name + " at " + hex(reinterpret_cast<uintptr_t>(what.address));
}

}  // namespace card_model
