// core: faulty; opcodes: faulty
// A core that goes wrong when its first input is TRIGGER, in the way that `mode` says; otherwise output[i] = input[i] + 1.
#pragma once
#include "command.hpp"
#include "lib/vector.hpp"
#ifndef __SYNTHESIS__
#include <cassert>
#include <cstdlib>
#include <stdexcept>

#include "lib/bounds.hpp"
#endif

namespace fpga {

struct faulty_command {
    int32_t opcode;
    int32_t slices;
    uint32_t input;
    uint32_t output;
    int32_t count;    // floats
    int32_t mode;
    float trigger;
};

enum fault : int32_t {
    FAULT_CRASH = 1, FAULT_HANG = 2, FAULT_STATUS = 3, FAULT_WRONG = 4, FAULT_THROW = 5, FAULT_ASSERT = 6, FAULT_EXIT = 7,
    FAULT_ABORT = 8, FAULT_DIVIDE = 9
};
constexpr uint32_t FAULT_CODE = 77;

inline uint32_t faulty(const faulty_command& c, const vec16* commands, vec16* arena, const vec16* weights,
                       uint32_t slice, uint32_t slices) {
    (void)commands;
    (void)weights;
    (void)slice;
    (void)slices;
    const bool now = scalar_at(arena, c.input) == c.trigger;
    if (now && c.mode == FAULT_CRASH) *static_cast<volatile float*>(nullptr) = 1.0f;
    if (now && c.mode == FAULT_STATUS) return FAULT_CODE;
#ifndef __SYNTHESIS__
    if (now && c.mode == FAULT_THROW) throw std::runtime_error("thirteen");
    assert(!(now && c.mode == FAULT_ASSERT));
    if (now && c.mode == FAULT_EXIT) std::exit(3);
    if (now && c.mode == FAULT_ABORT) std::abort();
#endif
    volatile int32_t turn = 0;
    if (now && c.mode == FAULT_DIVIDE) turn = 1000 / turn;
    if (now && c.mode == FAULT_HANG)
        for (;;) turn = turn + 1;
    const float more = now && c.mode == FAULT_WRONG ? 1.25f : 1.0f;
    for (int32_t i = 0; i < c.count; i++)
        store_scalar(arena, int64_t(c.output) + i, scalar_at(arena, int64_t(c.input) + i) + more);
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
inline void faulty_bounds(const faulty_command& c, bounds& b) {
    b.require(c.mode >= 0, "has a negative mode");
    b.read(REGION_ARENA, c.input, c.count);
    b.write(REGION_ARENA, c.output, c.count);
}
#endif

}  // namespace fpga
