#include "emulated_device.hpp"

#include <map>
#include <mutex>

#include "card.hpp"
#include "emulated_launch.hpp"
#include "kernel.hpp"

namespace fd {

namespace {

using card_model::buffer;
using card_model::buffer_flags;
using card_model::card;
using card_model::kernel;

struct emulated_memory : device_memory {
    explicit emulated_memory(buffer memory) : object(std::move(memory)) {}
    void write(const void* from, uint64_t bytes, uint64_t offset) override { object.upload(from, bytes, offset); }
    const buffer object;
};

const buffer& object_of(const std::shared_ptr<device_memory>& memory) {
    return static_cast<const emulated_memory&>(*memory).object;
}

// A run, and what keeps its memory: a run holds allocations of its own.
class prepared_launch : public launchable {
public:
    prepared_launch(std::shared_ptr<kernel> opened, const std::vector<role>& arguments, const launch_memory& memory)
        : run_(std::move(opened)), launch_(run_, object_of(memory.arena)) {
        for (uint32_t i = 0; i < arguments.size(); ++i) switch (arguments[i]) {
                case role::count: run_.set_scalar(i, &memory.count, sizeof memory.count); break;
                case role::commands: run_.set_buffer(i, object_of(memory.commands)); break;
                case role::arena: run_.set_buffer(i, object_of(memory.arena)); break;
                case role::weights: run_.set_buffer(i, object_of(memory.weights)); break;
            }
    }
    void announce() override { launch_.announce(); }
    uint8_t* window(card_model::direction way, uint64_t bytes, uint64_t offset) override {
        return launch_.window(way, bytes, offset);
    }
    card_model::ert_state launch(const crossing& inputs, const crossing& outputs, unsigned timeout_ms) override {
        return launch_.launch(inputs, outputs, timeout_ms);
    }
    std::string error() const override { return launch_.error(); }

private:
    card_model::run run_;
    emulated_launch launch_;
};

class emulated_device : public device {
public:
    explicit emulated_device(std::shared_ptr<card> loaded) : card_(std::move(loaded)) {}

    std::shared_ptr<device_memory> allocate(const kernel_description& description, role argument,
                                            uint64_t bytes) override {
        uint32_t index = 0;
        while (index < description.arguments.size() && description.arguments[index] != argument) ++index;
        const uint32_t group = opened(description, 0)->group_id(index);
        return std::make_shared<emulated_memory>(buffer(card_, bytes, buffer_flags::device_only, group));
    }

    std::unique_ptr<launchable> prepare(const kernel_description& description, size_t unit,
                                        const launch_memory& memory) override {
        return std::make_unique<prepared_launch>(opened(description, unit), description.arguments, memory);
    }

private:
    std::shared_ptr<kernel> opened(const kernel_description& description, size_t unit) {
        const std::string name = description.name + ":{" + description.units[unit] + "}";
        std::lock_guard lock(mutex_);
        std::shared_ptr<kernel>& slot = kernels_[name];
        if (!slot)
            slot = std::make_shared<kernel>(card_, card_->loaded()->file().id(), name, card_model::access_mode::shared);
        return slot;
    }

    const std::shared_ptr<card> card_;
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<kernel>> kernels_;
};

}  // namespace

std::shared_ptr<device> open_emulated(const card_model::xclbin& file, unsigned index) {
    static std::mutex mutex;
    static std::map<std::pair<unsigned, card_model::uuid>, std::weak_ptr<device>>& known =
        *new std::map<std::pair<unsigned, card_model::uuid>, std::weak_ptr<device>>;
    std::lock_guard lock(mutex);
    std::weak_ptr<device>& slot = known[{index, file.id()}];
    if (auto shared = slot.lock()) return shared;
    card::open(index);  // throws for a card that is not there
    const auto fresh = card::beside(index);
    fresh->load(file);
    const auto made = std::make_shared<emulated_device>(fresh);
    slot = made;
    return made;
}

}  // namespace fd
