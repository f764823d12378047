// A run of a kernel: XRT's, with time-outs that end, errors with a sentence, and buffers that stay while it is under way.
#pragma once
#include <ert.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "launchable.hpp"

class running {
public:
    explicit running(std::shared_ptr<kernel> kernel);
    ~running();  // a run under way goes on; what it needs stays until it has ended
    running(const running&) = delete;
    running& operator=(const running&) = delete;

    // Lets go of runs that have ended and that nobody refers to any more. Throws device_error if one of this card has not.
    static void check_left(const card& owner);
    // When another xclbin takes the place of the kernel's: see card::close_kernels. What the last run came to is kept.
    void check_closable() const;
    void close();

    const kernel& of() const { return *kernel_; }
    void set_buffer(uint32_t index, const buffer& value);
    void set_scalar(uint32_t index, const void* bytes, size_t count);

    // These want no GIL.
    void start();
    // The state at the end, or ERT_CMD_STATE_TIMEOUT after timeout_ms (0: never).
    ert_cmd_state wait(unsigned timeout_ms);
    // Syncs the inputs' part of the buffer, starts, waits, and syncs the outputs' part if the run completed. One that takes
    // longer than timeout_ms is ended: see abort.
    ert_cmd_state execute(const buffer& memory, extent inputs, extent outputs, unsigned timeout_ms);
    // Whether `execute` looks at the status record in the first words of its memory. On a card nothing else tells that a
    // command list has not come to its end (hls_kernels/command.hpp, STATUS_*).
    std::atomic<bool> reads_status{false};
    // Ends the run. A card that does not within a few seconds leaves it running, which the state returned says.
    ert_cmd_state abort();
    ert_cmd_state state() const;
    std::string error() const;
    // Called with the state at each end, on a thread of its own; at once if there has been one.
    void add_callback(std::function<void(ert_cmd_state)> function);

    std::string compute_unit() const { return started_ ? kernel_->unit : ""; }
    int64_t start_ns() const { return start_ns_; }
    int64_t stop_ns() const { return stop_ns_; }

private:
    bool ended() const;
    void finish();  // tells XRT that the run has ended, without which it refuses to start it again
    void watch();   // on a thread of its own, for the callbacks
    bool has_succeeded(const buffer& memory);  // by the status record

    std::shared_ptr<kernel> kernel_;
    fork_safe<xrt::run> object_;
    ert_packet* packet_;   // the command, in memory of XRT's
    ert_packet closed_{};  // its head, once the run is closed
    std::string closed_error_;
    std::vector<buffer> buffers_;  // per argument, as of the next start
    std::vector<buffer> latched_;  // of the last start
    std::vector<bool> set_;
    std::mutex mutex_;  // of starts and ends
    std::atomic<bool> started_{false};
    bool finished_ = true;              // XRT knows of the end
    bool overdue_ = false;              // a wait for the last start has timed out
    std::atomic<uint64_t> refused_{0};  // the status record of the last start, if that was not success
    std::vector<std::function<void(ert_cmd_state)>> callbacks_;
    std::atomic<int64_t> start_ns_{0}, stop_ns_{0};
};
