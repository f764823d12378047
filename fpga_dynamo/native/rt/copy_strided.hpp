// Copies between tensors in different orders of elements.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fd {

// Strides of row-major order.
std::vector<int64_t> row_major(const std::vector<int64_t>& shape);

// Whether two strides mean the same places: those of dimensions of at most one element do not matter.
bool same_order(const std::vector<int64_t>& shape, const std::vector<int64_t>& a, const std::vector<int64_t>& b);

// Elements from the first to the last place of a tensor, both included; 0 for a tensor without elements.
// Strides must not be negative. Returns -1 if that overflows 64 bits.
int64_t span_of(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides);

// Product of the sizes; -1 if that overflows 64 bits, or a size is negative.
int64_t elements_of(const std::vector<int64_t>& shape);

// Element by element; `bytes` is that of an element: 1, 2, 4 or 8. The tensors must not overlap.
void copy_strided(void* to, const std::vector<int64_t>& to_strides, const void* from,
                  const std::vector<int64_t>& from_strides, const std::vector<int64_t>& shape, size_t bytes);

}  // namespace fd
