// A stand-in for the header of Vitis HLS, so that g++ can run the test benches on what synthesis would see:
//   g++ -D__SYNTHESIS__ -Itb/hls ...
#pragma once
#include <cstddef>
#include <type_traits>

namespace hls {

// What lanes are computed in: integers wrap around in hardware, and in C++ only if they are unsigned.
template <class T, bool = std::is_integral<T>::value>
struct modular {
    typedef typename std::make_unsigned<T>::type type;
};
template <class T>
struct modular<T, false> {
    typedef T type;
};

template <class T, std::size_t N>
class vector {
public:
    vector() = default;
    vector(const T& x) {
        for (T& lane : lanes_) lane = x;
    }
    T& operator[](std::size_t lane) { return lanes_[lane]; }
    const T& operator[](std::size_t lane) const { return lanes_[lane]; }

#define FPGA_OPERATOR(OP, IN)                                                                \
    vector& operator OP##=(const vector & o) {                                               \
        for (std::size_t i = 0; i < N; i++)                                                  \
            lanes_[i] = static_cast<T>(static_cast<IN>(lanes_[i]) OP static_cast<IN>(o[i])); \
        return *this;                                                                        \
    }                                                                                        \
    friend vector operator OP(vector a, const vector& b) { return a OP## = b; }
    FPGA_OPERATOR(+, typename modular<T>::type)
    FPGA_OPERATOR(-, typename modular<T>::type)
    FPGA_OPERATOR(*, typename modular<T>::type)
    FPGA_OPERATOR(<<, typename modular<T>::type)
    FPGA_OPERATOR(/, T)
    FPGA_OPERATOR(&, T)
    FPGA_OPERATOR(|, T)
    FPGA_OPERATOR(^, T)
    FPGA_OPERATOR(>>, T)
#undef FPGA_OPERATOR

private:
    alignas(sizeof(T) * N) T lanes_[N];
};

}  // namespace hls
