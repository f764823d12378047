#include "error.hpp"

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace card_model {

std::string hex(unsigned long long value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", value);
    return text;
}

std::string system_reason(const char* what) {
    return std::string(what) + ": " + std::generic_category().message(errno);
}

}  // namespace card_model
