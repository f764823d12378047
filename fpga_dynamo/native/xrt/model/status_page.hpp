// Memory that the host process and the device-model process share: what XRT's protocol between them has no words for.
// $FPGA_DYNAMO_MODEL_STATUS is the path of a file of this size, made by the host. Without it runs still work; then a
// run that failed counts as completed, and none can be ended.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace xrt_model {

constexpr const char* STATUS_VARIABLE = "FPGA_DYNAMO_MODEL_STATUS";

// What the file of a buffer is called, for the host to know it by.
constexpr const char* BUFFER_FILE = "fpga-dynamo-buffer";

// The host writes a run's number into this register, which the card's interrupts would have and the model does not use.
constexpr uint32_t RUN_NUMBER_REGISTER = 0x4;

struct failure {
    std::atomic<uint32_t> run;  // written last
    uint32_t state;             // an ert_cmd_state
    char sentence[504];
};

struct status_page {
    static constexpr size_t FAILURES = 64;  // by run number, modulo

    std::atomic<int32_t> model;               // process id, 0 until it has connected
    std::atomic<uint32_t> cancelled_run;      // what the host wants to be ended,
    std::atomic<uint32_t> cancellations;      // and how often it has said so: a futex
    std::atomic<uint32_t> shared_allocation;  // whether the next buffers are memory that host and model share
    failure failures[FAILURES];
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace xrt_model
