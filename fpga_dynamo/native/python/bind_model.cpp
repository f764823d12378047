#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "driver_device.hpp"
#include "exported_model.hpp"
#include "interpreter.hpp"
#include "model_error.hpp"

namespace {

using shape = std::vector<int64_t>;

// A tensor as Python hands it over; the vectors keep what fd_tensor points to.
struct given_tensor {
    std::string dtype;
    shape sizes, strides;
    uint64_t address;
    fd_tensor view() const {
        const fd::dtype_info* type = fd::dtype_of(dtype);
        if (!type) throw fd::invalid_argument("no input or output of a model has dtype '" + dtype + "'");
        return {type->code, static_cast<int32_t>(sizes.size()), sizes.data(), strides.data(),
                reinterpret_cast<void*>(address)};
    }
};

std::vector<given_tensor> tensors(nb::sequence rows) {
    std::vector<given_tensor> result;
    for (const nb::handle row : rows)
        result.push_back({nb::cast<std::string>(row[0]), nb::cast<shape>(row[1]), nb::cast<shape>(row[2]),
                          nb::cast<uint64_t>(row[3])});
    return result;
}

std::vector<fd_tensor> views(const std::vector<given_tensor>& given) {
    std::vector<fd_tensor> result;
    for (const given_tensor& one : given) result.push_back(one.view());
    return result;
}

nb::list ports(const std::vector<fd::model::port>& all) {
    nb::list result;
    for (const fd::model::port& one : all)
        result.append(nb::make_tuple(one.name, one.type->name, nb::cast(one.shape), nb::cast(one.strides)));
    return result;
}

// Each class of errors that Python tells apart.
void translate(const std::exception_ptr& pointer, void* types) {
    try {
        std::rethrow_exception(pointer);
    } catch (const fd::model_error& error) {
        const bool device = error.status() == FD_DEVICE_ERROR || error.status() == FD_TIMEOUT;
        PyErr_SetString(device ? static_cast<PyObject*>(types) : PyExc_ValueError, error.what());
    }
}

}  // namespace

void bind_model(nb::module_& module) {
    // The module has the C API too, for programs that load it as a library.
    module.attr("EXPORTED_MODEL_API") = fd_api_version();
    const nb::object device = nb::module_::import_("fpga_dynamo.errors").attr("DeviceError");
    nb::register_exception_translator(translate, nb::object(device).release().ptr());
    nb::class_<fd::model>(module, "exported_model")
        .def(
            "__init__",
            [](fd::model* self, const std::string& directory, unsigned index, unsigned timeout_ms, bool check,
               nb::object through) {
                fd::open_options options{index, timeout_ms, check};
                if (!through.is_none()) options.open = driver_opener(through);
                without_gil release;
                new (self) fd::model(directory, options);
            },
            nb::arg("directory"), nb::kw_only(), nb::arg("device"), nb::arg("timeout_ms"), nb::arg("check_weights"),
            nb::arg("through") = nb::none())
        .def_prop_ro("inputs", [](const fd::model& self) { return ports(self.inputs()); })
        .def_prop_ro("outputs", [](const fd::model& self) { return ports(self.outputs()); })
        .def("output_layouts",
             [](fd::model& self, nb::sequence inputs) {
                 const auto given = tensors(inputs);
                 nb::list result;
                 for (const auto& [sizes, strides] : self.output_layouts(views(given)))
                     result.append(nb::make_tuple(nb::cast(sizes), nb::cast(strides)));
                 return result;
             })
        .def("run",
             [](fd::model& self, nb::sequence inputs, nb::sequence outputs) {
                 const auto from = tensors(inputs), to = tensors(outputs);
                 without_gil release;
                 const auto read = views(from), written = views(to);
                 self.run(read.data(), read.size(), written.data(), written.size());
             })
        .def("load_weights", [](fd::model& self, const std::string& path) {
            without_gil release;
            self.load_weights(path);
        });
}
