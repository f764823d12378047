#include "bindings.hpp"
#include "buffer.hpp"
#include "ert_command.hpp"

using card_model::direction;
using card_model::ert_state;

void bind_enums(nb::module_& module) {
    nb::enum_<ert_state> state(module, "ert_cmd_state");
    for (const ert_state value :
         {ert_state::created, ert_state::queued, ert_state::running, ert_state::completed, ert_state::error,
          ert_state::abort, ert_state::submitted, ert_state::timeout, ert_state::no_response, ert_state::sk_error,
          ert_state::sk_crashed})
        state.value(to_string(value), value);
    nb::enum_<direction>(module, "xclBOSyncDirection")
        .value("XCL_BO_SYNC_BO_TO_DEVICE", direction::to_device)
        .value("XCL_BO_SYNC_BO_FROM_DEVICE", direction::from_device)
        .export_values();
}
