// Plain kernels that tests call as operators: element types, several results, and faults.
#include <cstdint>

#include "ap_int.h"
#include "hls_half.h"
#include "hls_vector.h"

typedef int8_t byte_t;
typedef hls::vector<float, 16> beat;

extern "C" {
void axpy(const float* x, float* y, float alpha, int n) {
    for (int i = 0; i < n; i++) y[i] += alpha * x[i];
}
void widen(const byte_t* in, int* out, int n) {
    for (int i = 0; i < n; i++) out[i] = 2 * in[i];
}
void halves(const half* a, half* out, half factor, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) out[i] = a[i] * factor;
}
void split(const float* a, float* low, float* high, int n) {
    for (int i = 0; i < n; i++) {
        low[i] = a[i] < 0 ? a[i] : 0.0f;
        high[i] = a[i] > 0 ? a[i] : 0.0f;
    }
}
void twice(const beat* a, beat* out, int beats) {
    for (int i = 0; i < beats; i++) out[i] = a[i] + a[i];
}
void histogram(float* counts, const int* indices, ap_uint<16> n) {
    for (int i = 0; i < n; i++) counts[indices[i]] += 1;
}
void fill(float* out, float value, long n) {
    for (long i = 0; i < n; i++) out[i] = value;
}
void square(float* a, float* out, int n) {
    for (int i = 0; i < n; i++) out[i] = a[i] * a[i];
}
void fail(const float* a, float* out, int n) {
    for (int i = 0; i < n; i++) out[i] = a[i] + 1;
    while (a[0] == 7) *static_cast<volatile float*>(out) = 1;
    if (a[0] == 13) out[1000000] = 0;
}
}
