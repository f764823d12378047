// Stands in for the header of Vitis HLS: lanes that are computed at once.
#pragma once
#include <array>
#include <cstddef>
#include <initializer_list>
#include <type_traits>

namespace hls {

// What lanes are computed in: integers wrap around in hardware, and in C++ only if they are unsigned.
template <class T_, bool = std::is_integral<T_>::value && !std::is_same<T_, bool>::value>
struct modular {
    typedef T_ type;
};
#ifndef __HLS_CHECK__
template <class T_>
struct modular<T_, true> {
    typedef std::make_unsigned_t<T_> type;
};
#endif

template <class T_, std::size_t N_>
class alignas(sizeof(T_) * N_ <= 128 && ((sizeof(T_) * N_) & (sizeof(T_) * N_ - 1)) == 0 ? sizeof(T_) * N_
                                                                                         : alignof(T_)) vector {
public:
    typedef T_ value_type;
    vector() = default;
    vector(const T_& x) {
        for (std::size_t i = 0; i < N_; i++) {
#pragma HLS unroll
            lanes_[i] = x;
        }
    }
    vector(std::initializer_list<T_> x) {
        std::size_t i = 0;
        for (const T_& lane : x)
            if (i < N_) lanes_[i++] = lane;
    }
    vector(const std::array<T_, N_>& x) {
        for (std::size_t i = 0; i < N_; i++) {
#pragma HLS unroll
            lanes_[i] = x[i];
        }
    }
    static constexpr std::size_t size() { return N_; }
    T_& operator[](std::size_t lane) { return lanes_[lane]; }
    const T_& operator[](std::size_t lane) const { return lanes_[lane]; }
    T_* begin() { return lanes_; }
    T_* end() { return lanes_ + N_; }
    const T_* begin() const { return lanes_; }
    const T_* end() const { return lanes_ + N_; }

#define __HLS_LANES(OP, IN)                                                                                         \
    vector& operator OP##=(const vector & o) {                                                                      \
        for (std::size_t i = 0; i < N_; i++) {                                                                      \
            _Pragma("HLS unroll") lanes_[i] = static_cast<T_>(static_cast<IN>(lanes_[i]) OP static_cast<IN>(o[i])); \
        }                                                                                                           \
        return *this;                                                                                               \
    }                                                                                                               \
    friend vector operator OP(vector a, const vector& b) { return a OP## = b; }
    __HLS_LANES(+, typename modular<T_>::type)
    __HLS_LANES(-, typename modular<T_>::type)
    __HLS_LANES(*, typename modular<T_>::type)
    __HLS_LANES(<<, typename modular<T_>::type)
    __HLS_LANES(/, T_)
    __HLS_LANES(%, T_)
    __HLS_LANES(&, T_)
    __HLS_LANES(|, T_)
    __HLS_LANES(^, T_)
    __HLS_LANES(>>, T_)
#undef __HLS_LANES
#define __HLS_COMPARE(OP)                                                     \
    friend vector<bool, N_> operator OP(const vector & a, const vector & b) { \
        vector<bool, N_> r;                                                   \
        for (std::size_t i = 0; i < N_; i++) {                                \
            _Pragma("HLS unroll") r[i] = a[i] OP b[i];                        \
        }                                                                     \
        return r;                                                             \
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
        for (std::size_t i = 0; i < N_; i++) {
#pragma HLS unroll
            r[i] = -lanes_[i];
        }
        return r;
    }
    T_ reduce_add() const {
        T_ sum = 0;
        for (std::size_t i = 0; i < N_; i++) {
#pragma HLS unroll
            sum += lanes_[i];
        }
        return sum;
    }
    T_ reduce_mult() const {
        T_ product = 1;
        for (std::size_t i = 0; i < N_; i++) {
#pragma HLS unroll
            product *= lanes_[i];
        }
        return product;
    }

private:
    T_ lanes_[N_];
};

}  // namespace hls
