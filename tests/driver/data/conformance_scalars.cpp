// Of the conformance suite: what arrives of scalars.
#include <cstdint>

extern "C" void scalars(double* out, int64_t wide, uint32_t narrow, double precise, float rough) {
    out[0] = static_cast<double>(wide >> 32);
    out[1] = static_cast<double>(wide & 0xffffffff);
    out[2] = narrow;
    out[3] = precise;
    out[4] = rough;
}
