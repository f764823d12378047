#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstring>

#include "bindings.hpp"
#include "checked.hpp"
#include "running.hpp"
#include "scalar.hpp"

using access_mode = xrt::kernel::cu_access_mode;

const argument& kernel::at(uint32_t index) const {
    if (index >= arguments.size())
        throw device_error("kernel '" + name + "' has " + std::to_string(arguments.size()) +
                           " arguments; there is no argument " + std::to_string(index));
    return arguments[index];
}

namespace {

std::shared_ptr<kernel> open(const device& owner, const xrt::uuid& id, const std::string& name, access_mode mode) {
    auto result = std::make_shared<kernel>();
    result->owner = owner.opened;
    result->name = name.substr(0, name.find(':'));
    const size_t first = name.find('{'), last = name.find('}');
    if (first != std::string::npos && last != std::string::npos && name.find(',') == std::string::npos)
        result->unit = name.substr(first + 1, last - first - 1);
    checked([&] { return "kernel '" + name + "' cannot be opened"; }, [&] {
        card& opened = *owner.opened;
        std::lock_guard lock(opened.mutex);
        const std::string index = std::to_string(opened.index);
        if (!opened.loaded) throw device_error("card " + index + " has no xclbin; call load_xclbin first");
        if (opened.loaded.get_uuid() != id)
            throw device_error("card " + index + " holds xclbin " + opened.loaded.get_uuid().to_string() + ", not " +
                               id.to_string() + "; load that one first");
        const xrt::xclbin::kernel described = opened.loaded.get_kernel(result->name);
        if (!described) throw device_error("the xclbin has no kernel '" + result->name + "'");
        for (const auto& one : described.get_args())
            result->arguments.push_back({one.get_name(), !one.get_mems().empty(), one.get_size()});
        result->object = xrt::kernel(opened.device, id, name, mode);
    });
    return result;
}

int group_of(const kernel& self, uint32_t index) {
    const argument& wanted = self.at(index);
    if (!wanted.global)
        throw device_error("argument " + std::to_string(index) + " ('" + wanted.name + "') of kernel '" + self.name +
                           "' is a scalar and lies in no memory group");
    return checked([] { return "the memory group of an argument"; },
                   [&] { return self.object.group_id(static_cast<int>(index)); });
}

void set_argument(running& self, uint32_t index, nb::handle value) {
    buffer* memory = nullptr;
    if (nb::try_cast(value, memory) && memory) return self.set_buffer(index, *memory);
    const argument& wanted = self.of().at(index);
    const std::string title = "argument " + std::to_string(index) + " ('" + wanted.name + "') of kernel '" + self.of().name + "'";
    if (wanted.global) throw device_error(title + " takes a buffer");
    const scalar bytes(value, wanted.bytes, title);
    self.set_scalar(index, bytes.data(), wanted.bytes);
}

std::unique_ptr<running> call(std::shared_ptr<kernel> self, nb::args arguments) {
    if (arguments.size() != self->arguments.size())
        throw device_error("kernel '" + self->name + "' takes " + std::to_string(self->arguments.size()) +
                           " arguments, " + std::to_string(arguments.size()) + " were given");
    auto started = std::make_unique<running>(std::move(self));
    uint32_t index = 0;
    for (const nb::handle argument : arguments) set_argument(*started, index++, argument);
    started->start();
    return started;
}

void add_callback(running& self, ert_cmd_state state, nb::callable function, nb::object data) {
    if (state != ERT_CMD_STATE_COMPLETED)
        throw device_error("a callback can be added for ERT_CMD_STATE_COMPLETED only; it is called with whatever state "
                           "the run ends in");
    // Held for the life of the process: XRT keeps the callback with the run, and may let go of it on any thread.
    const nb::object held = nb::make_tuple(std::move(function), std::move(data));
    PyObject* pair = nb::object(held).release().ptr();
    self.add_callback([pair](ert_cmd_state ended) {
        with_interpreter([&] {
            try {
                nb::handle(PyTuple_GetItem(pair, 0))(nb::none(), ended, nb::handle(PyTuple_GetItem(pair, 1)));
            } catch (nb::python_error& raised) {
                raised.discard_as_unraisable("a callback of a run");
            }
        });
    });
}

}  // namespace

void bind_kernel(nb::module_& module) {
    nb::class_<kernel> kernels(module, "kernel");
    nb::enum_<access_mode>(kernels, "cu_access_mode")
        .value("exclusive", access_mode::exclusive)
        .value("shared", access_mode::shared)
        .value("none", access_mode::none)
        .export_values();
    kernels
        .def(nb::new_(&open), nb::arg("device"), nb::arg("uuid"), nb::arg("name"), nb::arg("mode") = access_mode::shared)
        .def("group_id", &group_of, nb::arg("argument"))
        .def("__call__", &call);

    nb::class_<running>(module, "run")
        .def(nb::init<std::shared_ptr<kernel>>(), nb::arg("kernel"))
        .def("set_arg", &set_argument, nb::arg("index"), nb::arg("value"))
        .def("start", &running::start)
        .def("wait", &running::wait, nb::arg("timeout_ms") = 0)
        .def("abort", &running::abort)
        .def("state", &running::state)
        .def("add_callback", &add_callback, nb::arg("state"), nb::arg("callback"), nb::arg("data") = nb::none())
        .def_prop_ro("error", &running::error)
        .def_prop_ro("compute_unit",
                     [](const running& self) -> nb::object {
                         const std::string unit = self.compute_unit();
                         return unit.empty() ? nb::none() : nb::cast(unit);
                     })
        .def_prop_ro("start_ns", &running::start_ns)
        .def_prop_ro("stop_ns", &running::stop_ns);
}
