// Fields of a request, checked.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "json.hpp"
#include "protocol.hpp"

namespace card_server {

// Bytes of a buffer.
struct piece {
    uint64_t bytes, offset;
};

// The head of a request. Each member throws card_model::error, with a sentence, for a field that is missing or of another
// kind. The value must outlive this.
class fields {
public:
    using value = card_model::json::value;

    explicit fields(const value& head) : head_(head) {}

    // A whole number from 0 to `most`.
    uint64_t number(const char* name, uint64_t most = card_protocol::MOST_BYTES) const;
    // Printable text of ASCII.
    const std::string& text(const char* name) const;
    // 64 hexadecimal digits.
    const std::string& digest() const;
    bool flag(const char* name) const;
    bool has(const char* name) const { return head_.find(name) != nullptr; }
    std::vector<piece> pieces(const char* name) const;
    // A list of numbers; empty if there is no such field.
    std::vector<uint64_t> numbers(const char* name) const;
    // Values by the index of a kernel's argument.
    std::vector<std::pair<uint32_t, const value*>> arguments() const;

private:
    const std::vector<value>& list(const char* name) const;

    const value& head_;
};

// Whether a value is a whole number from 0 to `most`, which then is in `result`.
bool whole(const card_model::json::value& given, uint64_t most, uint64_t& result);

}  // namespace card_server
