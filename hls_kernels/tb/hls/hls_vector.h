// A stand-in for the header of Vitis HLS, so that g++ can run the test benches on what synthesis would see:
//   g++ -D__SYNTHESIS__ -Itb/hls ...
#pragma once
#include <cstddef>

namespace hls {

template <class T, std::size_t N>
class vector {
public:
    vector() = default;
    vector(const T& x) {
        for (T& lane : lanes_) lane = x;
    }
    T& operator[](std::size_t lane) { return lanes_[lane]; }
    const T& operator[](std::size_t lane) const { return lanes_[lane]; }

#define FPGA_OPERATOR(OP)                                                 \
    vector& operator OP##=(const vector& o) {                             \
        for (std::size_t i = 0; i < N; i++) lanes_[i] = lanes_[i] OP o[i]; \
        return *this;                                                     \
    }                                                                     \
    friend vector operator OP(vector a, const vector& b) { return a OP##= b; }
    FPGA_OPERATOR(+)
    FPGA_OPERATOR(-)
    FPGA_OPERATOR(*)
    FPGA_OPERATOR(/)
    FPGA_OPERATOR(&)
    FPGA_OPERATOR(|)
    FPGA_OPERATOR(^)
    FPGA_OPERATOR(<<)
    FPGA_OPERATOR(>>)
#undef FPGA_OPERATOR

private:
    alignas(sizeof(T) * N) T lanes_[N];
};

}  // namespace hls
