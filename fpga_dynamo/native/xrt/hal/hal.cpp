// The C entry points by which libxrt_coreutil drives a card (xrt.h), for the emulator. XRT loads this library as
// its driver when [Runtime] sw_em_driver names it.
#include <ert.h>
#include <unistd.h>
#include <xrt.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "error.hpp"
#include "hal_card.hpp"

namespace xrt_core {
class device;
std::shared_ptr<device> get_userpf_device(void* handle, unsigned int index);
namespace query {
enum class key_type { m2m = 60 };  // the place in XRT 2.13's list
}
}  // namespace xrt_core

// By which the parts of libxrt_swemu.a that this library takes over ask what a platform has.
namespace xclcpuemhal2 {
struct CpuemShim {
    static CpuemShim* handleCheck(void* handle);
    int deviceQuery(xrt_core::query::key_type key);
};
CpuemShim* CpuemShim::handleCheck(void* handle) { return static_cast<CpuemShim*>(handle); }
// It copies between buffers, so buffers without a host side can be copied, too.
int CpuemShim::deviceQuery(xrt_core::query::key_type key) { return key == xrt_core::query::key_type::m2m; }
}  // namespace xclcpuemhal2

// xrt_core::device::register_axlf, of which no header is installed.
extern "C" void register_axlf(void* device, const axlf* xclbin) __asm__("_ZN8xrt_core6device13register_axlfEPK4axlf");

// What those parts call and the emulator does not have (AI engines, profiling) is defined as this at link time.
extern "C" int fpga_dynamo_not_supported() { return -EOPNOTSUPP; }

namespace {

using card_model::direction;
using xrt_hal::hal_card;

// What XRT holds of an opened card.
struct device_handle {
    hal_card& card;
    std::shared_ptr<xrt_core::device> core;
};

hal_card& of(xclDeviceHandle handle) { return static_cast<device_handle*>(handle)->card; }

constexpr uint64_t GIBIBYTE = uint64_t{1} << 30;

}  // namespace

// xclCloseExportHandle(int) of C++, which no header that is installed declares.
extern "C" int close_export_handle(xclBufferExportHandle file) __asm__("_Z20xclCloseExportHandlei");
extern "C" int close_export_handle(xclBufferExportHandle file) { return ::close(file); }

extern "C" {

unsigned xclProbe() {
    static const int registered = std::atexit(card_model::card::shut_down);  // or a kernel that hangs outlives main
    static_cast<void>(registered);
    try {
        return card_model::card::count();
    } catch (const card_model::error& reason) {
        xrt_hal::set_last_error(reason.what());
        return 0;
    }
}

unsigned int xclVersion() { return 2; }

xclDeviceHandle xclOpen(unsigned index, const char*, xclVerbosityLevel) {
    try {
        auto handle = std::make_unique<device_handle>(device_handle{hal_card::of(index), nullptr});
        handle->core = xrt_core::get_userpf_device(handle.get(), index);
        return handle.release();
    } catch (const card_model::error& reason) {
        xrt_hal::set_last_error(reason.what());
        return nullptr;
    }
}

// The handle itself stays: XRT may ask for its buffers' properties still.
void xclClose(xclDeviceHandle handle) { static_cast<device_handle*>(handle)->core.reset(); }

int xclGetDeviceInfo2(xclDeviceHandle handle, xclDeviceInfo2* info) {
    std::memset(info, 0, sizeof *info);
    const auto image = of(handle).card().try_loaded();
    const std::string name = image ? image->file().platform() : "fpga_dynamo emulator";
    std::strncpy(info->mName, name.c_str(), sizeof info->mName - 1);
    info->mDDRBankCount = 1;
    info->mDDRSize = 16 * GIBIBYTE;
    info->mDataAlignment = card_model::PAGE;
    return 0;
}

int xclLoadXclBin(xclDeviceHandle handle, const axlf* xclbin) {
    const int code = of(handle).load(xclbin, xclbin->m_header.m_length);
    if (code == 0) register_axlf(static_cast<device_handle*>(handle)->core.get(), xclbin);
    return code;
}

xclBufferHandle xclAllocBO(xclDeviceHandle handle, size_t bytes, int, unsigned flags) {
    return of(handle).allocate(bytes, flags, nullptr);
}

xclBufferHandle xclAllocUserPtrBO(xclDeviceHandle handle, void* user, size_t bytes, unsigned flags) {
    return of(handle).allocate(bytes, flags, user);
}

void xclFreeBO(xclDeviceHandle handle, xclBufferHandle buffer) { of(handle).release(buffer); }

void* xclMapBO(xclDeviceHandle handle, xclBufferHandle buffer, bool) {
    const auto object = of(handle).find(buffer);
    return object ? object->host : nullptr;
}

int xclUnmapBO(xclDeviceHandle, xclBufferHandle, void*) { return 0; }

int xclSyncBO(xclDeviceHandle handle, xclBufferHandle buffer, xclBOSyncDirection way, size_t bytes, size_t offset) {
    return of(handle).sync(buffer, way == XCL_BO_SYNC_BO_TO_DEVICE ? direction::to_device : direction::from_device,
                           bytes, offset);
}

int xclCopyBO(xclDeviceHandle handle, xclBufferHandle target, xclBufferHandle source, size_t bytes, size_t to,
              size_t from) {
    return of(handle).copy(target, source, bytes, to, from);
}

int xclGetBOProperties(xclDeviceHandle handle, xclBufferHandle buffer, xclBOProperties* properties) {
    const auto object = of(handle).find(buffer);
    if (!object) return -EINVAL;
    properties->handle = buffer;
    properties->flags = object->flags;
    properties->size = object->bytes;
    properties->paddr = object->memory ? object->memory->address() : 0;
    return 0;
}

int xclExecBuf(xclDeviceHandle handle, xclBufferHandle command) { return of(handle).submit(command); }
int xclExecWait(xclDeviceHandle, int timeout_ms) { return hal_card::wait_for_any(timeout_ms); }

int xclOpenContext(xclDeviceHandle, const xuid_t, unsigned, bool) { return 0; }
int xclCloseContext(xclDeviceHandle, const xuid_t, unsigned) { return 0; }

xclBufferExportHandle xclExportBO(xclDeviceHandle handle, xclBufferHandle buffer) {
    const int file = of(handle).export_buffer(buffer);
    return file < 0 ? XRT_NULL_BO_EXPORT : file;
}
xclBufferHandle xclImportBO(xclDeviceHandle handle, xclBufferExportHandle file, unsigned) {
    const unsigned buffer = of(handle).import_buffer(file);
    return buffer == hal_card::NO_BUFFER ? XRT_NULL_BO : buffer;
}

int xclRegWrite(xclDeviceHandle handle, uint32_t unit, uint32_t offset, uint32_t value) {
    return of(handle).write_register(unit, offset, value);
}
int xclRegRead(xclDeviceHandle handle, uint32_t unit, uint32_t offset, uint32_t* value) {
    return of(handle).read_register(unit, offset, *value);
}
// A process has no streams, and reaches registers by the number of their unit.
size_t xclWrite(xclDeviceHandle, xclAddressSpace, uint64_t, const void*, size_t) { return static_cast<size_t>(-1); }
size_t xclRead(xclDeviceHandle, xclAddressSpace, uint64_t, void*, size_t) { return static_cast<size_t>(-1); }
ssize_t xclUnmgdPwrite(xclDeviceHandle, unsigned, const void*, size_t, uint64_t) { return -1; }
ssize_t xclUnmgdPread(xclDeviceHandle, unsigned, void*, size_t, uint64_t) { return -1; }
int xclP2pEnable(xclDeviceHandle, bool, bool) { return -EOPNOTSUPP; }
int xclReClock2(xclDeviceHandle, unsigned short, const uint16_t*) { return -EOPNOTSUPP; }

// Ours, found by name: a run in one call, and what XRT's errno and state leave unsaid.
__attribute__((visibility("default"))) bool fpga_dynamo_execute(xclDeviceHandle handle, const void* packet,
                                                                unsigned timeout_ms) {
    return of(handle).execute(packet, timeout_ms);
}
__attribute__((visibility("default"))) const char* fpga_dynamo_last_error() { return xrt_hal::last_error().c_str(); }
__attribute__((visibility("default"))) const char* fpga_dynamo_error_of(xclDeviceHandle handle, const void* packet) {
    return (xrt_hal::last_error() = of(handle).error_of(packet)).c_str();
}

}  // extern "C"
