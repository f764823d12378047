// Kernels for the driver's tests, straight against the card's binary interface: well-behaved ones and ones that are not.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <thread>

#include "card_abi.hpp"

using fpga::cu_call;
using fpga::cu_entry;

namespace {

template <typename T>
T scalar(const cu_call* call, uint32_t offset) {
    T value;
    std::memcpy(&value, call->registers + offset, sizeof value);
    return value;
}

template <typename T>
T* region(const cu_call* call, uint32_t offset, uint64_t* bytes) {
    return static_cast<T*>(call->translate(call->card, scalar<uint64_t>(call, offset), bytes));
}

uint32_t one_step(cu_call* call) {
    call->steps = 1;
    return 0;
}
uint32_t one_slice(const cu_call*, uint32_t) { return 1; }
void nothing(cu_call*, uint32_t, uint32_t) {}

// vadd(a, b, out, n): out[i] = a[i] + b[i]
uint32_t vadd_begin(cu_call* call) {
    const auto n = scalar<int32_t>(call, 0x34);
    for (const uint32_t offset : {0x10u, 0x1cu, 0x28u}) {
        uint64_t bytes = 0;
        if (!region<float>(call, offset, &bytes) || bytes < 4ull * static_cast<uint64_t>(n)) {
            std::snprintf(call->error, sizeof call->error, "the pointer at %#x has room for %llu bytes, n is %d", offset,
                          static_cast<unsigned long long>(bytes), n);
            return 1;
        }
    }
    return one_step(call);
}
uint32_t vadd_execute(cu_call* call, uint32_t, uint32_t, uint32_t) {
    uint64_t bytes;
    const auto* a = region<float>(call, 0x10, &bytes);
    const auto* b = region<float>(call, 0x1c, &bytes);
    auto* out = region<float>(call, 0x28, &bytes);
    const auto n = scalar<int32_t>(call, 0x34);
    for (int32_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
    return 0;
}

// empty(): what a launch costs
uint32_t empty_execute(cu_call*, uint32_t, uint32_t, uint32_t) { return 0; }

// steps(data, n, steps, slices): every step doubles each element and adds 1, in slices; a missing barrier shows.
// The element that a slice reads is one of a neighbouring slice of the step before.
uint32_t steps_begin(cu_call* call) {
    call->steps = scalar<uint32_t>(call, 0x24);
    return 0;
}
uint32_t steps_slices(const cu_call* call, uint32_t) { return scalar<uint32_t>(call, 0x2c); }
uint32_t steps_execute(cu_call* call, uint32_t step, uint32_t slice, uint32_t slices) {
    uint64_t bytes;
    auto* data = region<uint32_t>(call, 0x10, &bytes);
    const auto n = scalar<uint32_t>(call, 0x1c);
    const uint32_t* from = data + (step % 2 ? n : 0);
    uint32_t* to = data + (step % 2 ? 0 : n);
    for (uint32_t i = slice * n / slices; i < (slice + 1) * n / slices; ++i) to[i] = 2 * from[(i + n / 2 + 1) % n] + 1;
    return 0;
}

// deep(out): 6 slices, each with a large local array; out gets, for each, what the array's ends hold.
constexpr uint64_t DEEP_BYTES = uint64_t{12} << 20;
uint32_t deep_slices(const cu_call*, uint32_t) { return 6; }
uint32_t deep_execute(cu_call* call, uint32_t, uint32_t slice, uint32_t) {
    volatile char local[DEEP_BYTES];
    local[0] = static_cast<char>(slice);
    local[DEEP_BYTES - 1] = 1;
    uint64_t bytes;
    region<int32_t>(call, 0x10, &bytes)[slice] = local[0] + local[DEEP_BYTES - 1];
    return 0;
}

// misbehave(out, what, step): steps of 4 slices; in the given step something goes wrong. out gets 1 from `end`.
enum {
    HANG = 1, SEGFAULT, DIVIDE, OVERRUN, OVERFLOW_STACK, STATUS, REFUSE, SLEEP, HANG_IN_END, THROW, THROW_IN_ALL,
    THROW_IN_BEGIN, THROW_IN_SLICES, THROW_IN_END, EXIT, EXIT_IN_END, ABORT, CRASH_IN_HANDLER, TERMINATE_IN_UNWINDING,
    LOOK_FOR_EXCEPTIONS
};
uint32_t chosen(const cu_call* call) { return scalar<uint32_t>(call, 0x1c); }
void throw_if(bool now) {
    if (now) throw std::runtime_error("as it was told");
}
struct thrower {
    ~thrower() noexcept(false) { throw_if(true); }
};
uint32_t misbehave_begin(cu_call* call) {
    throw_if(chosen(call) == THROW_IN_BEGIN);
    if (chosen(call) == REFUSE) {
        std::snprintf(call->error, sizeof call->error, "it does not like the arguments");
        return 7;
    }
    call->steps = 4;
    return 0;
}
uint32_t four_slices(const cu_call* call, uint32_t step) {
    throw_if(chosen(call) == THROW_IN_SLICES && step == scalar<uint32_t>(call, 0x24));
    return 4;
}
volatile int zero = 0;
uint32_t dig(volatile char* above) {
    volatile char frame[4096];
    frame[0] = above[0];
    return dig(frame) + static_cast<uint32_t>(frame[0]);
}
// On the thread that runs the command, not on any lane.
void in_end(uint32_t what, volatile uint32_t* out) {
    throw_if(what == THROW_IN_END);
    if (what == EXIT_IN_END) std::exit(3);
    if (what == LOOK_FOR_EXCEPTIONS) out[1] = std::uncaught_exceptions() + (std::current_exception() ? 100 : 0);
    if (what == CRASH_IN_HANDLER) {
        try {
            throw_if(true);
        } catch (const std::runtime_error&) {
            *reinterpret_cast<volatile int*>(0x10) = 1;
        }
    }
    if (what == TERMINATE_IN_UNWINDING) {
        const thrower one;
        throw std::logic_error("the first one");
    }
    while (what == HANG_IN_END) out[1] = out[1] + 1;
}
uint32_t misbehave_execute(cu_call* call, uint32_t step, uint32_t slice, uint32_t slices) {
    if (step != scalar<uint32_t>(call, 0x24)) return 0;
    throw_if(chosen(call) == THROW_IN_ALL);
    if (slice != slices - 1) return 0;
    uint64_t bytes;
    auto* out = region<volatile int32_t>(call, 0x10, &bytes);
    volatile char bottom = 0;
    switch (chosen(call)) {
        case HANG:
            for (;;) out[1] = out[1] + 1;
        case SEGFAULT: *reinterpret_cast<volatile int*>(0x10) = 1; break;
        case DIVIDE: out[1] = 1000 / zero; break;
        case OVERRUN:
            for (uint64_t i = 0;; ++i) out[i + 2] = 1;
        case OVERFLOW_STACK: return dig(&bottom);
        case STATUS: return 42;
        case THROW: throw_if(true); break;
        case EXIT: std::exit(3);
        case ABORT: std::abort();
        case SLEEP: std::this_thread::sleep_for(std::chrono::milliseconds(scalar<uint32_t>(call, 0x2c))); break;
    }
    return 0;
}
void misbehave_end(cu_call* call, uint32_t status, uint32_t) {
    uint64_t bytes;
    auto* out = region<volatile uint32_t>(call, 0x10, &bytes);
    out[0] = status ? status : 1;
    in_end(chosen(call), out);
}

}  // namespace

#define KERNEL(name) extern "C" __attribute__((visibility("default"))) const cu_entry fpga_cu_##name
KERNEL(vadd) = {fpga::CARD_ABI, vadd_begin, one_slice, vadd_execute, nothing};
KERNEL(empty) = {fpga::CARD_ABI, one_step, one_slice, empty_execute, nothing};
KERNEL(steps) = {fpga::CARD_ABI, steps_begin, steps_slices, steps_execute, nothing};
KERNEL(deep) = {fpga::CARD_ABI, one_step, deep_slices, deep_execute, nothing, DEEP_BYTES + 4096};
KERNEL(misbehave) = {fpga::CARD_ABI, misbehave_begin, four_slices, misbehave_execute, misbehave_end};
KERNEL(pair) = {fpga::CARD_ABI, misbehave_begin, four_slices, misbehave_execute, misbehave_end};  // on two units
#ifdef WRONG_ABI
KERNEL(wrong) = {fpga::CARD_ABI + 1, one_step, one_slice, empty_execute, nothing};
#endif
