#include "interpreter.hpp"

#include <unistd.h>

#include <chrono>
#include <thread>

interpreter_gate& interpreter_gate::instance() {
    static interpreter_gate& only = *new interpreter_gate;  // outlives every thread
    return only;
}

bool interpreter_gate::enter() {
    inside_.fetch_add(1);  // before the look at closed_: close looks the other way round
    if (!closed_.load() || pthread_equal(closer_, pthread_self())) return true;
    inside_.fetch_sub(1);
    return false;
}

void interpreter_gate::close() {
    closer_ = pthread_self();
    closed_.store(true);
    while (inside_.load() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

without_gil::~without_gil() {
    interpreter_gate& gate = interpreter_gate::instance();
    while (!gate.enter()) pause();
    PyEval_RestoreThread(state_);
    gate.leave();
}
