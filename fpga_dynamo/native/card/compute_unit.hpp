// A compute unit: takes one command at a time, on its own thread or on that of a caller who waits anyway.
#pragma once
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "address_space.hpp"
#include "card_abi.hpp"
#include "ert_command.hpp"
#include "kernel_code.hpp"
#include "kernel_thread.hpp"
#include "lanes.hpp"
#include "register_file.hpp"
#include "xclbin.hpp"

namespace card_model {

class compute_unit {
public:
    // Throws error if `code` does not have the kernel.
    // streams: an entry for each argument; empty if the kernel has none.
    compute_unit(const kernel_info& kernel, compute_unit_info info, kernel_code& code, lane_team& team, size_t board,
                 const address_space& memory, std::vector<fpga::cu_stream> streams);
    ~compute_unit();
    compute_unit(const compute_unit&) = delete;
    compute_unit& operator=(const compute_unit&) = delete;

    const std::string& name() const { return info_.name; }
    const compute_unit_info& info() const { return info_; }
    bool free_running() const { return kernel_.free_running; }
    // Whether the host reads and writes registers while a run is under way.
    bool has_live_registers() const { return kernel_.has_mailbox || kernel_.restarts; }
    // Its registers as the host sees them; the offset is a multiple of 4 below CU_REGISTER_BYTES.
    uint32_t read_register(uint32_t offset) const { return registers_.read(offset, load() > 0); }
    void write_register(uint32_t offset, uint32_t value) { registers_.write(offset, value, load_); }
    // Starts a kernel without control registers. Nobody waits for it, so its failure is printed.
    void run_for_ever();
    // Commands that it has, for choosing the least loaded.
    size_t load() const { return load_.load(std::memory_order_relaxed); }

    unsigned lanes() const { return team_.lanes(); }
    // Has the lanes ready for a command that will come within microseconds.
    void wake_lanes() { team_.announce(); }

    // Runs the command on this unit's thread, after those that wait already.
    void enqueue(std::shared_ptr<ert_command> command);
    // Runs it on the calling thread if the unit is idle and the thread's stack is large enough; else false, and nothing
    // has happened. A run that takes longer than timeout_ms (0: no limit) ends as ert_state::timeout.
    bool execute(ert_command& command, unsigned timeout_ms);
    // The same for one that has been enqueued; false if it is not the next one of an idle unit, and nothing has happened.
    bool execute_queued(const ert_command& command, unsigned timeout_ms);

    // Ends a command that waits or runs; it ends as `as` unless it ends by itself first.
    void cancel(ert_command& command, ert_state as);
    void cancel_running(ert_command& command, ert_state as);  // leaves one that waits alone
    void cancel_all();

    // Access by kernel objects: many shared ones or a single exclusive one. Throws error.
    void open(bool exclusive);
    void close();

private:
    struct activity;
    class step_clock;
    void serve();
    void perform(ert_command& command);
    void load_code();  // throws error
    bool must_run_on_own_thread() const;
    void step_through(activity& a);
    void run_once(activity& a);
    // The steps from the next one on. may_borrow: PyTorch's threads may take the place of helpers.
    void run_steps(activity& a, step_clock& clock, bool may_borrow);
    void interrupt_running(ert_command& command, ert_state as);  // with mutex_ held

    const kernel_info& kernel_;
    const compute_unit_info info_;
    kernel_code& code_;
    const size_t stack_;  // that the kernel takes of a thread's
    // This unit's copy of the code, from the first run on, and the kernel in it: for whoever runs a command.
    std::shared_ptr<shared_object> copy_;
    const fpga::cu_entry* entry_ = nullptr;
    fpga::counters_function counters_ = nullptr;  // null if the kernel does not count
    lane_team& team_;
    const size_t board_;
    const address_space& memory_;
    const std::vector<fpga::cu_stream> streams_;

    register_file registers_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::shared_ptr<ert_command>> queue_;
    ert_command* current_ = nullptr;  // running, on executor_
    pthread_t executor_{};
    kernel_thread thread_;  // started by the first enqueue
    bool stopping_ = false;
    std::atomic<size_t> load_{0};
    int shared_users_ = 0;
    bool exclusive_user_ = false;
};

}  // namespace card_model
