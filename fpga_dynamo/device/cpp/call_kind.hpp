// What a program of one operator depends on: a call without the values of its tensors.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <vector>

#include "device.hpp"

namespace fpga_device {

using call_words = std::vector<int64_t>;
using call_tensors = c10::SmallVector<const at::Tensor*, 8>;

struct hash_of_words {
    size_t operator()(const call_words& words) const noexcept {
        uint64_t hash = 0x9e3779b97f4a7c15u;
        for (const int64_t word : words)
            hash = (hash ^ static_cast<uint64_t>(word)) * 0xff51afd7ed558ccdu, hash ^= hash >> 32;
        return hash;
    }
};

// A number that PyTorch has made a tensor of: "2" in `x * 2`.
bool is_number(const at::Tensor& tensor);
c10::Scalar number_of(const at::Tensor& tensor);

// Makes `words` those of a call, and `tensors` its tensors in their order. Returns why there can be no program for it, or
// null. `words` begins with what stands for the operator.
const char* describe_call(const c10::IValue* begin, const c10::IValue* end, call_words& words, call_tensors& tensors,
                          c10::Device& device);

}  // namespace fpga_device
