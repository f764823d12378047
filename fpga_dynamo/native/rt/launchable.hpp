// A run and the buffer that has its inputs and outputs, whatever drives the card. Direct calls of Python and exported
// models start runs by it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "buffer.hpp"
#include "ert_command.hpp"
#include "kernel.hpp"

// Bytes of a buffer, from `begin` to `end`.
struct extent {
    uint64_t begin = 0, end = 0;
    uint64_t bytes() const { return end - begin; }
    // The least extent that also has these bytes.
    extent with(uint64_t offset, uint64_t bytes) const {
        if (begin == end) return {offset, offset + bytes};
        return {offset < begin ? offset : begin, offset + bytes > end ? offset + bytes : end};
    }
};

// What crosses in one direction: pieces that lie in the host's memory as they do in the buffer, and what all of it covers,
// windows included.
struct crossing {
    const std::vector<card_model::transfer>& pieces;
    extent all;
    std::vector<extent> windows;  // that will be asked for after a launch
};

class launchable {
public:
    virtual ~launchable() = default;
    // A launch will follow within microseconds: the card may prepare for it.
    virtual void announce() {}
    // Where the host writes an input before a launch, or reads an output after it, that is no piece. Throws std::exception.
    virtual uint8_t* window(card_model::direction way, uint64_t bytes, uint64_t offset) = 0;
    // Inputs to the card, a run, and if it completed, outputs from the card. A run that takes longer than timeout_ms
    // (0: none) is ended. Throws std::exception if nothing was run.
    virtual card_model::ert_state launch(const crossing& inputs, const crossing& outputs, unsigned timeout_ms) = 0;
    // One sentence about a launch that did not complete; empty if the driver says nothing.
    virtual std::string error() const { return ""; }
};
