#include "bindings.hpp"
#include "interpreter.hpp"
#include "pyxrt_types.hpp"

NB_MODULE(_xrt, module) {
    module.doc() = "AMD's XRT under pyxrt's names; see _xrt.pyi.";
    nb::set_leak_warnings(false);  // cards are kept for the life of the process
    bind_errors(module);
    bind_enums<ert_cmd_state, xclBOSyncDirection>(module);
    bind_device(module);
    bind_buffer(module);
    bind_kernel(module);
    module.attr("library_directory") = XRT_LIBRARY_DIRECTORY;
    module.def("_shut_down", [] {
        const nb::gil_scoped_release release;
        interpreter_gate::instance().close();
    });
    nb::module_::import_("atexit").attr("register")(module.attr("_shut_down"));
}
