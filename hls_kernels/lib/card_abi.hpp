// The binary interface of a compute unit: between a software-emulation xclbin (a shared object that exports a `cu_entry` for
// each kernel) and the emulator.
//
// A start of a CU is a list of steps, each of which may be cut into independent slices. The emulator runs the slices of a
// step on as many threads (lanes) as it has, and a barrier separates the steps. A step without slices is skipped, because it
// is part of another. A kernel without lanes is one step of one slice.
#pragma once
#include <cstdint>

namespace fpga {

constexpr uint32_t CARD_ABI = 5;

// Device addresses that refer to host memory during one start.
struct cu_window {
    uint64_t address, bytes;
    void* host;
};

// A stream to or from another compute unit. None of the functions but `wait` waits.
struct cu_stream {
    void* fifo;  // null: the argument is no stream
    const char* name;
    uint64_t depth;                                  // in elements
    uint64_t (*open)(void* fifo, uint64_t bytes);    // bytes of an element, as whoever came first has them
    bool (*write)(void* fifo, const void* element);  // false: it is full
    bool (*read)(void* fifo, void* element);         // false: it is empty
    uint64_t (*size)(void* fifo);                    // elements in it
    void (*wait)(void* fifo, bool for_element);      // for an element or a place, some milliseconds at most
};

struct cu_call {
    uint8_t* registers;  // as latched at the start, CU_REGISTER_BYTES long; results go there
    // Host pointer of a device address, and in *bytes how far the buffer object goes on from there; null if the address
    // lies in no buffer object.
    void* (*translate)(void* card, uint64_t address, uint64_t* bytes);
    void* card;
    const cu_window* windows;  // a kernel that cannot follow them refuses with CU_WINDOWS_REFUSED
    uint32_t window_count;
    const cu_stream* streams;  // an entry for each argument; null if the kernel has no streams
    uint32_t steps;            // set by begin
    char error[512];           // set by begin when it refuses: one sentence
    uint64_t scratch[32];      // the kernel's own, kept from begin to end
};

constexpr uint32_t CU_WINDOWS_REFUSED = 0xfffffffeu;  // of begin: without windows it could start

constexpr uint32_t CU_REGISTER_BYTES = 4096;
constexpr uint32_t CU_ARGUMENTS = 0x10;  // first argument's offset, as Vitis HLS lays out s_axilite

// Exported by the shared object under the name `fpga_cu_<kernel>` with C linkage.
struct cu_entry {
    uint32_t abi;
    uint32_t (*begin)(cu_call*);  // 0, or non-zero with error set: nothing has been run
    uint32_t (*slices)(const cu_call*, uint32_t step);
    uint32_t (*execute)(cu_call*, uint32_t step, uint32_t slice, uint32_t slices);  // 0, or a status other than 0
    void (*end)(cu_call*, uint32_t status, uint32_t step);                          // called once unless begin refused
    uint64_t stack;  // bytes that these take of a thread's stack, at most
};

// A shared object whose kernel counts exports a variable `fpga_counters_<kernel>` of this type besides: what the last run that
// has completed on this compute unit counted, as JSON (hls_kernels/sim/counters.hpp), until the next one begins.
using counters_function = const char* (*)();

// A shared object may export a variable `fpga_leave` of this type, which the emulator sets to a function. The function ends
// the run of the calling thread with the end of a message ("called exit(3)"). It returns if the thread executes no run.
using leave_function = void (*)(const char* what);

}  // namespace fpga
