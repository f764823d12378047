// What crosses between a tensor's memory and a slot of an arena, which holds floats, int32 bits or the narrow elements
// of fpga_dynamo/ir/dtypes.py as they are; and one launch with its slots.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "launchable.hpp"

enum class element { float32, int32, int64, boolean, two_bytes, byte, complex64 };

element element_of(const std::string& dtype);  // "float32"; throws std::invalid_argument

size_t slot_bytes(element kind);    // of one element in a slot
size_t tensor_bytes(element kind);  // of one element in a tensor

// Whether a tensor's elements are bit for bit those of a slot, so that they need not be converted.
bool is_plain(element kind);

// `count` elements from a tensor that is not plain; false if an int64 does not fit into an int32, and then the slot is
// half written.
bool convert_in(element kind, const void* tensor, void* slot, size_t count);
void convert_out(element kind, const void* slot, void* tensor, size_t count);

// Where a tensor lies in a buffer; `offset` in bytes.
struct slot {
    element kind;
    size_t count;
    uint64_t offset;
    size_t bytes() const { return count * slot_bytes(kind); }
};

// The slots of a launch in one direction, and what they cover.
struct slot_list {
    std::vector<slot> slots;
    extent all;
    uint64_t bytes = 0;
    void add(const slot& one) {
        slots.push_back(one);
        bytes += one.bytes();
        all = all.with(one.offset, one.bytes());
    }
};

// One launch: from[i] is what input i reads, to[i] what output i writes, dense and in the order of the slot's elements.
// `created` if an int64 does not fit into an int32, and then nothing has run. Throws std::exception if nothing was run.
card_model::ert_state launch_slots(launchable& target, const slot_list& inputs, const std::vector<const void*>& from,
                                   const slot_list& outputs, const std::vector<void*>& to, unsigned timeout_ms);
