// Threads that run kernel code, and whether the calling one can.
#pragma once
#include <pthread.h>

#include <cstddef>
#include <functional>

namespace card_model {

// A thread with room for `stack` bytes of kernel code's local arrays, whatever the program's limit for stacks is. Like
// std::thread it must have been joined before it goes.
class kernel_thread {
public:
    kernel_thread() = default;
    kernel_thread(size_t stack, std::function<void()> body);  // throws out_of_memory if no thread can be started
    kernel_thread(kernel_thread&& other) noexcept;
    kernel_thread& operator=(kernel_thread&& other) noexcept;
    ~kernel_thread();

    bool joinable() const { return running_; }
    void join();
    pthread_t native_handle() const { return handle_; }

private:
    pthread_t handle_{};
    bool running_ = false;
};

// Whether the calling thread's stack has so many bytes left. False on a stack that is not the thread's own, as a
// coroutine's, of which nothing is known.
bool stack_has(size_t bytes);

// The calling thread's stack in bytes if the address lies just below it, where an overflow ends; else 0.
size_t overflowed_stack(const void* address);

}  // namespace card_model
