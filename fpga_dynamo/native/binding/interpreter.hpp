// Leaving and entering the interpreter in a process that may be about to end. Once Python finalizes, a thread that asks
// for the GIL is ended in the middle of C++ (by an unwinding that destructors turn into a call of std::terminate).
#pragma once
#include <nanobind/nanobind.h>
#include <pthread.h>

#include <atomic>

#include "process.hpp"

class interpreter_gate {
public:
    static interpreter_gate& instance();

    // Between enter and leave the interpreter stays; false: it shuts down, and the GIL must not be asked for.
    bool enter();
    void leave() { inside_.fetch_sub(1); }
    // Called by an atexit handler, without the GIL. Returns when nobody is inside; the caller may enter still.
    void close();

private:
    std::atomic<int> inside_{0};
    std::atomic<bool> closed_{false};
    pthread_t closer_{};
};

// Releases the GIL for a scope. A (daemon) thread that comes back during shut-down sleeps until the process is gone.
class without_gil {
public:
    without_gil() : state_(PyEval_SaveThread()) {}
    ~without_gil();
    without_gil(const without_gil&) = delete;
    without_gil& operator=(const without_gil&) = delete;

private:
    PyThreadState* state_;
};

// Runs the action with the GIL, on a thread of the card; not at all if the interpreter shuts down.
template <typename Action>
void with_interpreter(Action&& action) {
    if (card_model::forked() || !interpreter_gate::instance().enter()) return;
    {
        nanobind::gil_scoped_acquire acquire;
        action();
    }
    interpreter_gate::instance().leave();
}
