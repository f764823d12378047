// A caching allocator over card memory: segments from the driver, split into blocks that tensors use and give back.
#pragma once
#include <c10/core/CachingDeviceAllocator.h>

#include <string>

#include "device.hpp"

namespace fpga_device {

// Where segments come from. Calls may wait for Python's interpreter lock, so no lock of the allocator is held then.
class memory_source {
public:
    virtual ~memory_source() = default;
    // Memory of card `index` that the process can read and write; null, and why, if the card's banks are full.
    virtual void* acquire(c10::DeviceIndex index, size_t bytes, std::string* why) = 0;
    virtual void release(c10::DeviceIndex index, void* memory) = 0;
    // Bytes that are free, and bytes in all, of the card's banks.
    virtual std::pair<size_t, size_t> capacity(c10::DeviceIndex index) = 0;
};

void set_memory_source(memory_source* source);

c10::DeviceAllocator& allocator();

// Memory of that card, whichever is current. Throws c10::OutOfMemoryError, which names the banks.
c10::DataPtr allocate_on(c10::DeviceIndex index, size_t bytes);

// The card whose memory has this address; none if it is not the allocator's.
std::optional<c10::DeviceIndex> device_of(const void* address);

}  // namespace fpga_device
