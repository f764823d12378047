// Part of every build for the emulator, linked with --wrap: a call that would end the process ends the run of the compute
// unit instead. Exceptions need nothing here: the emulator catches them.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "card_abi.hpp"

extern "C" __attribute__((visibility("default"))) fpga::leave_function fpga_leave = nullptr;

namespace {

// Returns where no run is under way: in a thread that a kernel has started, or while the shared object is unloaded.
void leave(const char* what) {
    if (fpga_leave) fpga_leave(what);
}

const char* file_name(const char* path) {
    const char* slash = std::strrchr(path, '/');
    return slash ? slash + 1 : path;
}

}  // namespace

extern "C" {

#define FPGA_WRAP_EXIT(name)                                              \
    [[noreturn]] void __real_##name(int status);                          \
    [[noreturn]] void __wrap_##name(int status);                          \
    void __wrap_##name(int status) {                                      \
        char text[32];                                                    \
        std::snprintf(text, sizeof text, "called " #name "(%d)", status); \
        leave(text);                                                      \
        __real_##name(status);                                            \
    }
FPGA_WRAP_EXIT(exit)
FPGA_WRAP_EXIT(_exit)
FPGA_WRAP_EXIT(_Exit)
FPGA_WRAP_EXIT(quick_exit)

[[noreturn]] void __real_abort();
[[noreturn]] void __wrap_abort();
void __wrap_abort() {
    leave("called abort()");
    __real_abort();
}

[[noreturn]] void __real___assert_fail(const char* claim, const char* file, unsigned line, const char* function);
[[noreturn]] void __wrap___assert_fail(const char* claim, const char* file, unsigned line, const char* function);
void __wrap___assert_fail(const char* claim, const char* file, unsigned line, const char* function) {
    char text[300];
    std::snprintf(text, sizeof text, "failed the assertion `%s' at %s:%u", claim, file_name(file), line);
    leave(text);
    __real___assert_fail(claim, file, line, function);
}

[[noreturn]] void __real___cxa_pure_virtual();
[[noreturn]] void __wrap___cxa_pure_virtual();
void __wrap___cxa_pure_virtual() {
    leave("called a pure virtual function");
    __real___cxa_pure_virtual();
}

[[noreturn]] void __real_pthread_exit(void* value);
[[noreturn]] void __wrap_pthread_exit(void* value);
void __wrap_pthread_exit(void* value) {
    leave("called pthread_exit()");
    __real_pthread_exit(value);
}

}  // extern "C"
