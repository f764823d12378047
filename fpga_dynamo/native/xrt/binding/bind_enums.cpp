#include <ert.h>

#include "bindings.hpp"

void bind_enums(nb::module_& module) {
    nb::enum_<ert_cmd_state>(module, "ert_cmd_state")
        .value("ERT_CMD_STATE_NEW", ERT_CMD_STATE_NEW)
        .value("ERT_CMD_STATE_QUEUED", ERT_CMD_STATE_QUEUED)
        .value("ERT_CMD_STATE_RUNNING", ERT_CMD_STATE_RUNNING)
        .value("ERT_CMD_STATE_COMPLETED", ERT_CMD_STATE_COMPLETED)
        .value("ERT_CMD_STATE_ERROR", ERT_CMD_STATE_ERROR)
        .value("ERT_CMD_STATE_ABORT", ERT_CMD_STATE_ABORT)
        .value("ERT_CMD_STATE_SUBMITTED", ERT_CMD_STATE_SUBMITTED)
        .value("ERT_CMD_STATE_TIMEOUT", ERT_CMD_STATE_TIMEOUT)
        .value("ERT_CMD_STATE_NORESPONSE", ERT_CMD_STATE_NORESPONSE)
        .value("ERT_CMD_STATE_SKERROR", ERT_CMD_STATE_SKERROR)
        .value("ERT_CMD_STATE_SKCRASHED", ERT_CMD_STATE_SKCRASHED);
    nb::enum_<xclBOSyncDirection>(module, "xclBOSyncDirection")
        .value("XCL_BO_SYNC_BO_TO_DEVICE", XCL_BO_SYNC_BO_TO_DEVICE)
        .value("XCL_BO_SYNC_BO_FROM_DEVICE", XCL_BO_SYNC_BO_FROM_DEVICE)
        .export_values();
}
