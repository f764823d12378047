// Kernels and runs as XRT's native API has them (xrt::kernel, xrt::run).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "buffer.hpp"
#include "card.hpp"
#include "ert_command.hpp"

namespace card_model {

// Tensors that a core may read and write in the host's memory: of so many bytes at least, and whole memory beats, which
// no vector passes the end of. Below, a copy costs next to nothing.
constexpr uint64_t WINDOW_BYTES = 16 * 1024;
constexpr uint64_t WINDOW_BEAT = 64;

enum class access_mode { exclusive = 0, shared = 1, none = 2 };

class kernel {
public:
    // name: "vadd", or "vadd:{vadd_1,vadd_3}" for some of its compute units. Throws error if the card has another
    // xclbin than `id`, or there is no such kernel or unit.
    kernel(std::shared_ptr<card> card, const uuid& id, const std::string& name, access_mode mode);
    ~kernel();
    kernel(const kernel&) = delete;
    kernel& operator=(const kernel&) = delete;

    const kernel_info& info() const { return *info_; }
    const argument_info& argument(uint32_t index) const;  // throws error
    // The bank that buffers for this argument must lie in. Throws error for a scalar.
    uint32_t group_id(uint32_t index) const;
    const std::vector<compute_unit*>& units() const { return units_; }
    const std::shared_ptr<card>& owner() const { return card_; }
    const std::shared_ptr<image>& program() const { return image_; }
    void check_startable() const;

private:
    void select_units(const std::string& list);

    std::shared_ptr<card> card_;
    std::shared_ptr<image> image_;
    const kernel_info* info_;
    std::vector<compute_unit*> units_;
    access_mode mode_;
};

// One piece of host memory and its place in a buffer.
struct transfer {
    uint64_t host;  // address
    uint64_t bytes;
    uint64_t offset;
};

class run {
public:
    explicit run(std::shared_ptr<kernel> kernel);
    ~run();  // a run under way goes on; what it needs stays
    run(const run&) = delete;
    run& operator=(const run&) = delete;

    const kernel& of() const { return *kernel_; }
    void set_buffer(uint32_t index, const buffer& value);
    void set_scalar(uint32_t index, const void* bytes, size_t count);

    // To be called shortly before a start: wakes the lanes if the last start has used them.
    void announce();
    void start();
    // The state when the run has ended, or ert_state::timeout when timeout_ms (0: none) has passed; the run goes on
    // then, as it does in XRT.
    ert_state wait(unsigned timeout_ms) const;
    // start and wait in one, on the calling thread if a compute unit is idle. A run that takes longer is ended.
    ert_state execute(unsigned timeout_ms);
    // Inputs to the buffer, execute, and if that completed, outputs from it. Large ones are read and written where they
    // are in the host's memory, if the kernel can do that.
    ert_state execute_io(const buffer& memory, const std::vector<transfer>& inputs,
                         const std::vector<transfer>& outputs, unsigned timeout_ms);
    ert_state abort();

    // Has later starts note when each of their steps began and ended.
    void trace_steps(bool wanted) { trace_steps_.store(wanted, std::memory_order_relaxed); }
    // Of the last start; empty unless it was traced. Throws error while the run is under way.
    const std::vector<step_time>& steps() const;
    // What a kernel that counts has counted in the last start, as JSON; empty if it does not, or has not completed.
    // Throws error while the run is under way.
    const std::string& counters() const;

    ert_command& command() { return *command_; }
    const ert_command& command() const { return *command_; }

private:
    ert_state execute_with(std::vector<fpga::cu_window> windows, unsigned timeout_ms);
    void latch(std::vector<fpga::cu_window> windows);
    compute_unit& least_loaded() const;

    std::shared_ptr<kernel> kernel_;
    std::shared_ptr<ert_command> command_;
    std::vector<uint8_t> registers_;                    // as set by the host; the command has what was latched
    std::vector<std::shared_ptr<allocation>> buffers_;  // per argument
    std::vector<bool> set_;
    std::vector<compute_unit*> units_;  // those wired to the banks of the buffers
    compute_unit* unit_ = nullptr;      // that has or had the command
    std::atomic<bool> trace_steps_{false};
    std::atomic<bool> windows_refused_{false};  // for the commands of its argument
    std::mutex start_mutex_;
};

}  // namespace card_model
