#include "bindings.hpp"
#include "error.hpp"

namespace {

// Leaked on purpose: exceptions may still be thrown while the interpreter shuts down.
struct error_types {
    PyObject *device, *xclbin, *memory, *command;
};
error_types types;

PyObject* derive(nb::module_& module, const char* name, const char* doc, nb::tuple bases) {
    const std::string qualified = std::string("fpga_dynamo._native.") + name;
    PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, bases.ptr(), nullptr);
    if (!type) nb::raise_python_error();
    module.attr(name) = nb::handle(type);
    return type;
}

void translate(const std::exception_ptr& pointer, void*) {
    try {
        std::rethrow_exception(pointer);
    } catch (const card_model::xclbin_error& e) {
        PyErr_SetString(types.xclbin, e.what());
    } catch (const card_model::out_of_memory& e) {
        PyErr_SetString(types.memory, e.what());
    } catch (const card_model::command_error& e) {
        PyErr_SetString(types.command, e.what());
    } catch (const card_model::error& e) {
        PyErr_SetString(types.device, e.what());
    }
}

}  // namespace

void bind_errors(nb::module_& module) {
    const nb::object device = nb::module_::import_("fpga_dynamo.errors").attr("DeviceError");
    types.device = nb::object(device).release().ptr();
    types.xclbin = derive(module, "XclbinError", "The file is not an xclbin, or not one that the emulator supports.",
                          nb::make_tuple(device));
    types.memory = derive(module, "DeviceMemoryError", "A memory bank of the card has no room left.",
                          nb::make_tuple(device, nb::handle(PyExc_MemoryError)));
    types.command = derive(module, "CommandError", "A run ended in a state other than ERT_CMD_STATE_COMPLETED.",
                           nb::make_tuple(device));
    nb::register_exception_translator(translate, nullptr);
}
