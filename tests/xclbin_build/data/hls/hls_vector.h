// A stand-in for Vitis' hls_vector.h, as far as the kernels use it: lets g++ compile what is meant for synthesis.
#pragma once
#include <cstddef>

namespace hls {

template <class T, size_t N>
class vector {
public:
    vector() = default;
    vector(const T& value) {
        for (size_t i = 0; i < N; i++) lanes[i] = value;
    }
    T& operator[](size_t i) { return lanes[i]; }
    const T& operator[](size_t i) const { return lanes[i]; }

#define HLS_VECTOR_OPERATOR(op)                                                       \
    vector& operator op##=(const vector& other) {                                     \
        for (size_t i = 0; i < N; i++) lanes[i] = lanes[i] op other.lanes[i];         \
        return *this;                                                                 \
    }                                                                                 \
    friend vector operator op(vector a, const vector& b) { return a op##= b; }
    HLS_VECTOR_OPERATOR(+)
    HLS_VECTOR_OPERATOR(-)
    HLS_VECTOR_OPERATOR(*)
    HLS_VECTOR_OPERATOR(/)
    HLS_VECTOR_OPERATOR(&)
    HLS_VECTOR_OPERATOR(|)
    HLS_VECTOR_OPERATOR(^)
    HLS_VECTOR_OPERATOR(<<)
    HLS_VECTOR_OPERATOR(>>)
#undef HLS_VECTOR_OPERATOR

private:
    alignas(sizeof(T) * N) T lanes[N];
};

}  // namespace hls
