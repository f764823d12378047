// One call of a model: what it needs on the card and of the host's memory, and the way from inputs to outputs.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bound_model.hpp"
#include "device.hpp"
#include "document.hpp"

namespace fd {

// A tensor of a call, checked against the model: strides are there, and data is not null if there are elements.
struct call_tensor {
    void* data;
    std::vector<int64_t> strides;
};

// Arenas, runs and scratch memory of calls that go one after the other. It serves all sizes of the model.
class call_state {
public:
    call_state(const document& model, device& on, size_t unit) : model_(model), device_(on), unit_(unit) {
        launches_.resize(model.launches.size());
    }

    // Throws model_error if a launch fails, or an input has a value that int32 cannot hold. constants: of each value of
    // the model its memory, null for what a call makes.
    void run(const bound_model& bound, const std::shared_ptr<device_memory>& weights,
             const std::vector<const uint8_t*>& constants, const std::vector<call_tensor>& inputs,
             const std::vector<call_tensor>& outputs, unsigned timeout_ms);

private:
    struct prepared {
        std::shared_ptr<device_memory> arena, commands, weights;
        uint64_t arena_bytes = 0;
        std::unique_ptr<launchable> run;
    };

    uint8_t* scratch(uint64_t bytes);
    launchable& prepare(size_t index, const bound_launch& bound, const std::shared_ptr<device_memory>& weights);
    void launch(size_t index, const bound_launch& bound, launchable& run, std::vector<uint8_t*>& memory,
                uint8_t* scratch, unsigned timeout_ms) const;
    std::string failure(const launch_description& launch, const launchable& run, card_model::ert_state state) const;

    const document& model_;
    device& device_;
    const size_t unit_;
    std::vector<prepared> launches_;
    std::unique_ptr<uint8_t, void (*)(void*)> scratch_{nullptr, nullptr};
    uint64_t scratch_bytes_ = 0;
};

}  // namespace fd
