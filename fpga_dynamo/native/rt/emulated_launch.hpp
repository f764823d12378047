// A run of the emulator as a launchable.
#pragma once
#include <string>
#include <utility>

#include "launchable.hpp"

// Windows are the card's memory, and need no sync. `target` must outlive this.
class emulated_launch : public launchable {
public:
    emulated_launch(card_model::run& target, card_model::buffer memory) : run_(target), memory_(std::move(memory)) {}
    void announce() override { run_.announce(); }
    uint8_t* window(card_model::direction way, uint64_t bytes, uint64_t offset) override {
        return memory_.window(way, bytes, offset);
    }
    card_model::ert_state launch(const crossing& inputs, const crossing& outputs, unsigned timeout_ms) override {
        return run_.execute_io(memory_, inputs.pieces, outputs.pieces, timeout_ms);
    }
    std::string error() const override { return run_.command().error(); }

private:
    card_model::run& run_;
    card_model::buffer memory_;
};
