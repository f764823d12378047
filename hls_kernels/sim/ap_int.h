// ap_int and ap_uint of up to 64 bits under g++, on native integers: values are those of AMD's, sizes and speed are not.
//
// Sums and products are int64_t (uint64_t), where AMD's types grow by as many bits as they need; both are exact as long as
// a value fits 64 bits, so assign to the width that the hardware is to have. What does not fit that is cut off, as there.
#pragma once
#include <cstdint>
#include <type_traits>

template <int N, bool SIGNED>
class ap_int_base {
    static_assert(N >= 1 && N <= 64, "1 to 64 bits; a wider word is a structure of lanes");

public:
    typedef typename std::conditional<SIGNED, int64_t, uint64_t>::type native;
    static constexpr int width = N;

    ap_int_base() : value_(0) {}
    template <class I, class = typename std::enable_if<std::is_arithmetic<I>::value>::type>
    ap_int_base(I x) : value_(cut(static_cast<native>(x))) {}
    template <int M, bool S>
    ap_int_base(const ap_int_base<M, S>& x) : value_(cut(static_cast<native>(x.native_value()))) {}

    operator native() const { return value_; }
    native native_value() const { return value_; }
    int to_int() const { return static_cast<int>(value_); }
    unsigned to_uint() const { return static_cast<unsigned>(value_); }
    int64_t to_int64() const { return static_cast<int64_t>(value_); }
    uint64_t to_uint64() const { return static_cast<uint64_t>(value_); }

#define FPGA_ASSIGN(OP, AS)                                                                             \
    template <class I>                                                                                  \
    ap_int_base& operator OP##=(const I & x) {                                                          \
        return *this = ap_int_base(static_cast<native>(static_cast<AS>(value_) OP static_cast<AS>(x))); \
    }
    FPGA_ASSIGN(+, uint64_t)  // sums and products wrap around
    FPGA_ASSIGN(-, uint64_t)
    FPGA_ASSIGN(*, uint64_t)
    FPGA_ASSIGN(/, native)
    FPGA_ASSIGN(%, native)
    FPGA_ASSIGN(&, native)
    FPGA_ASSIGN(|, native)
    FPGA_ASSIGN(^, native)
#undef FPGA_ASSIGN
    ap_int_base& operator<<=(int n) {
        return *this = ap_int_base(static_cast<native>(static_cast<uint64_t>(value_) << n));
    }
    ap_int_base& operator>>=(int n) { return *this = ap_int_base(value_ >> n); }
    ap_int_base& operator++() { return *this += 1; }
    ap_int_base& operator--() { return *this -= 1; }
    ap_int_base operator++(int) {
        const ap_int_base before = *this;
        *this += 1;
        return before;
    }
    ap_int_base operator--(int) {
        const ap_int_base before = *this;
        *this -= 1;
        return before;
    }

    // Bits high .. low of a word, to be read and written.
    class bits {
    public:
        bits(ap_int_base& of, int high, int low) : of_(of), high_(high), low_(low) {}
        operator uint64_t() const { return (static_cast<uint64_t>(of_.value_) >> low_) & mask(); }
        bits& operator=(uint64_t x) {
            const uint64_t rest = static_cast<uint64_t>(of_.value_) & ~(mask() << low_);
            of_ = ap_int_base(static_cast<native>(rest | (x & mask()) << low_));
            return *this;
        }
        bits& operator=(const bits& x) { return *this = static_cast<uint64_t>(x); }

    private:
        uint64_t mask() const { return ~uint64_t{0} >> (63 - (high_ - low_)); }
        ap_int_base& of_;
        int high_, low_;
    };
    bits range(int high, int low) { return bits(*this, high, low); }
    bits operator()(int high, int low) { return bits(*this, high, low); }
    bits operator[](int bit) { return bits(*this, bit, bit); }
    uint64_t range(int high, int low) const { return bits(const_cast<ap_int_base&>(*this), high, low); }
    uint64_t operator()(int high, int low) const { return range(high, low); }
    bool operator[](int bit) const { return range(bit, bit) != 0; }

private:
    static native cut(native x) { return static_cast<native>(static_cast<uint64_t>(x) << (64 - N)) >> (64 - N); }
    native value_;
};

template <int N>
class ap_int : public ap_int_base<N, true> {
public:
    using ap_int_base<N, true>::ap_int_base;
    ap_int() = default;
};
template <int N>
class ap_uint : public ap_int_base<N, false> {
public:
    using ap_int_base<N, false>::ap_int_base;
    ap_uint() = default;
};
