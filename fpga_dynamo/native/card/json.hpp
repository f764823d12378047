// A reader for the manifest: strict JSON, bounded depth, errors that give the position.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace card_model::json {

class value {
public:
    enum class type { null, boolean, number, string, array, object };

    // Each accessor throws error naming `what` when the value is missing or of another type.
    const std::string& as_string(const char* what) const;
    uint64_t as_unsigned(const char* what) const;
    bool as_bool(const char* what) const;
    const std::vector<value>& as_array(const char* what) const;
    const std::map<std::string, value>& as_object(const char* what) const;
    // A number as it is written, with all of its digits.
    const std::string& as_written(const char* what) const;
    const value& at(const std::string& key) const;    // throws if the key is missing
    const value* find(const std::string& key) const;  // null if the key is missing
    type kind() const { return type_; }

private:
    friend class parser;
    type type_ = type::null;
    bool boolean_ = false;
    double number_ = 0;
    std::string string_;  // of a number: as it is written
    std::vector<value> array_;
    std::map<std::string, value> object_;
};

value parse(std::string_view text);

}  // namespace card_model::json
