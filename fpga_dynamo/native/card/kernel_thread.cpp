#include "kernel_thread.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "error.hpp"

namespace card_model {

namespace {

constexpr size_t OWN_FRAMES = size_t{256} << 10;  // of the card, below the kernel's
constexpr size_t PAGE = 4096;

void* run_body(void* body) {
    const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(body));
    (*owned)();
    return nullptr;
}

struct stack_range {
    uintptr_t begin = 0, end = 0;
};

stack_range own_stack() {
    stack_range range;
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return range;
    void* lowest = nullptr;
    size_t bytes = 0;
    if (pthread_attr_getstack(&attributes, &lowest, &bytes) == 0) {
        range.begin = reinterpret_cast<uintptr_t>(lowest);
        range.end = range.begin + bytes;
    }
    pthread_attr_destroy(&attributes);
    return range;
}

}  // namespace

kernel_thread::kernel_thread(size_t stack, std::function<void()> body) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    size_t standard = 0;
    pthread_attr_getstacksize(&attributes, &standard);
    pthread_attr_setstacksize(&attributes, std::max(standard, (stack + OWN_FRAMES + PAGE - 1) / PAGE * PAGE));
    auto owned = std::make_unique<std::function<void()>>(std::move(body));
    const int code = pthread_create(&handle_, &attributes, run_body, owned.get());
    pthread_attr_destroy(&attributes);
    if (code != 0)
        throw out_of_memory("no thread with a stack of " + std::to_string(stack) + " bytes can be started (" +
                            std::strerror(code) + "); lower FPGA_DYNAMO_LANES or raise the limits (ulimit -u, -v)");
    (void)owned.release();
    running_ = true;
}

kernel_thread::kernel_thread(kernel_thread&& other) noexcept
    : handle_(other.handle_), running_(std::exchange(other.running_, false)) {}

kernel_thread& kernel_thread::operator=(kernel_thread&& other) noexcept {
    if (running_) std::terminate();
    handle_ = other.handle_;
    running_ = std::exchange(other.running_, false);
    return *this;
}

kernel_thread::~kernel_thread() {
    if (running_) std::terminate();
}

void kernel_thread::join() {
    pthread_join(handle_, nullptr);
    running_ = false;
}

size_t overflowed_stack(const void* address) {
    constexpr uintptr_t GUARD = 16 * PAGE;  // of a thread, or what the kernel keeps free below the first one's
    const stack_range stack = own_stack();
    const auto at = reinterpret_cast<uintptr_t>(address);
    return at < stack.begin + PAGE && at + GUARD >= stack.begin ? stack.end - stack.begin : 0;
}

bool stack_has(size_t bytes) {
    static thread_local const stack_range stack = own_stack();
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    return here > stack.begin && here <= stack.end && here - stack.begin >= bytes + OWN_FRAMES;
}

}  // namespace card_model
