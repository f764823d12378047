// How the emulator's stubs read a CU's registers: scalars, and pointers as the emulator translates them.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "card_abi.hpp"

namespace fpga {

// \tparam T_ Type of the value.
template <class T_>
inline T_ cu_scalar(const cu_call* call, uint32_t offset) {
    T_ value;
    std::memcpy(static_cast<void*>(&value), call->registers + offset, sizeof value);
    return value;
}

// What the kernel has written to a scalar that it was given by reference; the host reads the register.
// \tparam T_ Type of the value.
template <class T_>
inline void cu_result(cu_call* call, uint32_t offset, const T_& value) {
    std::memcpy(call->registers + offset, static_cast<const void*>(&value), sizeof value);
}

// Host pointer of the buffer whose device address lies at `offset`; null, with the call's error set, when there is no
// such buffer or its address is not a multiple of `alignment` bytes.
// \tparam T_ Type of the value.
template <class T_>
inline T_* cu_region(cu_call* call, uint32_t offset, const char* name, uint64_t alignment, uint64_t& bytes) {
    const uint64_t address = cu_scalar<uint64_t>(call, offset);
    bytes = 0;
    void* host = call->translate(call->card, address, &bytes);
    if (!host) {
        std::snprintf(call->error, sizeof call->error, "argument %s: address 0x%llx lies in no buffer of the card",
                      name, static_cast<unsigned long long>(address));
        return nullptr;
    }
    if (address % alignment || reinterpret_cast<uintptr_t>(host) % alignment) {
        std::snprintf(call->error, sizeof call->error, "argument %s: address 0x%llx is not a multiple of %llu", name,
                      static_cast<unsigned long long>(address), static_cast<unsigned long long>(alignment));
        return nullptr;
    }
    return static_cast<T_*>(host);
}

}  // namespace fpga
