#include "fields.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "error.hpp"

namespace card_server {

namespace {

using card_model::error;
using value = card_model::json::value;
using type = value::type;

constexpr size_t MOST_SHOWN = 80;
constexpr size_t MOST_INDEX_DIGITS = 5;

std::string name_of(const char* name) { return "field '" + std::string(name) + "' of a request must be "; }

// What was given, for a message.
std::string shown(const value* given) {
    if (!given) return "missing";
    switch (given->kind()) {
        case type::null: return "null";
        case type::boolean: return given->as_bool("") ? "true" : "false";
        case type::number: return given->as_written("").substr(0, MOST_SHOWN);
        case type::string: return "'" + given->as_string("").substr(0, MOST_SHOWN) + "'";
        case type::array: return "a list";
        case type::object: return "an object";
    }
    return "unknown";
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool whole(const value& given, uint64_t most, uint64_t& result) {
    if (given.kind() != type::number) return false;
    const std::string& written = given.as_written("");
    if (written.empty() || !std::all_of(written.begin(), written.end(), is_digit)) return false;
    errno = 0;
    result = std::strtoull(written.c_str(), nullptr, 10);
    return errno == 0 && result <= most;
}

uint64_t fields::number(const char* name, uint64_t most) const {
    const value* found = head_.find(name);
    uint64_t result = 0;
    if (!found || !whole(*found, most, result))
        throw error(name_of(name) + "a number from 0 to " + std::to_string(most) + ", not " + shown(found));
    return result;
}

const std::string& fields::text(const char* name) const {
    const value* found = head_.find(name);
    const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
    if (!found || found->kind() != type::string || found->as_string(name).size() > card_protocol::MOST_TEXT ||
        !std::all_of(found->as_string(name).begin(), found->as_string(name).end(), printable))
        throw error(name_of(name) + "text, not " + shown(found));
    return found->as_string(name);
}

const std::string& fields::digest() const {
    const value* found = head_.find("digest");
    const auto hexadecimal = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
    if (!found || found->kind() != type::string ||
        found->as_string("digest").size() != card_protocol::DIGEST_CHARACTERS ||
        !std::all_of(found->as_string("digest").begin(), found->as_string("digest").end(), hexadecimal))
        throw error(name_of("digest") + "a digest, not " + shown(found));
    return found->as_string("digest");
}

bool fields::flag(const char* name) const {
    const value* found = head_.find(name);
    return found && found->kind() == type::boolean && found->as_bool(name);
}

const std::vector<value>& fields::list(const char* name) const {
    const value* found = head_.find(name);
    if (!found || found->kind() != type::array) throw error(name_of(name) + "a list, not " + shown(found));
    return found->as_array(name);
}

std::vector<piece> fields::pieces(const char* name) const {
    std::vector<piece> result;
    for (const value& row : list(name)) {
        piece one{};
        if (row.kind() != type::array || row.as_array(name).size() != 2 ||
            !whole(row.as_array(name)[0], card_protocol::MOST_BYTES, one.bytes) ||
            !whole(row.as_array(name)[1], card_protocol::MOST_BYTES, one.offset))
            throw error(name_of(name) + "a list of [bytes, offset]");
        result.push_back(one);
    }
    return result;
}

std::vector<uint64_t> fields::numbers(const char* name) const {
    std::vector<uint64_t> result;
    if (!has(name)) return result;
    for (const value& one : list(name)) {
        result.push_back(0);
        if (!whole(one, card_protocol::MOST_BYTES, result.back())) throw error(name_of(name) + "a list of numbers");
    }
    return result;
}

std::vector<std::pair<uint32_t, const value*>> fields::arguments() const {
    const value* found = head_.find("arguments");
    std::vector<std::pair<uint32_t, const value*>> result;
    const auto refuse = [] { throw error(name_of("arguments") + "an object with indices as its names"); };
    if (!found || found->kind() != type::object) refuse();
    for (const auto& [key, given] : found->as_object("arguments")) {
        if (key.empty() || key.size() > MOST_INDEX_DIGITS || !std::all_of(key.begin(), key.end(), is_digit)) refuse();
        result.emplace_back(static_cast<uint32_t>(std::strtoul(key.c_str(), nullptr, 10)), &given);
    }
    return result;
}

}  // namespace card_server
