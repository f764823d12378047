#include "bindings.hpp"
#include "critical_section.hpp"
#include "pyxrt_types.hpp"

NB_MODULE(_native, module) {
    module.doc() = "The emulator under pyxrt's names; see _native.pyi.";
    // What a daemon thread or a cache of torch still holds at the end of the process is no fault of ours.
    nb::set_leak_warnings(false);
    bind_errors(module);
    bind_enums<card_model::ert_state, card_model::direction>(module);
    bind_device(module);
    bind_buffer(module);
    bind_card_protocol(module);
    bind_kernel(module);
    bind_fingerprint(module);
    bind_critical_section(module);
    bind_bypass(module);
    bind_direct_call(module);
    bind_model(module);
    bind_pack_panels(module);
    bind_scheduling(module);
}
