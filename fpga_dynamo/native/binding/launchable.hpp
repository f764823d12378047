// A run and the buffer that has its inputs and outputs, as a direct call uses them. The modules of both drivers hand it to
// each other in a capsule.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
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
};

class launchable {
public:
    virtual ~launchable() = default;
    // A launch will follow within microseconds: the card may prepare for it.
    virtual void announce() {}
    // Where the host writes an input before a launch, or reads an output after it, that is no piece. Throws std::exception.
    virtual uint8_t* window(card_model::direction way, uint64_t bytes, uint64_t offset) = 0;
    // Inputs to the card, a run, and if it completed, outputs from the card. A run that takes longer than timeout_ms
    // (0: none) is ended. Wants the GIL released; throws std::exception if nothing was run.
    virtual card_model::ert_state launch(const crossing& inputs, const crossing& outputs, unsigned timeout_ms) = 0;
};

constexpr const char* LAUNCHABLE_CAPSULE = "fpga_dynamo.launchable";

inline nanobind::capsule hand_over(std::unique_ptr<launchable> target) {
    return nanobind::capsule(target.release(), LAUNCHABLE_CAPSULE,
                             [](void* object) noexcept { delete static_cast<launchable*>(object); });
}
