// What PyTorch asks of an accelerator.
#include "hooks.hpp"

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <algorithm>
#include <cstring>

#include "allocator.hpp"
#include "generator.hpp"

namespace fpga_device {

namespace {

struct hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return device_count() > 0; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return !is_forked(); }
    c10::DeviceIndex deviceCount() const override { return device_count(); }
    void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
    c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
        const c10::DeviceIndex before = current_device();
        set_current_device(index);
        return before;
    }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
        return index < 0 ? current_device() : exchangeDevice(index);
    }
    const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
    at::Generator getNewGenerator(c10::DeviceIndex index) const override { return new_generator(index); }
    c10::Device getDeviceFromPtr(void* data) const override {
        const auto index = device_of(data);
        TORCH_CHECK(index, "the pointer is not into memory of device 'fpga'; only storages of the device have such");
        return {TYPE, *index};
    }
    // Memory of the host needs no pinning: nothing is copied while the caller goes on.
    at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::kCPU); }
    void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
        c10::DataPtr fresh = allocate_on(resolved(storage.device()).index(), bytes);
        if (const size_t kept = std::min(bytes, storage.nbytes())) std::memcpy(fresh.get(), storage.data(), kept);
        const_cast<c10::Storage&>(storage).set_data_ptr_noswap(std::move(fresh));
        const_cast<c10::Storage&>(storage).set_nbytes(bytes);
    }
};

}  // namespace

void register_hooks() {
    static hooks only;
    if (!at::isPrivateUse1HooksRegistered()) at::RegisterPrivateUse1HooksInterface(&only);
}

}  // namespace fpga_device
