// The extension as a Python module.
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include "allocator.hpp"
#include "autograd_threads.hpp"
#include "fallback.hpp"
#include "generator.hpp"
#include "hooks.hpp"
#include "python_programs.hpp"
#include "tensors.hpp"
#include "traffic.hpp"

namespace py = pybind11;

namespace {

using namespace fpga_device;

// Segments from a Python object: buffer objects of a driver. See fpga_dynamo/device/segments.py.
class driver_memory final : public memory_source {
public:
    explicit driver_memory(py::object segments) : segments_(std::move(segments)) {}

    void* acquire(c10::DeviceIndex index, size_t bytes, std::string* why) override {
        const py::gil_scoped_acquire locked;
        const py::tuple made = segments_.attr("acquire")(index, bytes);
        *why = made[1].cast<std::string>();
        return reinterpret_cast<void*>(made[0].cast<uintptr_t>());
    }

    void release(c10::DeviceIndex index, void* memory) override {
        const py::gil_scoped_acquire locked;
        segments_.attr("release")(index, reinterpret_cast<uintptr_t>(memory));
    }

    std::pair<size_t, size_t> capacity(c10::DeviceIndex index) override {
        const py::gil_scoped_acquire locked;
        return segments_.attr("capacity")(index).cast<std::pair<size_t, size_t>>();
    }

private:
    py::object segments_;
};

// Tells PyTorch of the device. `segments` stays: allocations may come as long as the process.
void start(c10::DeviceIndex count, py::object segments) {
    set_device_count(count);
    set_memory_source(new driver_memory(std::move(segments)));
    register_hooks();
    py::module_::import("atexit").attr("register")(py::cpp_function([] {
        const py::gil_scoped_release unlocked;
        if (!is_forked()) finish_autograd_threads();  // a forked process has none
    }));
    const py::gil_scoped_release unlocked;
    start_autograd_threads();
}

void compile_operators(py::object compiler, int64_t sightings, bool measured) {
    auto made = compiler.is_none() ? nullptr : compile_in_python(std::move(compiler));
    const py::gil_scoped_release unlocked;
    compile_operators_by(std::move(made), sightings, measured);
}

// Bytes by name; `reset` begins to count again.
std::map<std::string, int64_t> take_traffic(bool reset) {
    traffic& now = copied();
    const std::pair<const char*, std::atomic<int64_t>*> rows[] = {{"to_card", &now.to_card},
                                                                  {"from_card", &now.from_card},
                                                                  {"between_cards", &now.between_cards},
                                                                  {"of_results", &now.of_results}};
    std::map<std::string, int64_t> found;
    for (const auto& [name, count] : rows) found[name] = reset ? count->exchange(0) : count->load();
    return found;
}

py::object generator(c10::DeviceIndex index) {
    return py::reinterpret_steal<py::object>(THPGenerator_initDefaultGenerator(default_generator(index)));
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("start", &start, py::arg("count"), py::arg("segments"));
    module.def("is_forked", &is_forked);
    module.def("current_device", [] { return static_cast<int>(current_device()); });
    module.def("set_device", &set_current_device, py::arg("index"));
    module.def("default_generator", &generator, py::arg("index"));
    module.def("host_view", &host_view, py::arg("tensor"));
    module.def("take_fallbacks", &take_fallbacks);
    module.def("count_fallbacks", &count_fallbacks, py::arg("wanted"));
    module.def("compile_operators_by", &compile_operators, py::arg("compiler"), py::arg("sightings"),
               py::arg("measured"));
    using without_lock = py::call_guard<py::gil_scoped_release>;
    module.def("count_operators", &count_operators, without_lock());
    module.def("reset_operator_counts", &reset_operator_counts, without_lock());
    module.def("traffic", &take_traffic, py::arg("reset"));
    module.def("operator_cache_sizes", &operator_cache_sizes, without_lock());
}
