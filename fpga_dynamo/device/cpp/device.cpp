#include "device.hpp"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>

namespace fpga_device {

namespace {

std::atomic<c10::DeviceIndex> count{0};
std::atomic<bool> is_child{false};
thread_local c10::DeviceIndex current = 0;

// Registered when the extension is loaded, so a child that loads it itself may use cards.
[[maybe_unused]] const int watched = pthread_atfork(nullptr, nullptr, [] { is_child.store(true); });

void check_index(c10::DeviceIndex index) {
    TORCH_CHECK(index >= 0 && index < count, "there is no device fpga:", static_cast<int>(index), ": the driver finds ",
                static_cast<int>(count.load()), " card(s), from fpga:0 on; choose one of them or omit the index");
}

}  // namespace

c10::DeviceIndex device_count() noexcept { return count; }

void set_device_count(c10::DeviceIndex found) noexcept { count = found; }

c10::DeviceIndex current_device() noexcept { return current; }

void set_current_device(c10::DeviceIndex index) {
    check_index(index);
    current = index;
}

void set_current_device_unchecked(c10::DeviceIndex index) noexcept { current = index; }

c10::Device resolved(std::optional<c10::Device> device) {
    const c10::DeviceIndex index = device && device->has_index() ? device->index() : current;
    check_index(index);
    return {TYPE, index};
}

bool is_forked() noexcept { return is_child.load(std::memory_order_relaxed); }

void check_process() {
    TORCH_CHECK(!is_forked(),
                "device 'fpga' cannot be used in this process, which was forked after the device had been used; start "
                "processes with the method 'spawn', or use the device in the child only");
}

}  // namespace fpga_device
