// The device type "fpga" of PyTorch: which cards there are, which one a thread uses, and whether this process may use them.
#pragma once
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace fpga_device {

constexpr c10::DeviceType TYPE = c10::DeviceType::PrivateUse1;
constexpr size_t MOST_DEVICES = 128;  // that an index of PyTorch can name

// Where a card stands in an array of MOST_DEVICES. Indices that are in use are not negative.
constexpr size_t position_of(c10::DeviceIndex index) noexcept { return static_cast<uint8_t>(index); }

// Cards that the driver has found. Set once, when the extension is loaded.
c10::DeviceIndex device_count() noexcept;
void set_device_count(c10::DeviceIndex found) noexcept;

// Of the calling thread. Throws c10::Error for an index without a card.
c10::DeviceIndex current_device() noexcept;
void set_current_device(c10::DeviceIndex index);
void set_current_device_unchecked(c10::DeviceIndex index) noexcept;

// The index that a device without one stands for is the current card's. Throws for an index without a card.
c10::Device resolved(std::optional<c10::Device> device);

// Throws c10::Error in a process that was forked after the device had been used: cards do not work there.
void check_process();
bool is_forked() noexcept;

}  // namespace fpga_device
