// State that Python code changes step by step and that other threads always find in order.
#pragma once
#include <nanobind/nanobind.h>

#include "bypass.hpp"

// A lock around calls of Python functions. An exception can leave such a function between any two bytecodes: Ctrl-C, a
// MemoryError, sys.exit in a signal handler. The lock is released by C++ code, which no exception interrupts, and not
// before `repair` has put the state in order. Guarded by the GIL but for the lock itself.
class critical_section {
public:
    // repair: None, or a function that returns the function which repairs (a weakref.WeakMethod, for one). What it
    // returns must be correct however often it is called and interrupted.
    explicit critical_section(nanobind::object repair);
    ~critical_section();
    critical_section(const critical_section&) = delete;
    critical_section& operator=(const critical_section&) = delete;

    // function(*arguments) while no other thread is inside; a new reference, or null with the Python error set.
    // `interruptible`: a signal handler that raises may end the wait for other threads; nothing has run then.
    PyObject* run(PyObject* function, PyObject* const* arguments, size_t count, bool interruptible);
    void reset();  // in a forked child: the thread that is inside may not have come along

private:
    bool acquire(bool interruptible);
    void release();
    bool repaired(nanobind::object& error);

    PyThread_type_lock lock_;
    unsigned long owner_ = 0;
    bool damaged_ = false;
    nanobind::object repair_;
};

void bind_critical_section(nanobind::module_& module);
