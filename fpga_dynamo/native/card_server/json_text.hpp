// Writing JSON: heads of answers.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace card_server {

// With its quotes. Bytes that are not ASCII become question marks: sentences have none, and a peer decodes UTF-8.
inline std::string quoted(std::string_view text) {
    static const char digits[] = "0123456789abcdef";
    std::string result = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            (result += '\\') += c;
        else if (byte < 0x20)
            ((result += "\\u00") += digits[byte >> 4]) += digits[byte & 15];
        else
            result += byte < 0x7f ? c : '?';
    }
    return result += '"';
}

// An object, member by member.
class json_object {
public:
    json_object& text(const char* name, std::string_view value) { return raw(name, quoted(value)); }
    json_object& number(const char* name, uint64_t value) { return raw(name, std::to_string(value)); }
    json_object& flag(const char* name, bool value) { return raw(name, value ? "true" : "false"); }
    // value: JSON.
    json_object& raw(const char* name, std::string_view value) {
        if (!members_.empty()) members_ += ',';
        members_ += quoted(name);
        (members_ += ':') += value;
        return *this;
    }
    std::string str() const { return "{" + members_ + "}"; }

private:
    std::string members_;
};

// An array, element by element; elements are JSON.
class json_array {
public:
    json_array& add(std::string_view value) {
        if (!elements_.empty()) elements_ += ',';
        elements_ += value;
        return *this;
    }
    std::string str() const { return "[" + elements_ + "]"; }

private:
    std::string elements_;
};

}  // namespace card_server
