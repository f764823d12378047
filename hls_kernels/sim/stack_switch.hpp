// How one thread runs many call stacks: a stack of its own for each process, and the switch from one to another.
//
// On x86-64 the switch is written here (the callee-saved registers, some 3 ns). Other processors use ucontext, which also
// saves the signal mask by a system call. AddressSanitizer is told of every switch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__) || defined(FPGA_SIM_UCONTEXT)
#define FPGA_SIM_USES_UCONTEXT 1
#include <ucontext.h>
#else
#define FPGA_SIM_USES_UCONTEXT 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define FPGA_SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FPGA_SIM_ASAN 1
#endif
#endif
#ifdef FPGA_SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace sim {

constexpr std::size_t STACK_BYTES = std::size_t{16} << 20;  // of a process; pages that are not touched cost nothing

// Memory of one stack, with a page below it that traps. Kept for the next process when it is no longer used.
class stack_memory {
public:
    stack_memory() {
        std::vector<char*>& spare = pool();
        if (!spare.empty()) {
            low_ = spare.back();
            spare.pop_back();
            return;
        }
        void* memory = mmap(nullptr, STACK_BYTES + guard(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        low_ = static_cast<char*>(memory) + guard();
        mprotect(memory, guard(), PROT_NONE);
    }
    ~stack_memory() { pool().push_back(low_); }
    stack_memory(const stack_memory&) = delete;
    stack_memory& operator=(const stack_memory&) = delete;

    char* low() const { return low_; }
    char* high() const { return low_ + STACK_BYTES; }

private:
    struct spares {
        std::vector<char*> lows;
        ~spares() {
            for (char* low : lows) munmap(low - guard(), STACK_BYTES + guard());
        }
    };
    static std::vector<char*>& pool() {
        static thread_local spares of_thread;
        return of_thread.lows;
    }
    static std::size_t guard() {
        static const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        return page;
    }
    char* low_;
};

#if !FPGA_SIM_USES_UCONTEXT
// Saves what a call must preserve on the running stack, notes the stack in *from, and goes on where `to` was left.
__attribute__((naked)) inline void switch_registers(void** /*from*/, void* /*to*/) {
    asm("pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
        "subq $8, %rsp\n\tstmxcsr (%rsp)\n\tfnstcw 4(%rsp)\n\t"
        "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
        "fldcw 4(%rsp)\n\tldmxcsr (%rsp)\n\taddq $8, %rsp\n\t"
        "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret");
}
#endif

// A call stack that is not running, or the one that is.
class context {
public:
    // `entry` is called when the context is first switched to, on `stack`; it must never return.
    void prepare(const stack_memory& stack, void (*entry)()) {
#if FPGA_SIM_USES_UCONTEXT
        getcontext(&saved_);
        saved_.uc_stack.ss_sp = stack.low();
        saved_.uc_stack.ss_size = STACK_BYTES;
        saved_.uc_link = nullptr;
        makecontext(&saved_, entry, 0);
#else
        void** top = reinterpret_cast<void**>(stack.high());
        *--top = nullptr;  // no return address
        *--top = reinterpret_cast<void*>(entry);
        for (int i = 0; i < 6; i++) *--top = nullptr;
        uint32_t control[2] = {0, 0};
        asm("stmxcsr %0\n\tfnstcw %1" : "=m"(control[0]), "=m"(control[1]));
        *--top = nullptr;
        static_cast<uint32_t*>(static_cast<void*>(top))[0] = control[0];
        static_cast<uint32_t*>(static_cast<void*>(top))[1] = control[1];
        saved_ = top;
#endif
#ifdef FPGA_SIM_ASAN
        bottom_ = stack.low();
        size_ = STACK_BYTES;
        __asan_unpoison_memory_region(stack.low(), STACK_BYTES);  // the process before has left its frames there
#endif
    }
    // Called first thing by `entry`; `from` is the context that switched to it.
    void entered(context& from) {
        (void)from;
#ifdef FPGA_SIM_ASAN
        __sanitizer_finish_switch_fiber(nullptr, &from.bottom_, &from.size_);
#endif
    }
    // Goes on in `to`; returns when some context switches back. `last`: this one will never run again.
    void switch_to(context& to, context*& came_from, bool last = false) {
        came_from = this;
        (void)last;
#ifdef FPGA_SIM_ASAN
        void* fake = nullptr;
        __sanitizer_start_switch_fiber(last ? nullptr : &fake, to.bottom_, to.size_);
#endif
#if FPGA_SIM_USES_UCONTEXT
        swapcontext(&saved_, &to.saved_);
#else
        switch_registers(&saved_, to.saved_);
#endif
#ifdef FPGA_SIM_ASAN
        __sanitizer_finish_switch_fiber(fake, &came_from->bottom_, &came_from->size_);
#endif
    }

private:
#if FPGA_SIM_USES_UCONTEXT
    ucontext_t saved_;
#else
    void* saved_ = nullptr;
#endif
#ifdef FPGA_SIM_ASAN
    const void* bottom_ = nullptr;
    std::size_t size_ = 0;
#endif
};

}  // namespace sim
