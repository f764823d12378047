// The C entry points of XRT's sw_emu driver that behave otherwise here. `xrt_NAME` is the driver's own.
#include <xrt.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "runs.hpp"

using sw_emu_driver::runs;

extern "C" {

xclDeviceHandle xrt_xclOpen(unsigned index, const char* log, xclVerbosityLevel level);
void xrt_xclClose(xclDeviceHandle device);
xclBufferHandle xrt_xclAllocBO(xclDeviceHandle device, size_t bytes, int unused, unsigned flags);
xclBufferExportHandle xrt_xclExportBO(xclDeviceHandle device, xclBufferHandle buffer);
int xrt_xclLoadXclBin(xclDeviceHandle device, const xclBin* content);
void* xrt_xclMapBO(xclDeviceHandle device, xclBufferHandle buffer, bool write);
int xrt_xclUnmapBO(xclDeviceHandle device, xclBufferHandle buffer, void* address);

}  // extern "C"

// Of the driver, but in no header that is installed.
size_t xclCopyBufferDevice2Host(xclDeviceHandle device, void* target, uint64_t address, size_t bytes, size_t offset);
size_t xclCopyBufferHost2Device(xclDeviceHandle device, uint64_t address, const void* source, size_t bytes,
                                size_t offset);

namespace {

constexpr unsigned SHARED = XCL_BO_FLAGS_HOST_ONLY | XCL_BO_FLAGS_P2P;

// How often each card is open.
struct open_cards {
    std::mutex mutex;
    std::map<unsigned, xclDeviceHandle> by_index;
    std::map<xclDeviceHandle, unsigned> opened;

    static open_cards& instance() {
        static open_cards& only = *new open_cards;
        return only;
    }
};

// The device model starts with what this sets.
__attribute__((constructor)) void begin() { runs::instance(); }

}  // namespace

extern "C" {

// The driver has one handle for a card, and would destroy what the first who opened it uses.
xclDeviceHandle xclOpen(unsigned index, const char* log, xclVerbosityLevel level) {
    open_cards& cards = open_cards::instance();
    std::lock_guard lock(cards.mutex);
    const auto known = cards.by_index.find(index);
    if (known != cards.by_index.end()) {
        ++cards.opened[known->second];
        return known->second;
    }
    xclDeviceHandle device = xrt_xclOpen(index, log, level);
    if (!device) return nullptr;
    cards.by_index[index] = device;
    cards.opened[device] = 1;
    return device;
}

void xclClose(xclDeviceHandle device) {
    open_cards& cards = open_cards::instance();
    std::lock_guard lock(cards.mutex);
    const auto known = cards.opened.find(device);
    if (known == cards.opened.end() || --known->second > 0) return;
    cards.opened.erase(known);
    for (auto each = cards.by_index.begin(); each != cards.by_index.end(); ++each)
        if (each->second == device) {
            cards.by_index.erase(each);
            break;
        }
    xrt_xclClose(device);
}

// Otherwise the driver unmaps what it has ever mapped, though XRT goes on using its command buffers.
int xclLoadXclBin(xclDeviceHandle device, const xclBin* content) {
    static std::mutex one_by_one;
    std::lock_guard lock(one_by_one);
    constexpr const char* FORGET_MAPPINGS = "VITIS_SW_EMU_ENABLE_SINGLE_MMAP";
    setenv(FORGET_MAPPINGS, "1", 1);
    const int code = xrt_xclLoadXclBin(device, content);
    unsetenv(FORGET_MAPPINGS);
    return code;
}

// Buffers of these kinds are one memory for the program and the device model.
xclBufferHandle xclAllocBO(xclDeviceHandle device, size_t bytes, int unused, unsigned flags) {
    const auto allocation = runs::instance().announce_allocation(flags & SHARED);
    return xrt_xclAllocBO(device, bytes, unused, flags);
}

// The driver's own copies on its stack, and adds offsets twice. The device model reaches all kinds of buffers.
int xclCopyBO(xclDeviceHandle device, xclBufferHandle target, xclBufferHandle source, size_t bytes, size_t to,
              size_t from) {
    xclBOProperties of_target{}, of_source{};
    if (xclGetBOProperties(device, target, &of_target) || xclGetBOProperties(device, source, &of_source))
        return -EINVAL;
    constexpr size_t LARGEST = size_t{4} << 20;
    std::vector<char> part(std::min(LARGEST, bytes));
    for (size_t done = 0; done < bytes; done += part.size()) {
        const size_t size = std::min(part.size(), bytes - done);
        if (xclCopyBufferDevice2Host(device, part.data(), of_source.paddr + from + done, size, 0) != size ||
            xclCopyBufferHost2Device(device, of_target.paddr + to + done, part.data(), size, 0) != size)
            return -EIO;
    }
    return 0;
}

// Of a buffer that is not shared memory, what others get is the program's side.
xclBufferExportHandle xclExportBO(xclDeviceHandle device, xclBufferHandle buffer) {
    xclBOProperties of{};
    if (xclGetBOProperties(device, buffer, &of) == 0 && !(of.flags & SHARED))
        xclSyncBO(device, buffer, XCL_BO_SYNC_BO_FROM_DEVICE, of.size, 0);
    return xrt_xclExportBO(device, buffer);
}

void* xclMapBO(xclDeviceHandle device, xclBufferHandle buffer, bool write) {
    void* memory = xrt_xclMapBO(device, buffer, write);
    if (memory) runs::instance().mapped(device, buffer, memory);
    return memory;
}

int xclUnmapBO(xclDeviceHandle device, xclBufferHandle buffer, void* address) {
    runs::instance().unmapped(device, buffer);
    return xrt_xclUnmapBO(device, buffer, address);
}

int xclExecBuf(xclDeviceHandle device, xclBufferHandle buffer) { return runs::instance().submit(device, buffer); }
int xclExecWait(xclDeviceHandle, int timeout_ms) { return runs::instance().wait_for_any(timeout_ms); }

}  // extern "C"
