// A scalar argument of a request as the bytes that a kernel gets.
#pragma once
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "error.hpp"
#include "json.hpp"

namespace card_server {

// value: a number, ["float", hexadecimal notation of C], or ["bytes", hexadecimal digits]; it has to fit into `bytes`.
// title: of the argument, for messages. Throws card_model::error.
inline std::vector<uint8_t> scalar_bytes(const card_model::json::value& value, uint64_t bytes,
                                         const std::string& title) {
    using type = card_model::json::value::type;
    constexpr uint64_t MOST = 64, MOST_NUMBER = 8;
    const auto refuse = [&](const std::string& why) { throw card_model::error(title + why); };
    std::vector<uint8_t> result(bytes);
    if (value.kind() == type::number) {
        const std::string& text = value.as_written("");
        if (text.find_first_not_of("-0123456789") != std::string::npos || bytes > MOST_NUMBER)
            refuse(" cannot be " + text.substr(0, MOST) + ": expected a buffer, an int, a float or bytes");
        errno = 0;
        const bool negative = text[0] == '-';
        const uint64_t bits = negative ? static_cast<uint64_t>(std::strtoll(text.c_str(), nullptr, 10))
                                       : std::strtoull(text.c_str(), nullptr, 10);
        const bool narrow = bytes < MOST_NUMBER;
        const uint64_t limit = narrow ? uint64_t{1} << (8 * bytes) : 0;
        if (errno != 0 || (narrow && !negative && bits >= limit) ||
            (narrow && negative && static_cast<int64_t>(bits) < -static_cast<int64_t>(limit / 2)))
            refuse(" does not fit into " + std::to_string(bytes) + " bytes");
        std::memcpy(result.data(), &bits, bytes);
        return result;
    }
    const auto is_text = [](const card_model::json::value& one) { return one.kind() == type::string; };
    if (value.kind() != type::array || value.as_array("").size() != 2 || !is_text(value.as_array("")[0]) ||
        !is_text(value.as_array("")[1]))
        refuse(" is no buffer, number or bytes");
    const std::string& kind = value.as_array("")[0].as_string("");
    const std::string& text = value.as_array("")[1].as_string("");
    if (kind == "float" && (bytes == sizeof(float) || bytes == sizeof(double))) {
        char* end = nullptr;
        const double wide = std::strtod(text.c_str(), &end);
        if (text.empty() || *end) refuse(" is no number");
        const auto narrow = static_cast<float>(wide);
        std::memcpy(result.data(), bytes == sizeof wide ? static_cast<const void*>(&wide) : &narrow, bytes);
        return result;
    }
    if (kind != "bytes") refuse(" is no buffer, number or bytes");
    if (text.size() != 2 * bytes || bytes > MOST)
        refuse(" has " + std::to_string(bytes) + " bytes, not " + std::to_string(text.size() / 2));
    for (size_t i = 0; i < bytes; ++i) {
        const std::string digits = text.substr(2 * i, 2);
        if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) refuse(" is no text of bytes");
        result[i] = static_cast<uint8_t>(std::strtoul(digits.c_str(), nullptr, 16));
    }
    return result;
}

}  // namespace card_server
