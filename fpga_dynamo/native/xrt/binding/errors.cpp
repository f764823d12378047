#include <dlfcn.h>

#include <cerrno>
#include <new>
#include <system_error>

#include "bindings.hpp"
#include "checked.hpp"

namespace {

// Leaked on purpose: exceptions may still be thrown while the interpreter shuts down.
struct error_types {
    PyObject *device, *xclbin, *memory;
};
error_types types;

void translate(const std::exception_ptr& pointer, void*) {
    try {
        std::rethrow_exception(pointer);
    } catch (const xclbin_error& e) {
        PyErr_SetString(types.xclbin, e.what());
    } catch (const memory_error& e) {
        PyErr_SetString(types.memory, e.what());
    } catch (const device_error& e) {
        PyErr_SetString(types.device, e.what());
    }
}

std::string advice(int code) {
    switch (code < 0 ? -code : code) {
        case EBUSY:
            return " (another process uses the card with another xclbin, or exclusively: end it, or use another card)";
        case EPERM:
        case EACCES: return " (this user may not use the card: see `fpga-dynamo doctor`)";
        case ENODEV: return " (the card does not exist, or it was removed: see `fpga-dynamo devices`)";
        default: return "";
    }
}

}  // namespace

std::string driver_sentence() {
    using function = const char* (*)();
    static const auto last = reinterpret_cast<function>(dlsym(RTLD_DEFAULT, "fpga_dynamo_last_error"));
    return last ? last() : "";
}

void rethrow(const std::string& what) {
    const std::string sentence = driver_sentence();
    const auto text = [&](const char* reason) { return what + ": " + (sentence.empty() ? reason : sentence); };
    try {
        throw;
    } catch (const std::bad_alloc&) {
        throw memory_error(
            text("the bank has not enough free memory; free buffers, or use a smaller batch or another bank"));
    } catch (const std::system_error& reason) {
        const int code = reason.code().value();
        if (code == ENOMEM || code == -ENOMEM) throw memory_error(text(reason.what()));
        throw device_error(text(reason.what()) + advice(code));
    } catch (const std::exception& reason) {
        throw device_error(text(reason.what()));
    }
}

void bind_errors(nb::module_& module) {
    const nb::module_ emulated = nb::module_::import_("fpga_dynamo._native");
    const nb::object device = nb::module_::import_("fpga_dynamo.errors").attr("DeviceError");
    const nb::object xclbin = emulated.attr("XclbinError"), memory = emulated.attr("DeviceMemoryError");
    types = {nb::object(device).release().ptr(), nb::object(xclbin).release().ptr(),
             nb::object(memory).release().ptr()};
    module.attr("DeviceMemoryError") = memory;
    module.attr("XclbinError") = xclbin;
    nb::register_exception_translator(translate, nullptr);
}
