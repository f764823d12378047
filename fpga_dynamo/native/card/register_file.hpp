// The registers of a compute unit as the host reads and writes them, while a kernel runs or when it does not.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "card_abi.hpp"

namespace card_model {

// A plain kernel has its arguments here from its start on, and its results from its end on.
//
// The host exchanges arguments and results with a kernel that has a mailbox while it runs. It releases a side: it writes 1 to
// bit 0 of the side's control register. It may use that side again when bit 1 is 0. Then the kernel has begun a run with the
// arguments, or has ended one that began after the release. XRT 2.13 does not look at bit 1 after a release, because a
// kernel on a card is faster than the bus; so the write that releases a side waits for the kernel, PATIENCE_MS at most. A
// kernel that restarts by itself begins another run until the host writes 0 to the counter. Offsets and bits are those of
// XRT 2.13 (core/common/api/xrt_kernel.cpp).
class register_file {
public:
    static constexpr uint32_t CONTROL = 0x0, RESTARTS = 0x10, ARGUMENTS_CONTROL = 0x14, RESULTS_CONTROL = 0x18;
    static constexpr uint32_t RELEASED = 1, BUSY = 2;
    static constexpr int PATIENCE_MS = 200;

    // bytes: of the registers that the kernel has, a multiple of 4 of at most CU_REGISTER_BYTES.
    register_file(bool has_mailbox, bool restarts, uint32_t bytes)
        : mailbox_(has_mailbox), restarts_(restarts), bytes_(bytes) {}

    // For the host. `active`: whether a run waits or is under way. The offset is a multiple of 4 inside of the map.
    uint32_t read(uint32_t offset, bool active) const;
    void write(uint32_t offset, uint32_t value, const std::atomic<size_t>& load);

    // For the thread of a run; `own`: the registers of its start, CU_REGISTER_BYTES long.
    void begin_start(const uint8_t* own);  // once, before the first run of a start
    void begin_run(uint8_t* own);          // before each run: its arguments
    bool end_run(const uint8_t* own);      // behind each run; whether another one begins
    void end_start();                      // nobody waits for the kernel any more

private:
    struct side {
        uint32_t released = 0;
        bool busy = false;
        uint32_t control() const { return released | (busy ? BUSY : 0); }
    };

    const bool mailbox_, restarts_;
    const uint32_t bytes_;
    mutable std::mutex mutex_;
    std::condition_variable exchanged_;
    alignas(8) uint8_t host_[fpga::CU_REGISTER_BYTES] = {};       // as the host sees them
    alignas(8) uint8_t arguments_[fpga::CU_REGISTER_BYTES] = {};  // as the kernel with a mailbox does
    side of_arguments_, of_results_;
    bool is_result_[fpga::CU_REGISTER_BYTES / 4] = {};  // of a kernel with a mailbox: has it changed this word?
    bool results_wanted_ = false;                       // since before the present run
};

}  // namespace card_model
