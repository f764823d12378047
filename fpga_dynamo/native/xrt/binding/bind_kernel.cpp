#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "checked.hpp"
#include "launchable_capsule.hpp"
#include "pyxrt_types.hpp"
#include "running.hpp"
#include "scalar.hpp"

using access_mode = xrt::kernel::cu_access_mode;
using release_gil = nb::call_guard<without_gil>;
using piece = std::tuple<uint64_t, uint64_t, uint64_t>;  // host address, bytes, offset in the buffer
using card_model::transfer;

const argument& kernel::at(uint32_t index) const {
    if (index >= arguments.size())
        throw device_error("kernel '" + name + "' has " + std::to_string(arguments.size()) +
                           " arguments; there is no argument " + std::to_string(index));
    return arguments[index];
}

void kernel::check_loaded() const {
    if (load && load != owner->loads.load(std::memory_order_relaxed))
        throw device_error("card " + std::to_string(owner->index) + " was given another xclbin since kernel '" + name +
                           "' was opened; open it again");
}

kernel::~kernel() {
    if (!owner || card_model::forked()) return;
    std::lock_guard lock(owner->opening);
    owner->kernels.erase(this);
}

void card::close_kernels() {
    running::check_left(*this);
    std::lock_guard lock(opening);
    for (const running* one : runs_of_kernels) one->check_closable();
    ++loads;
    for (running* one : runs_of_kernels) one->close();
    for (kernel* one : kernels) one->object = {};
    runs_of_kernels.clear();
    kernels.clear();
}

namespace {

// Opens a kernel of xclbin `id`, which the card must hold, by a call of XRT's.
template <typename Open>
std::shared_ptr<kernel> open(const std::shared_ptr<card>& owner, const xrt::uuid& id, const std::string& name,
                             Open&& by_xrt) {
    auto result = std::make_shared<kernel>();
    result->owner = owner;
    result->name = name.substr(0, name.find(':'));
    const size_t first = name.find('{'), last = name.find('}');
    if (first != std::string::npos && last != std::string::npos && name.find(',') == std::string::npos)
        result->unit = name.substr(first + 1, last - first - 1);
    checked([&] { return "kernel '" + name + "' cannot be opened"; },
            [&] {
                std::lock_guard lock(owner->mutex);
                const std::string index = std::to_string(owner->index);
                if (!owner->loaded) throw device_error("card " + index + " has no xclbin; call load_xclbin first");
                if (owner->loaded.get_uuid() != id)
                    throw device_error("card " + index + " holds xclbin " + owner->loaded.get_uuid().to_string() +
                                       ", not " + id.to_string() + "; load that one first");
                const xrt::xclbin::kernel described = owner->loaded.get_kernel(result->name);
                if (!described) throw device_error("the xclbin has no kernel '" + result->name + "'");
                for (const auto& one : described.get_args())
                    result->arguments.push_back({one.get_name(), !one.get_mems().empty(), one.get_size()});
                result->object = by_xrt();
            });
    return result;
}

std::shared_ptr<kernel> open_on_device(const device& owner, const xrt::uuid& id, const std::string& name,
                                       access_mode mode) {
    card& opened = *owner.opened;
    const unsigned load = opened.loads;
    auto result = open(owner.opened, id, name, [&] { return xrt::kernel(opened.device, id, name, mode); });
    result->load = load;
    std::lock_guard lock(opened.opening);
    opened.kernels.insert(result.get());
    return result;
}

#ifdef FPGA_DYNAMO_HW_CONTEXT
std::shared_ptr<kernel> open_in_context(const context& resources, const std::string& name) {
    return open(resources.owner, resources.id, name, [&] { return xrt::kernel(resources.object.get(), name); });
}

context make_context(const device& owner, const xrt::uuid& id, xrt::hw_context::access_mode mode) {
    return checked([] { return "a hw_context"; },
                   [&] { return context{owner.opened, id, xrt::hw_context(owner.opened->device, id, mode)}; });
}

void bind_context(nb::module_& module) {
    using mode = xrt::hw_context::access_mode;
    nb::class_<context> contexts(module, "hw_context");
    nb::enum_<mode>(contexts, "access_mode")
        .value("exclusive", mode::exclusive)
        .value("shared", mode::shared)
        .export_values();
    contexts.def(nb::new_(&make_context), nb::arg("device"), nb::arg("uuid"), nb::arg("mode") = mode::shared);
}
#endif

int group_of(const kernel& self, uint32_t index) {
    const argument& wanted = self.at(index);
    if (!wanted.global)
        throw device_error("argument " + std::to_string(index) + " ('" + wanted.name + "') of kernel '" + self.name +
                           "' is a scalar and lies in no memory group");
    self.check_loaded();
    return checked([] { return "the memory group of an argument"; },
                   [&] { return self.object.get().group_id(static_cast<int>(index)); });
}

void set_argument(running& self, uint32_t index, nb::handle value) {
    buffer* memory = nullptr;
    if (nb::try_cast(value, memory) && memory) return self.set_buffer(index, *memory);
    const argument& wanted = self.of().at(index);
    const std::string title = "argument " + std::to_string(index) + " ('" + wanted.name + "') of kernel '" +
                              self.of().name + "'";
    if (wanted.global) throw device_error(title + " must be a buffer");
    self.set_scalar(index, scalar(value, wanted.bytes, title).data(), wanted.bytes);
}

std::unique_ptr<running> call(std::shared_ptr<kernel> self, nb::args arguments) {
    if (arguments.size() != self->arguments.size())
        throw device_error("kernel '" + self->name + "' takes " + std::to_string(self->arguments.size()) +
                           " arguments, " + std::to_string(arguments.size()) + " were given");
    auto started = std::make_unique<running>(std::move(self));
    uint32_t index = 0;
    for (const nb::handle argument : arguments) set_argument(*started, index++, argument);
    const without_gil release;
    started->start();
    return started;
}

// By XRT's own calls: the host's side of the buffer, sync, start, wait, sync.
ert_cmd_state launch(running& self, const buffer& memory, const crossing& inputs, const crossing& outputs,
                     unsigned timeout_ms) {
    for (const transfer& output : outputs.pieces) memory.check("an output", output.bytes, output.offset);
    for (const transfer& input : inputs.pieces) memory.write(input.host, input.bytes, input.offset);
    const ert_cmd_state state = self.execute(memory, inputs.all, outputs.all, timeout_ms);
    if (state == ERT_CMD_STATE_COMPLETED)
        for (const transfer& output : outputs.pieces) memory.read(output.host, output.bytes, output.offset);
    return state;
}

class xrt_launch : public launchable {
public:
    xrt_launch(running& target, const buffer& memory) : run_(target), memory_(memory) { memory_.map(); }
    uint8_t* window(card_model::direction, uint64_t bytes, uint64_t offset) override {
        memory_.check("a copy", bytes, offset);
        return memory_.map() + offset;
    }
    card_model::ert_state launch(const crossing& inputs, const crossing& outputs, unsigned timeout_ms) override {
        return static_cast<card_model::ert_state>(::launch(run_, memory_, inputs, outputs, timeout_ms));
    }

private:
    running& run_;
    buffer memory_;
};

ert_cmd_state execute_io(running& self, const std::vector<piece>& inputs, const std::vector<piece>& outputs,
                         const buffer& memory, unsigned timeout_ms) {
    const without_gil release;
    std::vector<transfer> reads, writes;
    extent in, out;
    for (const auto& [host, bytes, offset] : inputs) {
        reads.push_back({host, bytes, offset});
        in = in.with(offset, bytes);
    }
    for (const auto& [host, bytes, offset] : outputs) {
        writes.push_back({host, bytes, offset});
        out = out.with(offset, bytes);
    }
    return launch(self, memory, {reads, in}, {writes, out}, timeout_ms);
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
#ifdef FPGA_DYNAMO_HW_CONTEXT
    bind_context(module);
#endif
    nb::class_<kernel> kernels(module, "kernel");
    bind_access_mode<access_mode>(kernels);
    kernels
        .def(nb::new_(&open_on_device), nb::arg("device"), nb::arg("uuid"), nb::arg("name"),
             nb::arg("mode") = access_mode::shared)
#ifdef FPGA_DYNAMO_HW_CONTEXT
        .def(nb::new_(&open_in_context), nb::arg("context"), nb::arg("name"))
#endif
        .def("group_id", &group_of, nb::arg("argument"))
        .def("__call__", &call);

    nb::class_<running>(module, "run")
        .def(nb::init<std::shared_ptr<kernel>>(), nb::arg("kernel"))
        .def("set_arg", &set_argument, nb::arg("index"), nb::arg("value"))
        .def("start", &running::start, release_gil())
        .def("wait", &running::wait, nb::arg("timeout_ms") = 0, release_gil())
        .def("execute_io", &execute_io, nb::arg("inputs"), nb::arg("outputs"), nb::arg("bo"), nb::arg("timeout_ms") = 0)
        .def(
            "launchable",
            [](running& self, const buffer& memory) { return hand_over(std::make_unique<xrt_launch>(self, memory)); },
            nb::arg("bo"))
        .def_prop_rw(
            "reads_status", [](const running& self) { return self.reads_status.load(); },
            [](running& self, bool wanted) { self.reads_status = wanted; })
        .def("abort", &running::abort, release_gil())
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
