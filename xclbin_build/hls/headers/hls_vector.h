// Stands in for the header of Vitis HLS while loops are checked: lanes that are computed at once.
#pragma once
#include <array>
#include <cstddef>

namespace hls {

template <class T, std::size_t N>
class alignas(sizeof(T) * N <= 128 && (N & (N - 1)) == 0 ? sizeof(T) * N : alignof(T)) vector {
public:
    typedef T value_type;
    vector() = default;
    vector(const T& x) {
        for (std::size_t i = 0; i < N; i++) {
#pragma HLS unroll
            lanes_[i] = x;
        }
    }
    vector(const std::array<T, N>& x) {
        for (std::size_t i = 0; i < N; i++) {
#pragma HLS unroll
            lanes_[i] = x[i];
        }
    }
    static constexpr std::size_t size() { return N; }
    T& operator[](std::size_t lane) { return lanes_[lane]; }
    const T& operator[](std::size_t lane) const { return lanes_[lane]; }
    T* begin() { return lanes_; }
    T* end() { return lanes_ + N; }
    const T* begin() const { return lanes_; }
    const T* end() const { return lanes_ + N; }

#define __HLS_LANES(OP)                                            \
    vector& operator OP##=(const vector& o) {                      \
        for (std::size_t i = 0; i < N; i++) {                      \
            _Pragma("HLS unroll") lanes_[i] = lanes_[i] OP o[i];   \
        }                                                          \
        return *this;                                              \
    }                                                              \
    friend vector operator OP(vector a, const vector& b) { return a OP##= b; }
    __HLS_LANES(+)
    __HLS_LANES(-)
    __HLS_LANES(*)
    __HLS_LANES(/)
    __HLS_LANES(%)
    __HLS_LANES(&)
    __HLS_LANES(|)
    __HLS_LANES(^)
    __HLS_LANES(<<)
    __HLS_LANES(>>)
#undef __HLS_LANES
#define __HLS_COMPARE(OP)                                              \
    friend vector<bool, N> operator OP(const vector& a, const vector& b) { \
        vector<bool, N> r;                                             \
        for (std::size_t i = 0; i < N; i++) {                          \
            _Pragma("HLS unroll") r[i] = a[i] OP b[i];                 \
        }                                                              \
        return r;                                                      \
    }
    __HLS_COMPARE(<)
    __HLS_COMPARE(>)
    __HLS_COMPARE(<=)
    __HLS_COMPARE(>=)
    __HLS_COMPARE(==)
    __HLS_COMPARE(!=)
#undef __HLS_COMPARE
    vector operator-() const {
        vector r;
        for (std::size_t i = 0; i < N; i++) {
#pragma HLS unroll
            r[i] = -lanes_[i];
        }
        return r;
    }
    T reduce_add() const {
        T sum = 0;
        for (std::size_t i = 0; i < N; i++) {
#pragma HLS unroll
            sum += lanes_[i];
        }
        return sum;
    }
    T reduce_mult() const {
        T product = 1;
        for (std::size_t i = 0; i < N; i++) {
#pragma HLS unroll
            product *= lanes_[i];
        }
        return product;
    }

private:
    T lanes_[N];
};

}  // namespace hls
