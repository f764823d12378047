#include "json.hpp"

#include <cmath>
#include <cstdlib>

#include "error.hpp"

namespace card_model::json {

namespace {

constexpr int MAX_DEPTH = 64;
constexpr uint32_t REPLACEMENT = 0xfffd;  // for what is no character

[[noreturn]] void mismatch(const char* what, const char* wanted) {
    throw error("the JSON value '" + std::string(what) + "' is not of type " + wanted);
}

void append_utf8(std::string& out, uint32_t code) {
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xc0 | code >> 6);
        out += static_cast<char>(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        out += static_cast<char>(0xe0 | code >> 12);
        out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (code & 0x3f));
    } else {
        out += static_cast<char>(0xf0 | code >> 18);
        out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
        out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (code & 0x3f));
    }
}

}  // namespace

class parser {
public:
    explicit parser(std::string_view text) : text_(text) {}

    value document() {
        value result = element(0);
        skip_space();
        if (at_ != text_.size()) fail("text after the end");
        return result;
    }

private:
    [[noreturn]] void fail(const char* what) const {
        throw error("JSON: " + std::string(what) + " at byte " + std::to_string(at_));
    }

    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

    void skip_space() {
        while (at_ < text_.size() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
    }

    void expect(char c) {
        skip_space();
        if (peek() != c) fail("an unexpected character");
        ++at_;
    }

    bool accept(std::string_view word) {
        if (text_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }

    value element(int depth) {
        if (depth > MAX_DEPTH) fail("nesting too deep");
        skip_space();
        value result;
        switch (peek()) {
            case '{': return object(depth);
            case '[': return array(depth);
            case '"':
                result.type_ = value::type::string;
                result.string_ = string();
                return result;
            case 't':
            case 'f':
                result.type_ = value::type::boolean;
                result.boolean_ = peek() == 't';
                if (!accept(result.boolean_ ? "true" : "false")) fail("an unknown word");
                return result;
            case 'n':
                if (!accept("null")) fail("an unknown word");
                return result;
            default:
                result.type_ = value::type::number;
                result.number_ = number(result.string_);
                return result;
        }
    }

    value object(int depth) {
        value result;
        result.type_ = value::type::object;
        expect('{');
        skip_space();
        if (peek() == '}') return ++at_, result;
        for (;;) {
            skip_space();
            std::string key = string();
            expect(':');
            result.object_[std::move(key)] = element(depth + 1);
            skip_space();
            if (peek() == '}') return ++at_, result;
            expect(',');
        }
    }

    value array(int depth) {
        value result;
        result.type_ = value::type::array;
        expect('[');
        skip_space();
        if (peek() == ']') return ++at_, result;
        for (;;) {
            result.array_.push_back(element(depth + 1));
            skip_space();
            if (peek() == ']') return ++at_, result;
            expect(',');
        }
    }

    uint32_t four_hex_digits() {
        uint32_t code = 0;
        for (int i = 0; i < 4; ++i, ++at_) {
            const char c = peek();
            if (c >= '0' && c <= '9')
                code = code * 16 + static_cast<uint32_t>(c - '0');
            else if (c >= 'a' && c <= 'f')
                code = code * 16 + static_cast<uint32_t>(c - 'a' + 10);
            else if (c >= 'A' && c <= 'F')
                code = code * 16 + static_cast<uint32_t>(c - 'A' + 10);
            else
                fail("a bad \\u escape");
        }
        return code;
    }

    uint32_t escaped_code() {
        uint32_t code = four_hex_digits();
        if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {  // first half of a surrogate pair
            const size_t second = at_;
            at_ += 2;
            const uint32_t low = four_hex_digits();
            if (low >= 0xdc00 && low < 0xe000) return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            at_ = second;  // a character of its own
        }
        if (code >= 0xd800 && code < 0xe000) return REPLACEMENT;  // half a pair, which others' writers allow
        return code;
    }

    std::string string() {
        if (peek() != '"') fail("a string was expected");
        ++at_;
        std::string out;
        while (at_ < text_.size()) {
            const char c = text_[at_++];
            if (c == '"') return out;
            if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
            if (c != '\\') {
                out += c;
                continue;
            }
            const char escape = peek();
            ++at_;
            switch (escape) {
                case '"':
                case '\\':
                case '/': out += escape; break;
                case 'b': out += '\b'; break;
                case 'f': out += '\f'; break;
                case 'n': out += '\n'; break;
                case 'r': out += '\r'; break;
                case 't': out += '\t'; break;
                case 'u': append_utf8(out, escaped_code()); break;
                default: fail("an unknown escape");
            }
        }
        fail("a string without an end");
    }

    double number(std::string& written) {
        const size_t start = at_;
        while (at_ < text_.size() && std::string_view("+-.0123456789eE").find(peek()) != std::string_view::npos) ++at_;
        const std::string digits(text_.substr(start, at_ - start));
        char* end = nullptr;
        const double result = std::strtod(digits.c_str(), &end);
        if (digits.empty() || *end != '\0') {
            at_ = start;
            fail("a value was expected");
        }
        written = digits;
        return result;
    }

    std::string_view text_;
    size_t at_ = 0;
};

const std::string& value::as_string(const char* what) const {
    if (type_ != type::string) mismatch(what, "string");
    return string_;
}

uint64_t value::as_unsigned(const char* what) const {
    // Up to 2^53 a double holds every integer; addresses and sizes of cards stay below that.
    if (type_ != type::number || number_ < 0 || number_ > 9007199254740992.0 || number_ != std::floor(number_))
        mismatch(what, "whole number from 0 to 2^53");
    return static_cast<uint64_t>(number_);
}

bool value::as_bool(const char* what) const {
    if (type_ != type::boolean) mismatch(what, "boolean");
    return boolean_;
}

const std::vector<value>& value::as_array(const char* what) const {
    if (type_ != type::array) mismatch(what, "array");
    return array_;
}

const std::map<std::string, value>& value::as_object(const char* what) const {
    if (type_ != type::object) mismatch(what, "object");
    return object_;
}

const std::string& value::as_written(const char* what) const {
    if (type_ != type::number) mismatch(what, "number");
    return string_;
}

const value* value::find(const std::string& key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &found->second;
}

const value& value::at(const std::string& key) const {
    const value* found = find(key);
    if (!found) throw error("the JSON key '" + key + "' is missing");
    return *found;
}

value parse(std::string_view text) { return parser(text).document(); }

}  // namespace card_model::json
