#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <string>
#include <vector>

#include "bindings.hpp"
#include "emulated_launch.hpp"
#include "error.hpp"
#include "interpreter.hpp"
#include "kernel.hpp"
#include "launchable_capsule.hpp"
#include "python_run.hpp"
#include "pyxrt_types.hpp"
#include "scalar.hpp"

using card_model::access_mode;
using card_model::buffer;
using card_model::ert_state;
using card_model::kernel;
using card_model::run;
using card_model::transfer;
using release_gil = nb::call_guard<without_gil>;

namespace {

int traverse_run(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    for (const auto& callback : nb::inst_ptr<python_run>(self)->callbacks)
        if (const int result = callback->traverse(visit, arg)) return result;
    return 0;
}

int clear_run(PyObject* self) {
    for (const auto& callback : nb::inst_ptr<python_run>(self)->callbacks) callback->clear();
    return 0;
}

PyType_Slot run_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_run)},
                           {Py_tp_clear, reinterpret_cast<void*>(clear_run)},
                           {0, nullptr}};

void add_callback(python_run& self, ert_state state, nb::callable function, nb::object data) {
    if (state != ert_state::completed)
        throw card_model::error("a callback can be added for ERT_CMD_STATE_COMPLETED only; it is called with whatever "
                                "state the run ends in");
    auto held = std::make_shared<python_callback>(std::move(function), std::move(data));
    self.callbacks.push_back(held);
    without_gil release;
    self.command().add_callback([held](ert_state ended) { (*held)(ended); });
}

void set_argument(python_run& self, uint32_t index, nb::handle value) {
    buffer* memory = nullptr;
    if (nb::try_cast(value, memory) && memory) return self.set_buffer(index, *memory);
    const card_model::argument_info& wanted = self.of().argument(index);
    const std::string title = "argument " + std::to_string(index) + " ('" + wanted.name + "') of kernel '" +
                              self.of().info().name + "'";
    if (wanted.stream && value.is_none()) return;
    if (wanted.global) throw card_model::error(title + " must be a buffer");
    self.set_scalar(index, scalar(value, wanted.bytes, title).data(), wanted.bytes);
}

std::unique_ptr<python_run> call(std::shared_ptr<kernel> self, nb::args arguments) {
    if (arguments.size() != self->info().arguments.size())
        throw card_model::error("kernel '" + self->info().name + "' takes " +
                                std::to_string(self->info().arguments.size()) + " arguments, " +
                                std::to_string(arguments.size()) + " were given");
    auto started = std::make_unique<python_run>(std::move(self));
    uint32_t index = 0;
    for (const nb::handle argument : arguments) set_argument(*started, index++, argument);
    without_gil release;
    started->start();
    return started;
}

std::vector<transfer> transfers(nb::handle pieces) {
    std::vector<transfer> result;
    result.reserve(nb::len(pieces));
    for (const nb::handle piece : pieces) {
        const auto [host, bytes, offset] = std::tuple{nb::cast<uint64_t>(piece[0]), nb::cast<uint64_t>(piece[1]),
                                                      nb::cast<uint64_t>(piece[2])};
        result.push_back({host, bytes, offset});
    }
    return result;
}

ert_state execute_io(python_run& self, nb::sequence inputs, nb::sequence outputs, const buffer& memory,
                     unsigned timeout_ms) {
    const auto from = transfers(inputs), to = transfers(outputs);
    without_gil release;
    return self.execute_io(memory, from, to, timeout_ms);
}

nb::list step_times(const python_run& self) {
    nb::list result;
    for (const card_model::step_time& step : self.steps()) result.append(nb::make_tuple(step.start_ns, step.stop_ns));
    return result;
}

void wait2(const python_run& self, unsigned timeout_ms) {
    const ert_state state = self.wait(timeout_ms);
    if (state == ert_state::completed) return;
    const std::string name = "run of kernel '" + self.of().info().name + "'";
    if (self.command().busy())
        throw card_model::command_error(name + " has not ended within " + std::to_string(timeout_ms) + " ms");
    if (state == ert_state::created) throw card_model::command_error(name + " has not been started");
    throw card_model::command_error(self.command().error());
}

}  // namespace

void bind_kernel(nb::module_& module) {
    nb::class_<kernel> kernels(module, "kernel");
    bind_access_mode<access_mode>(kernels);
    kernels
        .def(
            "__init__",
            [](kernel* self, const device& owner, const card_model::uuid& id, const std::string& name,
               access_mode mode) { new (self) kernel(owner.card, id, name, mode); },
            nb::arg("device"), nb::arg("uuid"), nb::arg("name"), nb::arg("mode") = access_mode::shared)
        .def("group_id", &kernel::group_id, nb::arg("argument"))
        .def("__call__", &call);

    nb::class_<python_run>(module, "run", nb::type_slots(run_slots))
        .def(nb::init<std::shared_ptr<kernel>>(), nb::arg("kernel"))
        .def("set_arg", &set_argument, nb::arg("index"), nb::arg("value"))
        .def("start", &run::start, release_gil())
        .def("wait", &run::wait, nb::arg("timeout_ms") = 0, release_gil())
        .def("wait2", &wait2, nb::arg("timeout_ms") = 0, release_gil())
        .def("execute", &run::execute, nb::arg("timeout_ms") = 0, release_gil())
        .def("execute_io", &execute_io, nb::arg("inputs"), nb::arg("outputs"), nb::arg("bo"), nb::arg("timeout_ms") = 0)
        .def(
            "launchable",
            [](python_run& self, const buffer& memory) {
                return hand_over(std::make_unique<emulated_launch>(self, memory));
            },
            nb::arg("bo"))
        .def("abort", &run::abort, release_gil())
        .def("state", [](const python_run& self) { return self.command().state(); })
        .def("return_code", [](const python_run& self) { return self.command().status.load(); })
        .def("add_callback", &add_callback, nb::arg("state"), nb::arg("callback"), nb::arg("data") = nb::none())
        .def("trace_steps", &run::trace_steps, nb::arg("wanted"))
        .def_prop_ro("step_times", &step_times)
        .def_prop_ro("counters", [](const python_run& self) { return self.counters(); })
        .def_prop_ro("error", [](const python_run& self) { return self.command().error(); })
        .def_prop_ro("compute_unit",
                     [](const python_run& self) -> nb::object {
                         const std::string* name = self.command().compute_unit.load();
                         return name ? nb::cast(*name) : nb::none();
                     })
        .def_prop_ro("start_ns", [](const python_run& self) { return self.command().start_ns.load(); })
        .def_prop_ro("stop_ns", [](const python_run& self) { return self.command().stop_ns.load(); });

    module.def(
        "_shut_down",
        [] {
            card_model::card::shut_down();
            if (!card_model::forked()) interpreter_gate::instance().close();
        },
        release_gil());
    nb::module_::import_("atexit").attr("register")(module.attr("_shut_down"));
}
