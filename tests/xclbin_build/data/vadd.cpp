// A plain kernel of a user's, with an argument of each kind.
#include <cstdint>

extern "C" void vadd(const float* a, const float* b,
                     float* out,  // a comment between arguments
                     int n, float scale, uint64_t offset, double shift, unsigned int step) {
#pragma HLS INTERFACE m_axi port = a bundle = gmem0
add:
    for (int i = 0; i < n; i += step) out[offset + i] = a[i] + scale * b[i] + static_cast<float>(shift);
}
