// Runs under XRT's sw_emu driver with the state that each ended in, and waits that time out.
//
// The driver marks every run as completed, in the command's own memory, which the program polls. So it gets a copy of
// the command, and the program's command has the state when the device model has said what became of the run.
#pragma once
#include <ert.h>
#include <xrt.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "status_page.hpp"

namespace sw_emu_driver {

class runs {
public:
    static runs& instance();  // never destroyed: threads of the driver outlive `main`

    void mapped(xclDeviceHandle device, unsigned buffer, void* memory);
    void unmapped(xclDeviceHandle device, unsigned buffer);

    // Tells the device model, for as long as the lock is held, whether buffers are memory that it shares.
    std::unique_lock<std::mutex> announce_allocation(bool shared);

    int submit(xclDeviceHandle device, unsigned buffer);
    // Returns when a command has ended since this thread last returned from here, or after timeout_ms: 1 or 0.
    int wait_for_any(int timeout_ms);

private:
    using key = std::pair<xclDeviceHandle, unsigned>;
    struct copy {
        unsigned buffer;
        ert_packet* packet;
    };
    struct run {
        key command;
        ert_packet* packet;  // of the program; null when its memory has gone
        copy of_driver;
        uint32_t number;
    };

    runs();
    bool take_copy(xclDeviceHandle device, copy* taken);
    int abort(key command, ert_packet* packet);
    void watch();
    bool finish_ended();
    void finish(const run& ended);

    xrt_model::status_page* const status_;
    std::mutex allocation_;
    std::mutex mutex_;  // of what follows
    std::map<key, ert_packet*> memory_;
    std::map<xclDeviceHandle, std::vector<copy>> free_copies_;
    std::vector<run> running_;
    uint32_t last_number_ = 0;
    uint64_t ends_ = 0;
    std::condition_variable submitted_, ended_;
};

}  // namespace sw_emu_driver
