#include "slots.hpp"

#include <nanobind/nanobind.h>

#include <cstdint>

namespace {

bool narrow(const int64_t* from, int32_t* to, size_t count) {
    uint64_t lost = 0;  // looked at once, so that the loop vectorises
    for (size_t i = 0; i < count; ++i) {
        to[i] = static_cast<int32_t>(from[i]);
        lost |= static_cast<uint64_t>(from[i] ^ to[i]);
    }
    return lost == 0;
}

}  // namespace

element element_of(const std::string& dtype) {
    if (dtype == "float32") return element::float32;
    if (dtype == "int32") return element::int32;
    if (dtype == "int64") return element::int64;
    if (dtype == "bool") return element::boolean;
    if (dtype == "float16" || dtype == "bfloat16") return element::two_bytes;
    if (dtype == "uint8" || dtype == "int8") return element::byte;
    throw nanobind::value_error(("no slot holds elements of type " + dtype).c_str());
}

size_t slot_bytes(element kind) { return kind == element::byte ? 1 : kind == element::two_bytes ? 2 : 4; }

bool is_plain(element kind) { return kind != element::int64 && kind != element::boolean; }

bool convert_in(element kind, const void* tensor, void* slot, size_t count) {
    if (kind == element::int64) return narrow(static_cast<const int64_t*>(tensor), static_cast<int32_t*>(slot), count);
    const auto* from = static_cast<const uint8_t*>(tensor);
    auto* to = static_cast<float*>(slot);
    for (size_t i = 0; i < count; ++i) to[i] = from[i] ? 1.0f : 0.0f;
    return true;
}

void convert_out(element kind, const void* slot, void* tensor, size_t count) {
    if (kind == element::int64) {
        const auto* from = static_cast<const int32_t*>(slot);
        auto* to = static_cast<int64_t*>(tensor);
        for (size_t i = 0; i < count; ++i) to[i] = from[i];
        return;
    }
    const auto* from = static_cast<const float*>(slot);
    auto* to = static_cast<uint8_t*>(tensor);
    for (size_t i = 0; i < count; ++i) to[i] = from[i] != 0.0f;
}
