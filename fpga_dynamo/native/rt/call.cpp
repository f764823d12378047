#include "call.hpp"

#include <cstdlib>
#include <new>

#include "copy_strided.hpp"
#include "model_error.hpp"

namespace fd {

using card_model::ert_state;

uint8_t* call_state::scratch(uint64_t bytes) {
    if (bytes > scratch_bytes_) {
        scratch_ = {nullptr, nullptr};
        scratch_bytes_ = 0;
        // Windows of the emulator want whole beats.
        auto* memory = static_cast<uint8_t*>(std::aligned_alloc(BEAT_BYTES, bytes));
        if (!memory) throw std::bad_alloc();
        scratch_ = {memory, std::free};
        scratch_bytes_ = bytes;
    }
    return scratch_.get();
}

launchable& call_state::prepare(size_t index, const bound_launch& bound,
                                const std::shared_ptr<device_memory>& weights) {
    prepared& own = launches_[index];
    const launch_description& about = model_.launches[index];
    const kernel_description& kernel = model_.kernels[about.kernel];
    if (own.run && own.commands == bound.commands && own.weights == weights) return *own.run;
    own.run.reset();
    if (own.arena_bytes < bound.arena_bytes) {
        own.arena.reset();
        own.arena_bytes = 0;
        own.arena = device_.allocate(kernel, role::arena, bound.arena_bytes);
        own.arena_bytes = bound.arena_bytes;
    }
    own.run = device_.prepare(kernel, unit_ % kernel.units.size(), {bound.commands, own.arena, weights, about.count});
    own.commands = bound.commands;
    own.weights = weights;
    return *own.run;
}

std::string call_state::failure(const launch_description& launch, const launchable& run, ert_state state) const {
    const std::string who = "launch '" + launch.name + "' on kernel '" + model_.kernels[launch.kernel].name + "'";
    const std::string reason = run.error();
    return who + (reason.empty() ? " ended in state " + std::string(card_model::to_string(state)) : ": " + reason);
}

void call_state::launch(size_t index, const bound_launch& bound, launchable& run, std::vector<uint8_t*>& memory,
                        uint8_t* scratch, unsigned timeout_ms) const {
    std::vector<const void*> from;
    std::vector<void*> to;
    from.reserve(bound.reads.size());
    to.reserve(bound.writes.size());
    for (const bound_slot& one : bound.reads) {
        const uint8_t* source = memory[one.view.value] + one.view.offset;
        if (one.copies) {
            copy_strided(scratch + one.scratch, one.strides, source, one.view.strides, one.view.shape,
                         model_.values[one.view.value].type->bytes());
            source = scratch + one.scratch;
        }
        from.push_back(source);
    }
    for (const bound_slot& one : bound.writes) to.push_back(memory[one.view.value]);
    const launch_description& about = model_.launches[index];
    const ert_state state = launch_slots(run, bound.inputs, from, bound.outputs, to, timeout_ms);
    if (state == ert_state::completed) return;
    if (state == ert_state::created)
        throw model_error(FD_UNSUPPORTED_VALUE, "an int64 input has a value that int32, the card's integer type, "
                                                "cannot hold; give values from -2147483648 to 2147483647");
    if (state == ert_state::timeout)
        throw model_error(FD_TIMEOUT, failure(about, run, state) + " (time-out " + std::to_string(timeout_ms) + " ms)");
    throw model_error(FD_DEVICE_ERROR, failure(about, run, state));
}

void call_state::run(const bound_model& bound, const std::shared_ptr<device_memory>& weights,
                     const std::vector<const uint8_t*>& constants, const std::vector<call_tensor>& inputs,
                     const std::vector<call_tensor>& outputs, unsigned timeout_ms) {
    std::vector<launchable*> runs;
    runs.reserve(bound.launches.size());
    for (size_t i = 0; i < bound.launches.size(); ++i) runs.push_back(&prepare(i, bound.launches[i], weights));
    if (!runs.empty()) runs.front()->announce();

    uint8_t* const own = scratch(bound.scratch_bytes);
    std::vector<uint8_t*> memory(model_.values.size());
    for (size_t i = 0; i < memory.size(); ++i)
        memory[i] = constants[i] ? const_cast<uint8_t*>(constants[i]) : own + bound.scratch[i];
    for (const auto& [value, made] : bound.generated) memory[value] = const_cast<uint8_t*>(made.data());
    for (size_t i = 0; i < inputs.size(); ++i) {
        const bound_view& view = bound.inputs[i];
        const size_t bytes = model_.values[view.value].type->bytes();
        if (same_order(view.shape, view.strides, inputs[i].strides))
            memory[view.value] = static_cast<uint8_t*>(inputs[i].data);
        else
            copy_strided(memory[view.value], view.strides, inputs[i].data, inputs[i].strides, view.shape, bytes);
    }
    // A value that is an output as it lies is written where the caller wants it; a second output of it is a copy.
    std::vector<bool> direct(outputs.size());
    std::vector<bool> written(memory.size());
    for (const bound_launch& launch : bound.launches)
        for (const bound_slot& one : launch.writes) {
            for (size_t k = 0; k < outputs.size(); ++k) {
                const bound_view& view = bound.outputs[k];
                if (written[one.view.value] || view.value != one.view.value || view.offset != 0 ||
                    view.bytes != one.view.bytes || span_of(view.shape, view.strides) != elements_of(view.shape) ||
                    !same_order(view.shape, view.strides, outputs[k].strides))
                    continue;
                memory[view.value] = static_cast<uint8_t*>(outputs[k].data);
                written[view.value] = direct[k] = true;
            }
        }
    auto copy = bound.copies.begin();
    const auto copy_after = [&](size_t launches) {
        for (; copy != bound.copies.end() && copy->after == launches; ++copy)
            copy_strided(memory[copy->to.value] + copy->to.offset, copy->to.strides,
                         memory[copy->from.value] + copy->from.offset, copy->from.strides, copy->from.shape,
                         model_.values[copy->to.value].type->bytes());
    };
    for (size_t i = 0; i < runs.size(); ++i) {
        copy_after(i);
        launch(i, bound.launches[i], *runs[i], memory, own, timeout_ms);
    }
    copy_after(runs.size());
    for (size_t k = 0; k < outputs.size(); ++k) {
        if (direct[k]) continue;
        const bound_view& view = bound.outputs[k];
        copy_strided(outputs[k].data, outputs[k].strides, memory[view.value] + view.offset, view.strides, view.shape,
                     model_.values[view.value].type->bytes());
    }
}

}  // namespace fd
