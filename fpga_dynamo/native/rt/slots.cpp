#include "slots.hpp"

#include <stdexcept>

using card_model::direction;
using card_model::ert_state;
using card_model::transfer;

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
    if (dtype == "complex64") return element::complex64;
    throw std::invalid_argument("no slot holds elements of type " + dtype);
}

size_t slot_bytes(element kind) {
    switch (kind) {
        case element::byte: return 1;
        case element::two_bytes: return 2;
        case element::complex64: return 8;
        default: return 4;
    }
}

size_t tensor_bytes(element kind) {
    return kind == element::int64 ? 8 : kind == element::boolean ? 1 : slot_bytes(kind);
}

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

ert_state launch_slots(launchable& target, const slot_list& inputs, const std::vector<const void*>& from,
                       const slot_list& outputs, const std::vector<void*>& to, unsigned timeout_ms) {
    std::vector<transfer> reads, writes;  // of what lies in a slot as it does in a tensor
    std::vector<extent> windows;
    reads.reserve(from.size());
    writes.reserve(to.size());
    for (size_t i = 0; i < from.size(); ++i) {
        const slot& in = inputs.slots[i];
        if (is_plain(in.kind)) {
            reads.push_back({reinterpret_cast<uint64_t>(from[i]), in.bytes(), in.offset});
        } else {
            uint8_t* memory = target.window(direction::to_device, in.bytes(), in.offset);
            if (!convert_in(in.kind, from[i], memory, in.count)) return ert_state::created;
        }
    }
    for (size_t i = 0; i < to.size(); ++i) {
        const slot& out = outputs.slots[i];
        if (is_plain(out.kind))
            writes.push_back({reinterpret_cast<uint64_t>(to[i]), out.bytes(), out.offset});
        else
            windows.push_back({out.offset, out.offset + out.bytes()});
    }
    const ert_state state = target.launch({reads, inputs.all, {}}, {writes, outputs.all, std::move(windows)},
                                          timeout_ms);
    if (state != ert_state::completed) return state;
    for (size_t i = 0; i < to.size(); ++i) {
        const slot& out = outputs.slots[i];
        if (is_plain(out.kind)) continue;
        const uint8_t* memory = target.window(direction::from_device, out.bytes(), out.offset);
        convert_out(out.kind, memory, to[i], out.count);
    }
    return state;
}
