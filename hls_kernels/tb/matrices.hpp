// Batches of matrices in memory, for the test benches of gemm and attention.
#pragma once
#include <cstdint>

#include "tb.hpp"

namespace tb {

// Element (i, j, row, column) of a batch.
inline size_t at(uint32_t base, const int32_t stride[4], int i, int j, int row, int column) {
    return base + static_cast<size_t>(i) * stride[0] + static_cast<size_t>(j) * stride[1] +
           static_cast<size_t>(row) * stride[2] + static_cast<size_t>(column) * stride[3];
}

// A batch of rows x columns matrices with random values; columns contiguous if `transposed`. Poison lies between what is
// contiguous: inner_pitch(n) is the distance of neighbours of n floats.
template <class PITCH>
uint32_t place(memory& memory, random_source& random, const int batch[2], int rows, int columns, bool transposed,
               PITCH inner_pitch, int32_t stride[4]) {
    const int inner = transposed ? rows : columns, outer = transposed ? columns : rows;
    const int pitch = inner_pitch(inner);
    stride[transposed ? 2 : 3] = 1;
    stride[transposed ? 3 : 2] = pitch;
    stride[1] = pitch * outer;
    stride[0] = stride[1] * batch[1];
    const uint32_t base = memory.allocate(static_cast<int64_t>(stride[0]) * batch[0]);
    for (int i = 0; i < batch[0]; i++)
        for (int j = 0; j < batch[1]; j++)
            for (int r = 0; r < rows; r++)
                for (int k = 0; k < columns; k++) memory[at(base, stride, i, j, r, k)] = random.real(-1, 1);
    return base;
}

}  // namespace tb
