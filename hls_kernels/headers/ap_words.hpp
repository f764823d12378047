// What _BitInt(W) is to clang, for g++, which has no such type in C++: integers of W bits that wrap around.
//
// Up to 64 bits they are a native integer, wider ones are words of 64 bits, the lowest first. Bits above W are copies of the sign,
// or zero. Both operands of an operator have one type, which the caller chooses wide enough; a shift by W or more leaves the
// sign or zero, one by less than zero goes the other way, as AMD's does.
#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace ap_detail {

template <class T_>
using if_number = typename std::enable_if<std::is_arithmetic<T_>::value || std::is_enum<T_>::value>::type;

// x without its fraction, modulo 2^64, and how often the result is still to be doubled.
struct scaled {
    uint64_t magnitude;
    int doublings;
    bool negative;
};
inline scaled scaled_of(double x) {
    int exponent = 0;
    const double mantissa = std::frexp(std::fabs(x), &exponent);
    if (!std::isfinite(x) || exponent <= 0) return {0, 0, false};
    const int bits = exponent < 53 ? exponent : 53;
    return {static_cast<uint64_t>(std::ldexp(mantissa, bits)), exponent - bits, x < 0};
}

template <int W_, bool S_>
class wide_words;

template <int W_, bool S_>
class one_word {
    static_assert(W_ >= 1 && W_ <= 64, "wider ones are wide_words");
    typedef typename std::conditional<S_, int64_t, uint64_t>::type number;

public:
    one_word() = default;
    template <class T_, class = if_number<T_>>
    constexpr one_word(T_ x) : value_(cut(bits_of(x))) {}
    template <int A_, bool SA_>
    explicit constexpr one_word(const one_word<A_, SA_>& x) : value_(cut(x.word(0))) {}
    template <int A_, bool SA_>
    explicit constexpr one_word(const wide_words<A_, SA_>& x) : value_(cut(x.word(0))) {}

    template <class T_, class = if_number<T_>>
    explicit constexpr operator T_() const {
        return static_cast<T_>(value_);
    }
    constexpr uint64_t word(int at) const {
        return at == 0 ? static_cast<uint64_t>(value_) : S_ && value_ < native(0) ? ~uint64_t{0} : 0;
    }

    friend constexpr one_word operator+(one_word a, one_word b) { return a.word(0) + b.word(0); }
    friend constexpr one_word operator-(one_word a, one_word b) { return a.word(0) - b.word(0); }
    friend constexpr one_word operator*(one_word a, one_word b) { return a.word(0) * b.word(0); }
    friend constexpr one_word operator/(one_word a, one_word b) {
        return b.is_minus_one() ? -a : one_word(a.of() / b.of());
    }
    friend constexpr one_word operator%(one_word a, one_word b) {
        return b.is_minus_one() ? one_word(0) : one_word(a.of() % b.of());
    }
    friend constexpr one_word operator&(one_word a, one_word b) { return a.word(0) & b.word(0); }
    friend constexpr one_word operator|(one_word a, one_word b) { return a.word(0) | b.word(0); }
    friend constexpr one_word operator^(one_word a, one_word b) { return a.word(0) ^ b.word(0); }
    friend constexpr one_word operator~(one_word a) { return ~a.word(0); }
    friend constexpr one_word operator-(one_word a) { return -a.word(0); }
    friend constexpr one_word operator<<(one_word a, int n) {
        return n < 0 ? a >> -n : n >= W_ ? one_word(0) : one_word(a.word(0) << n);
    }
    friend constexpr one_word operator>>(one_word a, int n) {
        return n < 0 ? a << -n : one_word(a.of() >> (n < W_ ? n : W_ - 1) >> (n >= W_ && !S_));
    }
    friend constexpr bool operator==(one_word a, one_word b) { return a.value_ == b.value_; }
    friend constexpr bool operator!=(one_word a, one_word b) { return a.value_ != b.value_; }
    friend constexpr bool operator<(one_word a, one_word b) { return a.value_ < b.value_; }
    friend constexpr bool operator>(one_word a, one_word b) { return a.value_ > b.value_; }
    friend constexpr bool operator<=(one_word a, one_word b) { return a.value_ <= b.value_; }
    friend constexpr bool operator>=(one_word a, one_word b) { return a.value_ >= b.value_; }

private:
    typedef std::conditional_t<S_, int8_t, uint8_t> bits8;
    typedef std::conditional_t<S_, int16_t, uint16_t> bits16;
    typedef std::conditional_t<S_, int32_t, uint32_t> bits32;
    typedef std::conditional_t<(W_ <= 8), bits8,
                               std::conditional_t<(W_ <= 16), bits16, std::conditional_t<(W_ <= 32), bits32, number>>>
        native;

    template <class T_>
    static constexpr uint64_t bits_of(T_ x) {
        if constexpr (std::is_floating_point<T_>::value) {
            const scaled s = scaled_of(static_cast<double>(x));
            const uint64_t magnitude = s.doublings < 64 ? s.magnitude << s.doublings : 0;
            return s.negative ? -magnitude : magnitude;
        } else {
            return static_cast<uint64_t>(x);
        }
    }
    static constexpr native cut(uint64_t bits) {
        if constexpr (S_)
            return static_cast<native>(static_cast<int64_t>(bits << (64 - W_)) >> (64 - W_));
        else
            return static_cast<native>(bits << (64 - W_) >> (64 - W_));
    }
    constexpr number of() const { return value_; }
    constexpr bool is_minus_one() const { return S_ && value_ == static_cast<native>(-1); }  // of which / may overflow

    native value_;
};

template <int W_, bool S_>
class wide_words {
    static constexpr int words = (W_ + 63) / 64, spare = 64 * words - W_;

public:
    wide_words() = default;
    template <class T_, class = if_number<T_>>
    constexpr wide_words(T_ x) : words_{} {
        if constexpr (std::is_floating_point<T_>::value) {
            const scaled s = scaled_of(static_cast<double>(x));
            words_[0] = s.magnitude;
            *this = s.doublings < W_ ? *this << s.doublings : wide_words(0);
            if (s.negative) *this = -*this;
        } else {
            words_[0] = static_cast<uint64_t>(x);
            for (int i = 1; i < words; i++) words_[i] = std::is_signed<T_>::value && x < T_(0) ? ~uint64_t{0} : 0;
            cut();
        }
    }
    template <int A_, bool SA_>
    explicit constexpr wide_words(const one_word<A_, SA_>& x) : words_{} {
        take(x);
    }
    template <int A_, bool SA_>
    explicit constexpr wide_words(const wide_words<A_, SA_>& x) : words_{} {
        take(x);
    }

    template <class T_, class = if_number<T_>>
    explicit constexpr operator T_() const {
        if constexpr (std::is_same<T_, bool>::value)
            return *this != wide_words(0);
        else if constexpr (std::is_floating_point<T_>::value)
            return static_cast<T_>(rounded());
        else
            return static_cast<T_>(words_[0]);
    }
    constexpr uint64_t word(int at) const { return at < words ? words_[at] : negative() ? ~uint64_t{0} : 0; }

    friend constexpr wide_words operator+(const wide_words& a, const wide_words& b) {
        wide_words r(0);
        uint64_t carry = 0;
        for (int i = 0; i < words; i++) {
            const unsigned __int128 sum = static_cast<unsigned __int128>(a.words_[i]) + b.words_[i] + carry;
            r.words_[i] = static_cast<uint64_t>(sum);
            carry = static_cast<uint64_t>(sum >> 64);
        }
        return r.cut();
    }
    friend constexpr wide_words operator-(const wide_words& a) { return ~a + wide_words(1); }
    friend constexpr wide_words operator-(const wide_words& a, const wide_words& b) { return a + -b; }
    friend constexpr wide_words operator*(const wide_words& a, const wide_words& b) {
        wide_words r(0);
        for (int i = 0; i < words; i++) {
            uint64_t carry = 0;
            for (int j = 0; i + j < words; j++) {
                const unsigned __int128 sum = static_cast<unsigned __int128>(a.words_[i]) * b.words_[j] +
                                              r.words_[i + j] + carry;
                r.words_[i + j] = static_cast<uint64_t>(sum);
                carry = static_cast<uint64_t>(sum >> 64);
            }
        }
        return r.cut();
    }
    friend wide_words operator/(const wide_words& a, const wide_words& b) { return a.divided(b).quotient; }
    friend wide_words operator%(const wide_words& a, const wide_words& b) { return a.divided(b).rest; }
    friend constexpr wide_words operator~(const wide_words& a) {
        wide_words r(0);
        for (int i = 0; i < words; i++) r.words_[i] = ~a.words_[i];
        return r.cut();
    }
    friend constexpr wide_words operator<<(const wide_words& a, int n) {
        if (n < 0) return a >> -n;
        wide_words r(0);
        for (int i = words - 1; i >= n / 64 && n < W_; i--) {
            r.words_[i] = a.words_[i - n / 64] << (n % 64);
            if (n % 64 && i > n / 64) r.words_[i] |= a.words_[i - n / 64 - 1] >> (64 - n % 64);
        }
        return r.cut();
    }
    friend constexpr wide_words operator>>(const wide_words& a, int n) {
        if (n < 0) return a << -n;
        wide_words r(0);
        for (int i = 0; i < words; i++) {
            const int from = n < W_ ? i + n / 64 : words;
            r.words_[i] = a.word(from) >> (n % 64);
            if (n % 64) r.words_[i] |= a.word(from + 1) << (64 - n % 64);
        }
        return r.cut();
    }
#define AP_BY_WORD(OP)                                                                  \
    friend constexpr wide_words operator OP(const wide_words& a, const wide_words& b) { \
        wide_words r(0);                                                                \
        for (int i = 0; i < words; i++) r.words_[i] = a.words_[i] OP b.words_[i];       \
        return r;                                                                       \
    }
    AP_BY_WORD(&)
    AP_BY_WORD(|)
    AP_BY_WORD(^)
#undef AP_BY_WORD
    friend constexpr bool operator==(const wide_words& a, const wide_words& b) { return a.compared(b) == 0; }
    friend constexpr bool operator!=(const wide_words& a, const wide_words& b) { return a.compared(b) != 0; }
    friend constexpr bool operator<(const wide_words& a, const wide_words& b) { return a.compared(b) < 0; }
    friend constexpr bool operator>(const wide_words& a, const wide_words& b) { return a.compared(b) > 0; }
    friend constexpr bool operator<=(const wide_words& a, const wide_words& b) { return a.compared(b) <= 0; }
    friend constexpr bool operator>=(const wide_words& a, const wide_words& b) { return a.compared(b) >= 0; }

private:
    struct division;

    constexpr bool negative() const { return S_ && words_[words - 1] >> 63; }
    constexpr wide_words& cut() {
        uint64_t& top = words_[words - 1];
        top = S_ ? static_cast<uint64_t>(static_cast<int64_t>(top << spare) >> spare) : top << spare >> spare;
        return *this;
    }
    template <class Words_>
    constexpr void take(const Words_& x) {
        for (int i = 0; i < words; i++) words_[i] = x.word(i);
        cut();
    }
    constexpr int compared(const wide_words& b) const {
        if (negative() != b.negative()) return negative() ? -1 : 1;
        for (int i = words - 1; i >= 0; i--)
            if (words_[i] != b.words_[i]) return words_[i] < b.words_[i] ? -1 : 1;
        return 0;
    }
    // Bit by bit, rounded towards zero; by zero it is the processor's own error.
    division divided(const wide_words& b) const {
        typedef wide_words<W_ + 1, false> magnitudes;
        const magnitudes by(b.negative() ? -wide_words<W_ + 1, true>(b) : wide_words<W_ + 1, true>(b));
        const magnitudes of(negative() ? -wide_words<W_ + 1, true>(*this) : wide_words<W_ + 1, true>(*this));
        volatile int divisor = by != magnitudes(0);
        magnitudes quotient(0), rest(1 / divisor - 1);
        for (int i = W_ - 1; i >= 0; i--) {
            rest = rest << 1 | magnitudes(static_cast<int>(of.word(i / 64) >> (i % 64) & 1));
            if (rest >= by) {
                rest = rest - by;
                quotient = quotient | magnitudes(1) << i;
            }
        }
        const wide_words q(quotient), r(rest);
        return {negative() != b.negative() ? -q : q, negative() ? -r : r};
    }
    // To the nearest, ties to even: 64 bits in front, in whose last one is what is left out.
    double rounded() const {
        const wide_words<W_ + 1, false> of(negative() ? -wide_words<W_ + 1, true>(*this)
                                                      : wide_words<W_ + 1, true>(*this));
        int above = 0;
        while (above < W_ && of >> (above + 64) != wide_words<W_ + 1, false>(0)) above++;
        const wide_words<W_ + 1, false> first = of >> above;
        const uint64_t front = first.word(0) | (first << above != of);
        const double x = std::ldexp(static_cast<double>(front), above);
        return negative() ? -x : x;
    }

    uint64_t words_[words];
};

template <int W_, bool S_>
struct wide_words<W_, S_>::division {
    wide_words quotient, rest;
};

}  // namespace ap_detail
