// A compiled graph that is one launch, called with the graph's inputs: checks, copies in, launch and copies out in one
// call, past AOTAutograd's wrappers, the executor and the scheduler.
#pragma once
#include <nanobind/nanobind.h>

#include <array>
#include <memory>
#include <vector>

#include "bindings.hpp"
#include "bypass.hpp"
#include "slots.hpp"

// Process-wide sums over all direct calls, guarded by the GIL.
struct direct_totals {
    uint64_t launches = 0, commands = 0, bytes_in = 0, bytes_out = 0;
};

class direct_call {
public:
    struct output {
        nb::object size, stride, dtype;  // arguments of `empty`
    };
    // A parameter as it was when it was packed.
    struct source {
        Py_ssize_t position;  // -1: a constant of the graph
        // Only compared: a tensor whose memory is gone ends the binding, and one that has another's place and memory is
        // told by what follows. A weak reference would have torch.utils.swap_tensors refuse the tensor.
        PyObject* tensor;
        nb::object kept;  // the tensor, if it is a constant
        size_t bytes;
        int64_t address, version, print;  // version -1: it has none
    };
    // A run handle whose arguments are set for one set of parameters.
    struct binding {
        nb::object run_object, memory_object, capsule;  // keep what the pointer points to
        launchable* target;
        nb::object owner;  // for the scheduler's books; has what keeps the packed weights in their places
        nb::object guard;  // tuple of inputs -> whether they are of the kind that was bound
        std::vector<source> sources;
    };

    // otherwise(*inputs): the whole way, for all that the direct one cannot do. failed(run, state): told that a launch did
    // not complete, with the number of its state, before the inputs go the whole way. empty(size, stride, dtype) makes a
    // tensor. While profiling() is true there are no direct calls.
    direct_call(nb::callable otherwise, nb::callable failed, nb::object gate, nb::callable empty,
                nb::callable profiling, Py_ssize_t arity, nb::sequence inputs, nb::sequence outputs, uint64_t commands,
                unsigned timeout_ms, int samples);

    // run: of either driver, with its arguments set; memory: the buffer that has its inputs and outputs.
    // `sources`: (position, tensor, bytes, address, version, print) of each parameter as it was packed. Everything stays
    // bound until unbind(): who packs weights says how many sets of them there are.
    void bind(nb::object run, nb::object memory, nb::object owner, nb::object guard, nb::sequence sources);
    void unbind();
    nb::list take_durations();

    // A new reference, or null with or without a Python error. The keyword `into` gives the tensors that results go to, of
    // the results' shapes, strides and dtypes; after a call by the whole way others are returned.
    PyObject* call(PyObject* args, PyObject* kwargs);

    static direct_totals totals;

private:
    enum class outcome { done, refused, failed };

    std::shared_ptr<binding> find(PyObject* args) const;
    bool unchanged(const binding& b, PyObject* args) const;
    bool accepted(const binding& b, PyObject* args) const;
    nb::object new_results() const;
    outcome launch(const binding& b, PyObject* args, PyObject* given, nb::object& results,
                   card_model::ert_state& state);

    nb::callable otherwise_, failed_, empty_, profiling_;
    nb::object gate_object_;
    bypass* gate_;
    std::vector<Py_ssize_t> positions_;  // of the graph's inputs, in the order of the slots
    std::vector<output> outputs_;
    slot_list input_slots_, output_slots_;
    Py_ssize_t arity_ = 0;
    uint64_t commands_ = 0;
    unsigned timeout_ms_ = 0;
    int samples_ = -1;  // of each parameter's memory; 0: all, -1: none
    std::vector<std::shared_ptr<binding>> bindings_;
    std::array<double, 8> durations_{};  // seconds, of the last calls
    size_t measured_ = 0;
};
