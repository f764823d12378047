// model.json of an exported model: what it computes, as docs/exporting-a-model.md and fpga_dynamo/deployment/document.py
// describe it. Reading it checks all that does not depend on sizes; bound_model.hpp checks the rest.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "device.hpp"
#include "fd_model.h"
#include "sizes.hpp"
#include "slots.hpp"

namespace fd {

// Of the file format. A library reads documents of this version alone.
constexpr uint64_t FORMAT_VERSION = 2;
constexpr uint64_t BEAT_BYTES = 64;

struct dtype_info {
    const char* name;
    fd_dtype code;
    element kind;
    size_t bytes() const { return tensor_bytes(kind); }
};
// Null for a name or number that is no dtype of a tensor.
const dtype_info* dtype_of(const std::string& name);
const dtype_info* dtype_of(fd_dtype code);

// A tensor in the host's memory that tasks pass on; `elements` lie one after the other.
struct value_description {
    const dtype_info* type;
    number elements;
};

// Elements of a value: the first one, and how many lie how far apart.
struct view_description {
    size_t value;
    number offset;
    std::vector<number> shape, strides;
};

struct port_description {
    std::string name;
    view_description view;
};

// A tensor that crosses between a value and the arena of a launch. In the arena it is dense in the order of `strides`.
struct slot_description {
    view_description view;
    std::vector<number> strides;
    number place;  // beats from the arena's base
};

struct launch_description {
    std::string name;
    size_t kernel;
    uint64_t first, words;  // in commands.bin
    uint32_t count;         // of commands
    number beats;           // of the arena
    std::vector<std::pair<uint32_t, number>> patches;
    std::vector<slot_description> reads, writes;
};

// A value that is in weights.bin.
struct constant_description {
    size_t value;
    uint64_t offset, bytes;
};

// A value that sizes alone decide: element i is first + i * step, or (a fill) the low bytes of `bits`.
struct generated_description {
    size_t value;
    bool fill;
    number first, step;
    uint64_t bits;
};

// Elements of a value, and where they lie in one that has them in another order. It is made after so many launches.
struct copy_description {
    size_t after;
    view_description from, to;
};

struct file_description {
    uint64_t bytes;
    uint32_t crc32;
};

struct document {
    std::string description;
    std::string uuid;  // of the xclbin
    file_description commands, weights;
    uint64_t packed_bytes;  // of weights.bin: what the card gets
    std::vector<kernel_description> kernels;
    std::vector<size_guard> guards;
    std::vector<value_description> values;  // first those of the inputs
    std::vector<port_description> inputs, outputs;
    std::vector<constant_description> constants;
    std::vector<generated_description> generated;
    std::vector<launch_description> launches;
    std::vector<copy_description> copies;  // in order
    size_program sizes;
};

// Throws model_error for a text that is no document of this version, or contradicts itself.
document read_document(std::string_view text);

}  // namespace fd
