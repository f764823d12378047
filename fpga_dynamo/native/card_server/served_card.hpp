// A card that is served, whatever drives it: the emulator, or XRT. All members throw card_model::error, with a sentence.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ert_command.hpp"
#include "kernel.hpp"

namespace card_server {

struct served_bank {
    std::string tag;
    uint64_t index, bytes, used, buffers;
};

// A buffer in device memory. The caller checks ranges.
class served_buffer {
public:
    virtual ~served_buffer() = default;
    virtual uint64_t address() = 0;
    virtual void put(const void* from, uint64_t bytes, uint64_t offset) = 0;  // from the host
    virtual void fetch(void* to, uint64_t bytes, uint64_t offset) = 0;
    virtual void copy(served_buffer& source, uint64_t bytes, uint64_t source_offset, uint64_t offset) = 0;
    // Hints: memory is about to be used, and the content of a range is of no use any more.
    virtual void populate() {}
    virtual void discard(uint64_t /*bytes*/, uint64_t /*offset*/) {}
};

class served_run {
public:
    virtual ~served_run() = default;
    virtual void set_buffer(uint32_t index, served_buffer& value) = 0;
    virtual void set_scalar(uint32_t index, const void* bytes, size_t count) = 0;

    virtual void start() = 0;
    // The state at the end, or ert_state::timeout after timeout_ms.
    virtual card_model::ert_state wait(unsigned timeout_ms) = 0;
    virtual card_model::ert_state state() = 0;
    virtual card_model::ert_state abort() = 0;
    virtual std::string error() = 0;
    // Inputs into the buffer, start, wait, and if the run completed, outputs from the buffer. A run that takes longer than
    // timeout_ms (0: none) is ended. reads_status: a record in the buffer's first words says whether a list of commands
    // came to its end, which not every card tells itself.
    virtual card_model::ert_state execute(served_buffer& memory, const std::vector<card_model::transfer>& inputs,
                                          const std::vector<card_model::transfer>& outputs, unsigned timeout_ms,
                                          bool reads_status) = 0;

    // When the last start began and ended, on CLOCK_MONOTONIC, and its steps if they were traced.
    virtual std::pair<int64_t, int64_t> times() = 0;
    virtual void trace_steps(bool /*wanted*/) {}
    virtual std::vector<card_model::step_time> steps() { return {}; }
    virtual std::string counters() { return ""; }
};

class served_kernel {
public:
    virtual ~served_kernel() = default;
    virtual uint32_t group_id(uint32_t argument) = 0;
    // Of a scalar argument: what it is called, for messages, and its size. 0 bytes: nothing can be set to it.
    virtual std::pair<std::string, uint64_t> scalar(uint32_t argument) = 0;
    virtual std::unique_ptr<served_run> make_run() = 0;
};

class served_card {
public:
    virtual ~served_card() = default;
    // Configures the card; returns the UUID. name: of the xclbin, for messages.
    virtual std::string load(const std::string& xclbin, const std::string& name) = 0;
    virtual std::string uuid() = 0;
    virtual std::string info(const std::string& what) = 0;  // "bdf", "name" or "offline"
    virtual std::vector<served_bank> memory() = 0;
    virtual std::shared_ptr<served_kernel> open_kernel(const std::string& uuid, const std::string& name) = 0;
    virtual std::shared_ptr<served_buffer> allocate(uint64_t bytes, bool device_only, uint32_t group) = 0;
    // Threads that compute on an emulator.
    virtual unsigned lanes() { return 1; }
};

class card_driver {
public:
    virtual ~card_driver() = default;
    virtual const char* name() const = 0;
    virtual unsigned count() = 0;
    // Whether each session has a card of its own.
    virtual bool has_contexts() const = 0;
    virtual std::shared_ptr<served_card> open(unsigned index) = 0;
};

std::unique_ptr<card_driver> emulated_driver();
std::unique_ptr<card_driver> xrt_driver();  // of builds with FD_WITH_XRT

}  // namespace card_server
