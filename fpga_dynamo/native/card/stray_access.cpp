#include "stray_access.hpp"

#include <cstring>

#include "error.hpp"
#include "red_zone.hpp"

namespace card_model {

namespace {

bool find_buffer(const argument_info& argument, const ert_command& command, const address_space& memory,
                 buffer_extent* found) {
    if (!argument.global) return false;
    uint64_t address = 0;
    std::memcpy(&address, command.registers + argument.offset, sizeof address);
    return memory.find(address, found);
}

std::string title(const kernel_info& kernel, size_t index) {
    return "argument " + std::to_string(index) + " ('" + kernel.arguments[index].name + "')";
}

}  // namespace

std::string describe_access(const kernel_info& kernel, const ert_command& command, const address_space& memory,
                            const void* host) {
    std::string text = memory.describe(host);
    buffer_extent near, bound;
    if (!memory.find_near(host, &near)) return text.empty() ? "" : text + ", in no buffer";
    const uint64_t away = distance(host, near);
    if (away == 0) return text;
    std::string whose = "the buffer at " + hex(near.address);
    for (size_t i = kernel.arguments.size(); i-- > 0;)
        if (find_buffer(kernel.arguments[i], command, memory, &bound) && bound.address == near.address)
            whose = title(kernel, i);
    if (!text.empty()) text += ", ";
    return text + (host < near.host ? std::to_string(away) + " bytes in front of " + whose
                                    : std::to_string(away - 1) + " bytes behind the end of " + whose);
}

std::string take_stray_writes(const kernel_info& kernel, const ert_command& command, const address_space& memory) {
    std::string text;
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
        buffer_extent bound;
        if (!find_buffer(kernel.arguments[i], command, memory, &bound)) continue;
        const auto found = find_stray_write(bound.host, bound.bytes);
        if (!found) continue;
        lay_red_zone(bound.host, bound.bytes);
        text += (text.empty() ? "wrote behind the end of " : ", and behind that of ") + title(kernel, i) + ": bytes " +
                std::to_string(found->first) + " to " + std::to_string(found->last) + " behind its buffer of " +
                std::to_string(bound.bytes) + " bytes have changed";
    }
    return text;
}

}  // namespace card_model
