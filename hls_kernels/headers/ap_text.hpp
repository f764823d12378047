// Numbers as text: what a kernel prints, and what it is given as digits.
#pragma once
#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <string>

namespace ap_detail {

// Digits with a sign and 0x, 0o or 0b in front, as they may be. Raises std::invalid_argument for anything else.
template <class Raw_>
Raw_ parsed(const char* digits, int radix) {
    const char* at = digits;
    const bool negative = *at == '-';
    if (*at == '-' || *at == '+') at++;
    if (at[0] == '0' && at[1] != 0) {
        const int named = (at[1] | 32) == 'x'                  ? 16
                          : (at[1] | 32) == 'o'                ? 8
                          : (at[1] | 32) == 'b' && radix != 16 ? 2
                                                               : 0;
        if (named) radix = named, at += 2;
    }
    Raw_ r(0);
    for (; *at; at++) {
        const int c = *at | 32, digit = c >= 'a' ? c - 'a' + 10 : *at - '0';
        if (digit < 0 || digit >= radix)
            throw std::invalid_argument(std::string("'") + digits + "' is no number of radix " + std::to_string(radix));
        r = r * Raw_(radix) + Raw_(digit);
    }
    return negative ? -r : r;
}

// x, which has room for its own absolute value and for 10.
template <class Raw_>
std::string decimal(Raw_ x) {
    const bool negative = x < Raw_(0);
    if (negative) x = -x;
    std::string text;
    do {
        text += static_cast<char>('0' + static_cast<int>(x % Raw_(10)));
        x = x / Raw_(10);
    } while (x != Raw_(0));
    if (negative) text += '-';
    std::reverse(text.begin(), text.end());
    return text;
}

}  // namespace ap_detail
