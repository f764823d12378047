// Part of builds for the emulator with --sanitize: what the compiler's checks for undefined behaviour call. A check that
// fails ends the run of the compute unit with file and line, where the compiler's own library would end the process.
//
// The names and the records are those of the compilers' undefined behaviour sanitizer, which g++ and clang++ share.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "card_abi.hpp"

extern "C" fpga::leave_function fpga_leave;

namespace {

struct place {
    const char* file;
    uint32_t line, column;
};
struct type {
    uint16_t kind;  // 0: an integer
    uint16_t info;  // bit 0: signed; above: log2 of its bits
    char name[1];
};
struct out_of_bounds {
    place where;
    const type *array, *index;
};
struct shift {
    place where;
    const type *left, *right;
};

long long value_of(const type* t, uintptr_t raw) {
    const unsigned bits = 1u << (t->info >> 1);
    if (bits > 64) return 0;
    if (!(t->info & 1) || bits == 64) return static_cast<long long>(raw);
    const unsigned unused = 64 - bits;
    return static_cast<long long>(static_cast<uint64_t>(raw) << unused) >> unused;
}

[[noreturn]] void leave(const place& where, const char* what) {
    const char* slash = std::strrchr(where.file, '/');
    char text[300];
    std::snprintf(text, sizeof text, "%s (%s:%u:%u)", what, slash ? slash + 1 : where.file, where.line, where.column);
    if (fpga_leave) fpga_leave(text);
    __builtin_trap();
}

}  // namespace

extern "C" {

[[noreturn]] void __ubsan_handle_out_of_bounds_abort(const out_of_bounds* data, uintptr_t index) {
    char text[160];
    std::snprintf(text, sizeof text, "used index %lld of an array of type %.80s", value_of(data->index, index),
                  data->array->name);
    leave(data->where, text);
}
[[noreturn]] void __ubsan_handle_shift_out_of_bounds_abort(const shift* data, uintptr_t, uintptr_t right) {
    char text[160];
    std::snprintf(text, sizeof text, "shifted a value of type %.60s by %lld", data->left->name,
                  value_of(data->right, right));
    leave(data->where, text);
}
[[noreturn]] void __ubsan_handle_divrem_overflow_abort(const place* where, uintptr_t, uintptr_t) {
    leave(*where, "divided an integer by zero, or the smallest one by -1");
}
[[noreturn]] void __ubsan_handle_vla_bound_not_positive_abort(const place* where, uintptr_t) {
    leave(*where, "declared an array without elements");
}
[[noreturn]] void __ubsan_handle_builtin_unreachable(const place* where) {
    leave(*where, "reached code that was said to be unreachable");
}
[[noreturn]] void __ubsan_handle_missing_return(const place* where) {
    leave(*where, "left a function that returns a value without one");
}

}  // extern "C"
