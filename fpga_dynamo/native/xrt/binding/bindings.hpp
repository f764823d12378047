// What the parts of the module _xrt share: XRT's objects with what Python needs beside them.
#pragma once
#include <experimental/xrt_xclbin.h>
#include <nanobind/nanobind.h>
#include <xrt.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ending.hpp"

namespace nb = nanobind;

struct bank_use {
    uint64_t bytes = 0;
    uint64_t buffers = 0;
};

// An opened card. Kept for the whole process: closing one frees what its buffers and runs still refer to, and stock
// sw_emu waits there for a process that somebody else may have waited for already.
struct card {
    const unsigned index;
    xrt::device device;
    std::mutex mutex;                       // of what follows
    xrt::xclbin loaded;
    std::map<uint32_t, bank_use> banks;     // by memory group
    uint64_t to_device = 0, from_device = 0, runs = 0;

    ending ends;

    explicit card(unsigned number) : index(number), device(number), ends(handle()) {}
    static std::shared_ptr<card> open(unsigned index);
    void* handle() const { return static_cast<xclDeviceHandle>(device); }
};

struct device {
    std::shared_ptr<card> opened;
};

// A buffer and its share of a bank, given back when the last copy goes.
struct buffer {
    struct share;

    std::shared_ptr<card> owner;
    std::shared_ptr<share> memory;
    xrt::bo object;
    uint8_t* host = nullptr;  // null for device_only
    uint64_t bytes = 0;

    void check(const char* what, uint64_t count, uint64_t offset) const;
    uint8_t* map() const;
};

struct argument {
    std::string name;
    bool global = false;
    uint64_t bytes = 0;
};

struct kernel {
    std::shared_ptr<card> owner;
    std::string name;                 // without compute units
    std::string unit;                 // of the only compute unit that runs use; empty if several may be used
    std::vector<argument> arguments;
    xrt::kernel object;

    const argument& at(uint32_t index) const;
};

void bind_errors(nb::module_& module);
void bind_enums(nb::module_& module);
void bind_device(nb::module_& module);
void bind_buffer(nb::module_& module);
void bind_kernel(nb::module_& module);
