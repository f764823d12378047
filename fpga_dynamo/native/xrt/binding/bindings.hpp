// What the parts of the module _xrt share: XRT's objects with what Python needs beside them.
#pragma once
#include <experimental/xrt_xclbin.h>
#include <nanobind/nanobind.h>
#include <xrt.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#if __has_include(<xrt/xrt_hw_context.h>)
#include <xrt/xrt_hw_context.h>
#define FPGA_DYNAMO_HW_CONTEXT  // XRT 2.15 and later
#endif

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "completion.hpp"
#include "process.hpp"

namespace nb = nanobind;

struct bank_use {
    uint64_t bytes = 0;
    uint64_t buffers = 0;
};

struct kernel;
class running;

// An opened card. Kept for the whole process: closing one frees what its buffers and runs still refer to, and stock
// sw_emu waits there for a process that somebody else may have waited for already.
struct card {
    const unsigned index;
    xrt::device device;
    std::mutex mutex;  // of what follows
    xrt::xclbin loaded;
    std::map<uint32_t, bank_use> banks;  // by memory group
    uint64_t to_device = 0, from_device = 0, runs = 0;

    std::mutex loading;              // one xclbin after the other
    std::atomic<unsigned> loads{0};  // how many there were
    std::mutex opening;              // of what follows
    std::set<kernel*> kernels;       // of the xclbin that it holds now, and their runs
    std::set<running*> runs_of_kernels;

    completion_waiter completions;

    explicit card(unsigned number) : index(number), device(number), completions(handle()) { card_model::watch_forks(); }
    static std::shared_ptr<card> open(unsigned index);
    void* handle() const { return static_cast<xclDeviceHandle>(device); }
    // Before another xclbin is loaded. XRT's kernels refer to the one that they were opened with even when it has gone, and
    // give what they know of it to those of the next. Throws device_error if one of them has a run under way.
    void close_kernels();
};

// An object of XRT's. A forked child leaves it alone: it shares the way to the card with its parent.
template <typename Object>
class fork_safe {
public:
    fork_safe() = default;
    fork_safe(Object object) : object_(std::move(object)) {}
    fork_safe(const fork_safe&) = default;
    fork_safe(fork_safe&&) = default;
    fork_safe& operator=(const fork_safe&) = default;
    fork_safe& operator=(fork_safe&&) = default;
    ~fork_safe() {
        if (card_model::forked()) static_cast<void>(new Object(std::move(object_)));
    }
    Object& get() { return object_; }
    const Object& get() const { return object_; }

private:
    Object object_;
};

struct device {
    std::shared_ptr<card> opened;
};

#ifdef FPGA_DYNAMO_HW_CONTEXT
// A card's resources for one of the xclbins that have been registered with it.
struct context {
    std::shared_ptr<card> owner;
    xrt::uuid id;
    fork_safe<xrt::hw_context> object;
};
#endif

// A buffer and its share of a bank, given back when the last copy goes.
struct buffer {
    struct share;

    std::shared_ptr<card> owner;
    std::shared_ptr<share> memory;
    fork_safe<xrt::bo> object;
    uint8_t* host = nullptr;  // null for device_only
    uint64_t bytes = 0;

    void check(const char* what, uint64_t count, uint64_t offset) const;
    uint8_t* map() const;  // throws device_error if there is no host side
    // What follows wants no GIL, and throws device_error for a range outside.
    void sync(xclBOSyncDirection way, uint64_t count, uint64_t offset) const;
    void write(uint64_t address, uint64_t count, uint64_t offset) const;
    void read(uint64_t address, uint64_t count, uint64_t offset) const;
};

struct argument {
    std::string name;
    bool global = false;
    uint64_t bytes = 0;
};

struct kernel {
    std::shared_ptr<card> owner;
    std::string name;  // without compute units
    std::string unit;  // of the only compute unit that runs use; empty if several may be used
    std::vector<argument> arguments;
    unsigned load = 0;  // of the card, which its xclbin came with; 0 for a context's, which stays
    fork_safe<xrt::kernel> object;

    const argument& at(uint32_t index) const;
    void check_loaded() const;  // throws device_error if the card was given another xclbin since
    ~kernel();
};

void bind_errors(nb::module_& module);
void bind_device(nb::module_& module);
void bind_buffer(nb::module_& module);
void bind_kernel(nb::module_& module);
