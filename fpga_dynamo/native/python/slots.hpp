// What crosses between a tensor's memory and a slot of an arena, which holds floats, int32 bits or the narrow elements
// of fpga_dynamo/ir/dtypes.py as they are.
#pragma once
#include <cstddef>
#include <string>

enum class element { float32, int32, int64, boolean, two_bytes, byte };

element element_of(const std::string& dtype);  // "float32"; throws nb::value_error

size_t slot_bytes(element kind);  // of one element

// Whether a tensor's elements are bit for bit those of a slot, so that they need not be converted.
bool is_plain(element kind);

// `count` elements from a tensor that is not plain; false if an int64 does not fit into an int32, and then the slot is
// half written.
bool convert_in(element kind, const void* tensor, void* slot, size_t count);
void convert_out(element kind, const void* slot, void* tensor, size_t count);
