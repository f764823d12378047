// A model at the sizes of a call: all numbers known and checked, and the command lists in device memory.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "device.hpp"
#include "document.hpp"
#include "sizes.hpp"

namespace fd {

// Elements of a value. offset in bytes of the value's memory.
struct bound_view {
    size_t value;
    uint64_t offset;
    std::vector<int64_t> shape, strides;
    uint64_t bytes;  // of its elements, one after the other
};

// copies: whether the elements of the view lie in another order than those of the slot. They pass through `scratch` then.
struct bound_slot {
    bound_view view;
    std::vector<int64_t> strides;
    bool copies;
    uint64_t scratch;
};

struct bound_launch {
    slot_list inputs, outputs;  // in the arena
    std::vector<bound_slot> reads, writes;
    uint64_t arena_bytes;
    std::shared_ptr<device_memory> commands;
};

struct bound_copy {
    size_t after;
    bound_view from, to;
};

struct bound_model {
    registers sizes;
    std::vector<bound_view> inputs, outputs;
    std::vector<uint64_t> scratch;  // of each value: its place in a call's scratch memory
    uint64_t scratch_bytes = 0;
    std::vector<bound_launch> launches;
    std::vector<bound_copy> copies;
    std::vector<std::pair<size_t, std::vector<uint8_t>>> generated;  // values that sizes alone decide, and their memory
};

// words: content of commands.bin, which the document's launches refer to. Throws model_error where the sizes contradict
// the document, and std::exception of the device.
std::shared_ptr<const bound_model> bind_sizes(const document& model, registers sizes, const uint8_t* words, device& on);

}  // namespace fd
