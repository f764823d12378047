#include "xrt_device.hpp"

#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>
#include <xrt/xrt_uuid.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

namespace fd {

namespace {

using card_model::direction;
using card_model::ert_state;

constexpr uint64_t RECORD_BYTES = 64;  // of the status record at the arena's begin (hls_kernels/command.hpp)

struct xrt_memory : device_memory {
    explicit xrt_memory(xrt::bo memory) : object(std::move(memory)) {}
    void write(const void* from, uint64_t bytes, uint64_t offset) override {
        object.write(from, bytes, offset);
        object.sync(XCL_BO_SYNC_BO_TO_DEVICE, bytes, offset);
    }
    xrt::bo object;
};

xrt::bo& object_of(const std::shared_ptr<device_memory>& memory) { return static_cast<xrt_memory&>(*memory).object; }

class xrt_launch : public launchable {
public:
    xrt_launch(const xrt::kernel& kernel, const std::vector<role>& arguments, launch_memory memory)
        : memory_(std::move(memory)), run_(kernel), arena_(object_of(memory_.arena)), host_(arena_.map<uint8_t*>()) {
        for (int i = 0; i < static_cast<int>(arguments.size()); ++i) switch (arguments[static_cast<size_t>(i)]) {
                case role::count: run_.set_arg(i, memory_.count); break;
                case role::commands: run_.set_arg(i, object_of(memory_.commands)); break;
                case role::arena: run_.set_arg(i, arena_); break;
                case role::weights: run_.set_arg(i, object_of(memory_.weights)); break;
            }
    }

    uint8_t* window(direction, uint64_t bytes, uint64_t offset) override {
        check(bytes, offset);
        return host_ + offset;
    }

    ert_state launch(const crossing& inputs, const crossing& outputs, unsigned timeout_ms) override {
        for (const card_model::transfer& one : inputs.pieces)
            std::memcpy(window(direction::to_device, one.bytes, one.offset), reinterpret_cast<const void*>(one.host),
                        one.bytes);
        if (inputs.all.bytes()) arena_.sync(XCL_BO_SYNC_BO_TO_DEVICE, inputs.all.bytes(), inputs.all.begin);
        error_.clear();
        run_.start();
        auto state = static_cast<ert_state>(run_.wait(std::chrono::milliseconds(timeout_ms)));
        if (state == ert_state::timeout) run_.abort();
        if (state != ert_state::completed) return state;
        // A list that has not come to its end completes as well; the status record tells.
        arena_.sync(XCL_BO_SYNC_BO_FROM_DEVICE, RECORD_BYTES, 0);
        uint32_t record[2];
        std::memcpy(record, host_, sizeof record);
        if (record[0] != 0) {
            error_ = "command " + std::to_string(record[1]) + " ended with status " + std::to_string(record[0]);
            return ert_state::error;
        }
        if (outputs.all.bytes()) arena_.sync(XCL_BO_SYNC_BO_FROM_DEVICE, outputs.all.bytes(), outputs.all.begin);
        for (const card_model::transfer& one : outputs.pieces)
            std::memcpy(reinterpret_cast<void*>(one.host), window(direction::from_device, one.bytes, one.offset),
                        one.bytes);
        return state;
    }

    std::string error() const override { return error_; }

private:
    void check(uint64_t bytes, uint64_t offset) const {
        if (offset > arena_.size() || bytes > arena_.size() - offset)
            throw std::out_of_range("a tensor lies outside of the arena");
    }

    launch_memory memory_;
    xrt::run run_;
    xrt::bo arena_;
    uint8_t* host_;
    std::string error_;
};

class xrt_card : public device {
public:
    xrt_card(const std::string& path, unsigned index) : device_(index), uuid_(device_.load_xclbin(path)) {}

    std::shared_ptr<device_memory> allocate(const kernel_description& description, role argument,
                                            uint64_t bytes) override {
        int index = 0;
        while (description.arguments[static_cast<size_t>(index)] != argument) ++index;
        return std::make_shared<xrt_memory>(xrt::bo(device_, bytes, opened(description, 0).group_id(index)));
    }

    std::unique_ptr<launchable> prepare(const kernel_description& description, size_t unit,
                                        const launch_memory& memory) override {
        return std::make_unique<xrt_launch>(opened(description, unit), description.arguments, memory);
    }

private:
    xrt::kernel& opened(const kernel_description& description, size_t unit) {
        const std::string name = description.name + ":{" + description.units[unit] + "}";
        std::lock_guard lock(mutex_);
        auto found = kernels_.find(name);
        if (found == kernels_.end()) found = kernels_.emplace(name, xrt::kernel(device_, uuid_, name)).first;
        return found->second;
    }

    xrt::device device_;
    xrt::uuid uuid_;
    std::mutex mutex_;
    std::map<std::string, xrt::kernel> kernels_;
};

}  // namespace

std::shared_ptr<device> open_xrt(const std::string& path, unsigned index) {
    return std::make_shared<xrt_card>(path, index);
}

}  // namespace fd
