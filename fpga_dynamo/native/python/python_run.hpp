// A run as Python has it: with callbacks that are Python functions.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "bindings.hpp"
#include "interpreter.hpp"
#include "kernel.hpp"

// A Python function that threads without the GIL may hold, call and let go.
class python_callback {
public:
    python_callback(nb::callable function, nb::object data)
        : function_(function.release().ptr()), data_(data.release().ptr()) {}
    ~python_callback() {
        if (function_) with_interpreter([this] { clear(); });
    }
    python_callback(const python_callback&) = delete;
    python_callback& operator=(const python_callback&) = delete;

    void operator()(card_model::ert_state state) const {
        with_interpreter([this, state] {
            if (!function_) return;
            const nb::object function = nb::borrow(function_), data = nb::borrow(data_);
            try {
                function(nb::none(), state, data);
            } catch (nb::python_error& raised) {
                raised.discard_as_unraisable("a callback of a run");
            }
        });
    }

    // For the cycle collector: a callback often refers to its run.
    int traverse(visitproc visit, void* arg) const {
        Py_VISIT(function_);
        Py_VISIT(data_);
        return 0;
    }
    void clear() {
        Py_CLEAR(function_);
        Py_CLEAR(data_);
    }

private:
    PyObject *function_, *data_;
};

// A run and those of its callbacks that Python objects see.
class python_run : public card_model::run {
public:
    using card_model::run::run;
    std::vector<std::shared_ptr<python_callback>> callbacks;  // guarded by the GIL
};
