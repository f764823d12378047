// Which card and stream a thread uses, and events. Streams are synchronous: work has ended when its call returns, so that
// an event is a point in time and nothing ever waits.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <chrono>

#include "device.hpp"

namespace fpga_device {

namespace {

using clock = std::chrono::steady_clock;

constexpr c10::StreamId POOL = 32;  // streams of a card beside its default one

thread_local std::array<c10::StreamId, MOST_DEVICES> streams{};

struct event {
    clock::time_point recorded;
};

c10::StreamId& stream_of(c10::Device device) { return streams[position_of(resolved(device).index())]; }

struct guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return TYPE; }

    c10::Device exchangeDevice(c10::Device device) const override {
        const c10::Device before = getDevice();
        setDevice(device);
        return before;
    }
    c10::Device getDevice() const override { return {TYPE, current_device()}; }
    void setDevice(c10::Device device) const override { set_current_device(device.index()); }
    void uncheckedSetDevice(c10::Device device) const noexcept override {
        set_current_device_unchecked(device.index());
    }
    c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

    c10::Stream getStream(c10::Device device) const override {
        return c10::Stream(c10::Stream::UNSAFE, resolved(device), stream_of(device));
    }
    c10::Stream getDefaultStream(c10::Device device) const override {
        return c10::Stream(c10::Stream::DEFAULT, resolved(device));
    }
    c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
        static std::atomic<c10::StreamId> next{0};
        return c10::Stream(c10::Stream::UNSAFE, resolved(device), next++ % POOL + 1);
    }
    c10::Stream getNewStream(c10::Device device, int) const override { return getStreamFromGlobalPool(device, false); }
    c10::Stream exchangeStream(c10::Stream stream) const override {
        c10::StreamId& now = stream_of(stream.device());
        const c10::Stream before(c10::Stream::UNSAFE, stream.device(), now);
        now = stream.id();
        return before;
    }
    bool queryStream(const c10::Stream&) const override { return true; }
    void synchronizeStream(const c10::Stream&) const override { check_process(); }
    void synchronizeDevice(c10::DeviceIndex) const override { check_process(); }

    void record(void** handle, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
        if (!*handle) *handle = new event;
        static_cast<event*>(*handle)->recorded = clock::now();
    }
    void block(void*, const c10::Stream&) const override {}
    bool queryEvent(void*) const override { return true; }
    void synchronizeEvent(void*) const override {}
    void destroyEvent(void* handle, c10::DeviceIndex) const noexcept override { delete static_cast<event*>(handle); }
    void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
    // In milliseconds, as torch.Event has it.
    double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
        const auto between = static_cast<event*>(to)->recorded - static_cast<event*>(from)->recorded;
        return std::chrono::duration<double, std::milli>(between).count();
    }
};

}  // namespace

}  // namespace fpga_device

namespace c10::impl {
[[maybe_unused]] static const DeviceGuardImplRegistrar registered_guard(fpga_device::TYPE, new fpga_device::guard);
}  // namespace c10::impl
